//! Devices that name themselves.

/// A short form of a device's URN, `+sip.instance` (RFC 5626 §4.1), in any case: its FNV-1a hash. Devices
/// of one user are told apart by it; a user who finds two that clash harms nobody else. Zero stands for
/// an empty URN.
pub fn device(urn: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    if urn.is_empty() {
        return 0;
    }
    let lower = urn.bytes().map(|byte| byte.to_ascii_lowercase());
    let hash = lower.fold(OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_known_by_its_urn() {
        assert_eq!(device(""), 0);
        assert_eq!(device("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(device("<urn:uuid:AB>"), device("<URN:uuid:ab>"));
        assert_ne!(device("<urn:uuid:ab>"), device("<urn:uuid:ac>"));
    }
}
