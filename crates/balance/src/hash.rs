//! The hashes of the hashing policies. Edges that must agree on a server compute the same values,
//! so these hashes never change.

/// OpenSER's core hash of a string: four bytes at a time, big-endian, then the rest as one number.
pub(crate) fn openser(key: &[u8]) -> u32 {
    let fold = |h: u32, word: u32| h.wrapping_add(word ^ (word >> 3));
    let (words, rest) = key.as_chunks::<4>();
    let h = words
        .iter()
        .fold(0, |h, word| fold(h, u32::from_be_bytes(*word)));
    let tail = rest.iter().fold(0, |v, byte| (v << 8) + u32::from(*byte));
    let h = fold(h, tail);
    h.wrapping_add(h >> 11)
        .wrapping_add((h >> 13).wrapping_add(h >> 23))
}

/// 64-bit FNV-1a.
pub(crate) fn fnv1a(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |h, byte| {
        (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A number in (0, 1) that is uniform over keys for each server, and independent between servers.
pub(crate) fn draw(key_hash: u64, server_hash: u64) -> f64 {
    let mixed = mix(key_hash ^ mix(server_hash));
    ((mixed >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The finaliser of SplitMix64: every input bit reaches every output bit.
pub(crate) fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openser_values() {
        fn check(key: &[u8], expected: u32) {
            assert_eq!(openser(key), expected, "{key:?}");
        }
        check(b"", 0);
        // One byte: 0x61 ^ 0x0c = 0x6d.
        check(b"a", 0x6d);
        // Four bytes: v = 0x61626364, v >> 3 = 0x0c2c4c6c, h = 0x6d4e2f08; then
        // h >> 11 = 0x000da9c5, h >> 13 = 0x00036a71, h >> 23 = 0x000000da.
        check(b"abcd", 0x6d4e_2f08 + 0x000d_a9c5 + 0x0003_6a71 + 0xda);
    }

    #[test]
    fn fnv1a_published_vectors() {
        fn check(key: &[u8], expected: u64) {
            assert_eq!(fnv1a(key), expected, "{key:?}");
        }
        check(b"", 0xcbf2_9ce4_8422_2325);
        check(b"a", 0xaf63_dc4c_8601_ec8c);
        check(b"foobar", 0x8594_4171_f739_67e8);
    }

    #[test]
    fn draws_are_uniform_and_never_zero_or_one() {
        let mean = (0..10_000_u64)
            .map(|i| draw(fnv1a(&i.to_be_bytes()), 1))
            .inspect(|u| assert!(*u > 0.0 && *u < 1.0))
            .sum::<f64>()
            / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
