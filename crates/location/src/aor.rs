//! Addresses-of-record.

use std::fmt;

use sip::{Host, Scheme, Uri};

/// An address-of-record in its canonical form (RFC 3261 §10.3): the user without escapes, the host
/// in lower case, no parameters and no port. `sip` and `sips` give the same address-of-record.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Aor {
    key: Box<str>,
}

impl Aor {
    /// The prefix of the keys of all records of bindings.
    pub const PREFIX: &[u8] = b"aor:";
    const MARK: &str = "aor:";

    /// The address-of-record of a URI. None if the URI has no user, is neither `sip` nor `sips`, or
    /// has a user that is not text.
    pub fn of(uri: &Uri<'_>) -> Option<Self> {
        if !matches!(uri.scheme, Scheme::Sip | Scheme::Sips) {
            return None;
        }
        let user = String::from_utf8(unescaped(uri.user?)).ok()?;
        match uri.host {
            Host::Ip(std::net::IpAddr::V6(ip)) => Self::new(&user, &format!("[{ip}]")),
            Host::Ip(ip) => Self::new(&user, &ip.to_string()),
            Host::Name(name) => Self::new(&user, std::str::from_utf8(name).ok()?),
        }
    }

    /// The address-of-record of a user, without escapes, in a domain. None if one of them is empty
    /// or has control characters.
    pub fn new(user: &str, domain: &str) -> Option<Self> {
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        let is_text = |text: &str| !text.is_empty() && !text.contains(char::is_control);
        if !is_text(user) || !is_text(domain) || domain.contains('@') {
            return None;
        }
        let domain = domain.to_ascii_lowercase();
        Some(Self {
            key: format!("{}{user}@{domain}", Self::MARK).into(),
        })
    }

    /// The address-of-record that [`Aor::key`] wrote as this key.
    pub fn from_key(key: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(key).ok()?.strip_prefix(Self::MARK)?;
        let (user, domain) = name.rsplit_once('@')?;
        Self::new(user, domain)
    }

    /// The key of the bindings' record.
    pub fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    /// `user@domain`.
    pub fn as_str(&self) -> &str {
        &self.key[Self::MARK.len()..]
    }

    /// The user, without escapes.
    pub fn user(&self) -> &str {
        self.parts().0
    }

    /// The domain, in lower case.
    pub fn domain(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.as_str()
            .rsplit_once('@')
            .expect("the constructor put it there, and a domain has none")
    }
}

impl fmt::Display for Aor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Aor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// RFC 3261 §10.3: escaped characters are converted. A percent sign that starts no escape stays.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let escape = match (byte, after) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        (rest, _) = match escape {
            Some((high, low)) => (&after[2..], plain.push(high << 4 | low)),
            None => (after, plain.push(byte)),
        };
    }
    plain
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aor_is_canonical() {
        let cases: [(&str, Option<&str>); 13] = [
            ("sip:alice@example.com", Some("alice@example.com")),
            ("sips:alice@example.com", Some("alice@example.com")),
            (
                "sip:Alice@EXAMPLE.com:5070;transport=tcp",
                Some("Alice@example.com"),
            ),
            ("sip:%61lice:pw@example.com.", Some("alice@example.com")),
            ("sip:a%40b@example.com", Some("a@b@example.com")),
            ("sip:100%@example.com", Some("100%@example.com")),
            ("sip:bob@192.0.2.1", Some("bob@192.0.2.1")),
            ("sip:bob@[2001:DB8::1]:5060", Some("bob@[2001:db8::1]")),
            ("sip:j%C3%BCrg@example.com", Some("jürg@example.com")),
            ("sip:a%00b@example.com", None),
            ("sip:a%FFb@example.com", None),
            ("sip:example.com", None),
            ("tel:+1555", None),
        ];
        for (uri, expected) in cases {
            let aor = Aor::of(&Uri::parse(uri.as_bytes()).unwrap());
            assert_eq!(aor.as_ref().map(Aor::as_str), expected, "{uri}");
            if let Some(aor) = aor {
                assert_eq!(Aor::from_key(aor.key()), Some(aor));
            }
        }
    }
}
