//! Buffers for the bytes that transactions keep, used again and again.

/// A buffer that has grown beyond this for one long message gives its memory back.
const CAPACITY_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        if (1..=CAPACITY_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.free.push(buffer);
        }
    }
}
