//! The branch of our Via: deterministic, so that a node that keeps no transaction sends a
//! retransmission, a CANCEL and the ACK of a failure with the same one. RFC 3261 §16.11

use super::keys::Keys;

/// RFC 3261's cookie, and ours.
const PREFIX: &[u8] = b"z9hG4bKsy";
const LENGTH: usize = PREFIX.len() + 2 + 16;
const LOOP_LENGTH: usize = 8;

/// Branches of one request at most: one letter of the branch.
pub(crate) const BRANCHES_MAX: usize = 26;

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

/// Why we sent the request. A branch says the purpose openly, and its id is bound to it: see
/// [`Self::seal`](Purpose::seal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It was relayed, for the `n`th time to another server.
    Relay(u8),
    /// We hold its transaction, the `number`th for one request. `route` is the part that a request
    /// brings back unchanged when it has looped: RFC 5393 §4.2.1.
    Held { number: u8, route: Option<u32> },
    /// To see whether a server answers.
    Probe,
    /// To see whether a dialog is alive.
    Recheck,
    /// To see whether a phone's flow is alive. Its id tells the worker.
    KeepAlive,
}

impl Purpose {
    /// What the branch says of the request with this identity.
    pub(crate) fn seal(self, keys: &Keys, id: u64) -> u64 {
        match self {
            Self::Held { .. } => keys.held(id),
            Self::Relay(_) | Self::Probe | Self::Recheck | Self::KeepAlive => id,
        }
    }
}

impl Branch {
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFIX);
        out.push(match self.purpose {
            Purpose::Relay(attempt) => b'0' + attempt,
            Purpose::Held { number, .. } => b'A' + number,
            Purpose::Probe => b'p',
            Purpose::Recheck => b'r',
            Purpose::KeepAlive => b'k',
        });
        out.push(b'A' + self.listener);
        write_hex(self.id, 16, out);
        if let Purpose::Held {
            route: Some(route), ..
        } = self.purpose
        {
            write_hex(route.into(), LOOP_LENGTH, out);
        }
    }

    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (text, route) = match text.len() {
            LENGTH => (text, None),
            _ => {
                let (text, route) = text.split_at_checked(LENGTH)?;
                let is_route = route.len() == LOOP_LENGTH;
                (text, Some(read_hex(route).filter(|_| is_route)? as u32))
            }
        };
        let [purpose, listener, id @ ..] = text.strip_prefix(PREFIX)? else {
            return None;
        };
        let purpose = match (purpose, route) {
            (b'A'..=b'Z', route) => {
                let number = purpose - b'A';
                Purpose::Held { number, route }
            }
            (b'0'..=b'9', None) => Purpose::Relay(purpose - b'0'),
            (b'p', None) => Purpose::Probe,
            (b'r', None) => Purpose::Recheck,
            (b'k', None) => Purpose::KeepAlive,
            _ => return None,
        };
        let listener = listener
            .checked_sub(b'A')
            .filter(|&index| usize::from(index) < LISTENERS_MAX)?;
        Some(Self {
            purpose,
            listener,
            id: read_hex(id)?,
        })
    }
}

/// Appends the lowest digits of a number.
pub(super) fn write_hex(value: u64, digits: usize, out: &mut Vec<u8>) {
    let mut text = [0; 16];
    for (place, digit) in text[..digits].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(value >> (4 * place)) as usize & 15];
    }
    out.extend_from_slice(&text[..digits]);
}

/// Reads a number of hexadecimal digits.
pub(super) fn read_hex(digits: &[u8]) -> Option<u64> {
    let add =
        |value: u64, &digit: &u8| Some(value << 4 | u64::from(char::from(digit).to_digit(16)?));
    digits.iter().try_fold(0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_says_what_was_written() {
        for purpose in [
            Purpose::Relay(0),
            Purpose::Relay(3),
            Purpose::Held {
                number: 25,
                route: None,
            },
            Purpose::Held {
                number: 0,
                route: Some(0xfedc_ba98),
            },
            Purpose::Probe,
            Purpose::Recheck,
            Purpose::KeepAlive,
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
            "z9hG4bKsy0A000000000000000000000000",
            "z9hG4bKsyAA0000000000000000000g0000",
        ] {
            assert_eq!(Branch::read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
