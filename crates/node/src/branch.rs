//! The branch of our Via: deterministic, so that a node that keeps no transaction sends a
//! retransmission, a CANCEL and the ACK of a failure with the same one. RFC 3261 §16.11

/// RFC 3261's cookie, and ours.
const PREFIX: &[u8] = b"z9hG4bKsy";
const LENGTH: usize = PREFIX.len() + 2 + 16;

/// Listeners at most: one character of the branch.
pub const LISTENERS_MAX: usize = 32;

/// What a branch of ours says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) purpose: Purpose,
    /// The listener that the request came in by.
    pub(crate) listener: u8,
    pub(crate) id: u64,
}

/// Why we sent the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It was relayed, for the `n`th time to another server.
    Relay(u8),
    /// To see whether a server answers.
    Probe,
    /// To see whether a dialog is alive.
    Recheck,
}

impl Branch {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX);
        out.push(match self.purpose {
            Purpose::Relay(attempt) => b'0' + attempt,
            Purpose::Probe => b'p',
            Purpose::Recheck => b'r',
        });
        out.push(b'A' + self.listener);
        let digit = |place: u32| b"0123456789abcdef"[(self.id >> (60 - 4 * place)) as usize & 15];
        out.extend((0..16).map(digit));
    }

    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        if text.len() != LENGTH {
            return None;
        }
        let [purpose, listener, id @ ..] = text.strip_prefix(PREFIX)? else {
            return None;
        };
        let purpose = match purpose {
            b'0'..=b'9' => Purpose::Relay(purpose - b'0'),
            b'p' => Purpose::Probe,
            b'r' => Purpose::Recheck,
            _ => return None,
        };
        let listener = listener
            .checked_sub(b'A')
            .filter(|&index| usize::from(index) < LISTENERS_MAX)?;
        let mut bits = 0;
        for &digit in id {
            bits = bits << 4 | u64::from(char::from(digit).to_digit(16)?);
        }
        Some(Self {
            purpose,
            listener,
            id: bits,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_says_what_was_written() {
        for purpose in [
            Purpose::Relay(0),
            Purpose::Relay(3),
            Purpose::Probe,
            Purpose::Recheck,
        ] {
            for id in [0, 1, 0xfedc_ba98_7654_3210, u64::MAX] {
                let branch = Branch {
                    purpose,
                    listener: 31,
                    id,
                };
                let mut text = Vec::new();
                branch.write(&mut text);
                assert_eq!(Branch::read(&text), Some(branch));
                assert_eq!(Branch::read(&text[..text.len() - 1]), None);
            }
        }
        for foreign in [
            "",
            "z9hG4bK776asdhds",
            "z9hG4bKsy0A00000000000000g0",
            "z9hG4bKsyxA0000000000000000",
        ] {
            assert_eq!(Branch::read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
