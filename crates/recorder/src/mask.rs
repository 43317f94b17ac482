//! Hides what must not be kept: credentials always; users and bodies if that is wanted.

use std::{borrow::Cow, hash::Hasher};

use sip::{HeaderName, Message};
use siphasher::sip::SipHasher24;

use crate::reading::HEADERS_MAX;

/// Fields with a name before an address.
const NAMED: [&[u8]; 14] = [
    b"from",
    b"f",
    b"to",
    b"t",
    b"contact",
    b"m",
    b"p-asserted-identity",
    b"p-preferred-identity",
    b"remote-party-id",
    b"referred-by",
    b"b",
    b"reply-to",
    b"diversion",
    b"history-info",
];
/// Fields that prove who sends, and so allow to guess at passwords.
const CREDENTIALS: [&[u8]; 2] = [b"authorization", b"proxy-authorization"];
/// Fields that tell users in ways of their own.
const TELLING: [&[u8]; 3] = [b"identity", b"y", b"subject"];
const HIDDEN: &[u8] = b" (hidden)";

/// Hides users and bodies. The same user looks the same throughout.
#[derive(Clone, Debug)]
pub(crate) struct Mask {
    hasher: SipHasher24,
    pub(crate) users: bool,
    pub(crate) bodies: bool,
}

impl Mask {
    pub(crate) fn new(key: [u8; 16], users: bool, bodies: bool) -> Self {
        Self {
            hasher: SipHasher24::new_with_key(&key),
            users,
            bodies,
        }
    }

    /// What a user looks like. Nobody without the key can tell which it is by trying all numbers.
    pub(crate) fn hidden(&self, text: &[u8]) -> String {
        let mut hasher = self.hasher;
        hasher.write(text);
        format!("m{:08x}", hasher.finish() as u32)
    }

    /// Whether it hides more than credentials.
    pub(crate) fn hides(&self) -> bool {
        self.users || self.bodies
    }

    /// The same for bytes that may be a message.
    pub(crate) fn shown_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        match Message::parse(bytes, HEADERS_MAX) {
            Ok(message) => self.shown(&message),
            Err(_) => bytes.into(),
        }
    }

    /// A message without what is to be hidden; credentials always are.
    pub(crate) fn shown<'a>(&self, message: &Message<'a>) -> Cow<'a, [u8]> {
        let bytes = message.bytes();
        let proves = message.header(HeaderName::Authorization).is_some()
            || message.header(HeaderName::ProxyAuthorization).is_some();
        if proves || self.hides() {
            let head = bytes.len() - message.body().len();
            return self.apply(bytes, head).into();
        }
        bytes.into()
    }

    /// A message without what is to be hidden. `head` is the length of its start line and headers.
    pub(crate) fn apply(&self, bytes: &[u8], head: usize) -> Vec<u8> {
        let (head, body) = bytes.split_at(head.min(bytes.len()));
        let mut out = Vec::with_capacity(bytes.len());
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            self.line(line, &mut out);
        }
        if self.bodies && !body.is_empty() {
            out.extend_from_slice(format!("(a body of {} bytes)", body.len()).as_bytes());
        } else {
            self.addresses(body, &mut out);
        }
        out
    }

    fn line(&self, line: &[u8], out: &mut Vec<u8>) {
        let colon = line
            .iter()
            .position(|&byte| byte == b':')
            .unwrap_or_default();
        let (name, value) = line.split_at(colon);
        let is_one_of = |names: &[&[u8]]| {
            let name = name.trim_ascii_end();
            names.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        if is_one_of(&CREDENTIALS) || self.users && is_one_of(&TELLING) {
            out.extend_from_slice(name);
            out.push(b':');
            out.extend_from_slice(HIDDEN);
            out.extend_from_slice(b"\r\n");
        } else if self.users && is_one_of(&NAMED) && value.contains(&b'<') {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            let first = value
                .iter()
                .position(|&byte| byte == b'<')
                .unwrap_or_default();
            self.addresses(&value[first..], out);
        } else {
            self.addresses(line, out);
        }
    }

    /// Copies text and hides the users of the URIs in it.
    fn addresses(&self, text: &[u8], out: &mut Vec<u8>) {
        let mut rest = text;
        let next = |rest| next_user(rest).filter(|_| self.users);
        while let Some((at, length)) = next(rest) {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(self.hidden(&rest[at..at + length]).as_bytes());
            rest = &rest[at + length..];
        }
        out.extend_from_slice(rest);
    }
}

/// Where the next user of a SIP or tel URI stands, and its length.
fn next_user(text: &[u8]) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(colon) = memchr::memchr(b':', &text[from..]) {
        let start = from + colon + 1;
        let before = &text[..start];
        let rest = &text[start..];
        let ends_with = |scheme: &[u8]| {
            let tail = before.len().checked_sub(scheme.len());
            tail.is_some_and(|tail| before[tail..].eq_ignore_ascii_case(scheme))
        };
        if ends_with(b"sip:") || ends_with(b"sips:") {
            let end = rest.iter().position(|byte| b"@<> \t\r\n\",".contains(byte));
            if let Some(end) = end.filter(|&end| rest[end] == b'@' && end > 0) {
                return Some((start, end));
            }
        } else if ends_with(b"tel:") {
            let end = rest.iter().position(|byte| b";<> \t\r\n\",".contains(byte));
            return Some((start, end.unwrap_or(rest.len())));
        }
        from = start;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str, users: bool, bodies: bool) -> String {
        let mask = Mask::new([7; 16], users, bodies);
        let head = text.find("\r\n\r\n").map_or(text.len(), |at| at + 4);
        String::from_utf8(mask.apply(text.as_bytes(), head)).expect("it was text")
    }

    #[test]
    fn users_names_and_numbers_are_hidden_and_stay_told_apart() {
        let text = "INVITE sip:+4420@example.com SIP/2.0\r\n\
            From: \"Alice Liddell\" <sip:alice@example.com>;tag=1\r\n\
            To: Bob <sips:+4420@example.com>\r\n\
            Contact: <sip:alice@192.0.2.1:5060>\r\n\
            P-Asserted-Identity: <tel:+15551234>\r\n\
            Identity: eyJhbGciOi\r\n\
            Route: <sip:192.0.2.9;lr>\r\n\r\n";
        let shown = masked(text, true, false);
        for hidden in ["alice", "Alice", "Bob", "4420", "1555", "eyJ"] {
            assert!(!shown.contains(hidden), "{hidden} in {shown}");
        }
        assert!(shown.contains("<sip:192.0.2.9;lr>"), "{shown}");
        let alice = Mask::new([7; 16], true, false).hidden(b"alice");
        assert_eq!(shown.matches(&alice).count(), 2, "{shown}");
        assert_eq!(masked(text, false, false), text);
    }

    #[test]
    fn credentials_are_never_kept() {
        for field in ["Authorization", "proxy-authorization"] {
            let text = format!(
                "REGISTER sip:a SIP/2.0\r\n{field}: Digest username=\"u\", response=\"0f\"\r\n\r\n"
            );
            let shown = masked(&text, false, false);
            assert!(
                shown.contains("(hidden)") && !shown.contains("0f"),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_body_is_left_out_and_its_length_told() {
        let shown = masked("MESSAGE sip:a@b SIP/2.0\r\n\r\nsecret", false, true);
        assert!(shown.ends_with("\r\n\r\n(a body of 6 bytes)"), "{shown}");
    }
}
