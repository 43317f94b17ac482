//! How much is read from connections in one turn.

use std::ops::RangeInclusive;

/// Bytes that are read in all, as far as their number allows it.
const TURN_BYTES: usize = 32 * 1024;

/// Bytes that are read from one: a few messages, so that the next one does not wait for long.
const BYTES: RangeInclusive<usize> = 2 * 1024..=16 * 1024;

/// The most bytes that are read at once.
pub const READ_BYTES: usize = *BYTES.end();

/// How many bytes to read from each of so many connections.
#[must_use]
pub fn read_bytes(ready: usize) -> usize {
    (TURN_BYTES / ready.max(1)).clamp(*BYTES.start(), *BYTES.end())
}

#[cfg(test)]
mod tests {
    use super::read_bytes;

    #[test]
    fn the_more_connections_the_less_is_read_of_each() {
        for (ready, bytes) in [
            (0, 16_384),
            (1, 16_384),
            (2, 16_384),
            (8, 4_096),
            (500, 2_048),
        ] {
            assert_eq!(read_bytes(ready), bytes, "{ready}");
        }
    }
}
