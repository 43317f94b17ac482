//! What a server tells a client.

use std::time::Duration;

/// How a client limits what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// It withholds a percentage. RFC 7339 §7
    Loss,
    /// It sends so many in a second at most. RFC 7415
    Rate,
}

/// What a server tells a client. RFC 7339 §4
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What `value` means.
    pub algorithm: Algorithm,
    /// Percent of the requests to withhold, or requests per second that may be sent.
    pub value: u32,
    /// How long it holds. Zero: there is no control, whatever the value.
    pub validity: Duration,
    /// Later terms have a greater one. None: the server did not say.
    pub sequence: Option<u64>,
}

impl Terms {
    /// Whether something is to be withheld.
    #[must_use]
    pub fn restrict(&self) -> bool {
        !self.validity.is_zero()
    }
}

const RATE: u64 = 1 << 63;
const VALIDITY_SHIFT: u32 = 32;
const VALIDITY_MS_MAX: u64 = (RATE >> VALIDITY_SHIFT) - 1;

/// Algorithm, value and validity in one word, so that threads read them together.
pub(crate) fn pack(terms: &Terms) -> u64 {
    let rate = match terms.algorithm {
        Algorithm::Loss => 0,
        Algorithm::Rate => RATE,
    };
    let validity_ms = (terms.validity.as_millis() as u64).min(VALIDITY_MS_MAX);
    rate | validity_ms << VALIDITY_SHIFT | u64::from(terms.value)
}

pub(crate) fn unpack(packed: u64, sequence: Option<u64>) -> Terms {
    Terms {
        algorithm: if packed & RATE == 0 {
            Algorithm::Loss
        } else {
            Algorithm::Rate
        },
        value: packed as u32,
        validity: Duration::from_millis((packed & !RATE) >> VALIDITY_SHIFT),
        sequence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_what_was_packed() {
        for algorithm in [Algorithm::Loss, Algorithm::Rate] {
            for (value, ms) in [(0, 0), (100, 500), (u32::MAX, VALIDITY_MS_MAX)] {
                let terms = Terms {
                    algorithm,
                    value,
                    validity: Duration::from_millis(ms),
                    sequence: Some(9),
                };
                assert_eq!(unpack(pack(&terms), Some(9)), terms);
            }
        }
    }
}
