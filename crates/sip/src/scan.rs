//! Searching sixteen bytes at a time.

use wide::u8x16;

const BLOCK_BYTES: usize = 16;

/// Sixteen bytes, compared all at once.
#[derive(Clone, Copy)]
pub(crate) struct Block(u8x16);

/// The bytes of a block that are looked for.
#[derive(Clone, Copy)]
pub(crate) struct Marks(u8x16);

impl Block {
    pub(crate) const fn new(bytes: [u8; BLOCK_BYTES]) -> Self {
        Self(u8x16::new(bytes))
    }

    /// Those equal to `byte`.
    #[inline(always)]
    pub(crate) fn is(self, byte: u8) -> Marks {
        Marks(self.0.simd_eq(u8x16::splat(byte)))
    }

    /// White space and control characters.
    #[inline(always)]
    pub(crate) fn is_blank(self) -> Marks {
        Marks(self.0.min(u8x16::splat(b' ')).simd_eq(self.0))
    }

    /// Those within `first..=last`.
    #[inline(always)]
    pub(crate) fn is_within(self, first: u8, last: u8) -> Marks {
        let above = self.0 - u8x16::splat(first);
        Marks(above.min(u8x16::splat(last - first)).simd_eq(above))
    }

    /// With bit 5 set: capital letters become small ones.
    #[inline(always)]
    pub(crate) fn lower_case(self) -> Self {
        Self(self.0 | u8x16::splat(0x20))
    }
}

impl Marks {
    /// How many bytes come before the first marked one; none marked: 32.
    #[inline(always)]
    pub(crate) fn before_first(self) -> usize {
        self.bits().trailing_zeros() as usize
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.0.to_bitmask()
    }
}

impl std::ops::BitOr for Marks {
    type Output = Self;

    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::Not for Marks {
    type Output = Self;

    #[inline(always)]
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// How many bytes come before the first that is marked; all when none is.
#[inline(always)]
pub(crate) fn seek(bytes: &[u8], marks: impl Fn(Block) -> Marks) -> usize {
    let (blocks, rest) = bytes.as_chunks();
    let mut before = 0;
    for &block in blocks {
        let found = marks(Block::new(block)).bits();
        if found != 0 {
            return before + found.trailing_zeros() as usize;
        }
        before += BLOCK_BYTES;
    }
    before + seek_in_part(rest, marks)
}

/// The same in less than a block.
#[cold]
fn seek_in_part(bytes: &[u8], marks: impl Fn(Block) -> Marks) -> usize {
    let found = marks(Block::new(padded(bytes))).before_first();
    found.min(bytes.len())
}

/// The bytes, less than sixteen, and zeros behind them.
pub(crate) fn padded(bytes: &[u8]) -> [u8; BLOCK_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    block[..bytes.len()].copy_from_slice(bytes);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        for len in 0..50 {
            let mut bytes = vec![b'a'; len];
            assert_eq!(seek(&bytes, |block| block.is(b'x')), len);
            for place in (0..len).rev() {
                bytes[place] = b'x';
                assert_eq!(seek(&bytes, |block| block.is(b'x')), place, "of {len}");
            }
        }
    }

    #[test]
    fn classes_are_what_they_say() {
        for byte in 0..=u8::MAX {
            let found = |marks: fn(Block) -> Marks| seek(&[byte], marks) == 0;
            assert_eq!(found(|block| block.is(b';')), byte == b';');
            assert_eq!(found(Block::is_blank), byte <= b' ');
            assert_eq!(found(|block| !block.is_blank()), byte > b' ');
            assert_eq!(
                found(|block| block.is_within(b'0', b'9')),
                byte.is_ascii_digit()
            );
        }
    }
}
