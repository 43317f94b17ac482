use std::{fmt, net::SocketAddr};

use transaction::Transport;

/// A message with holes, such as `{slot}`: one for each field of [`Fill`].
#[derive(Debug)]
pub(crate) struct Template {
    text: String,
    /// Each with the end of the text before it.
    holes: Vec<(usize, Hole)>,
}

#[derive(Clone, Copy, Debug)]
enum Hole {
    Slot,
    Nonce,
    User,
    CSeq,
    Expires,
    Target,
    Lines,
}

/// The user part of a URI.
#[derive(Clone, Copy, Debug)]
pub(crate) enum User<'a> {
    /// `user-0` and so on.
    Numbered(u32),
    Named(&'a str),
}

/// What goes into the holes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fill<'a> {
    /// The slot of the call.
    pub slot: u32,
    /// The identifier of the call.
    pub nonce: u64,
    /// The user who is called, or who registers.
    pub user: User<'a>,
    /// The number in CSeq.
    pub cseq: u32,
    /// The requested expiry, in seconds.
    pub expires: u32,
    /// The request URI.
    pub target: &'a [u8],
    /// Additional header lines: those of a dialog, or credentials.
    pub lines: &'a [u8],
}

impl Template {
    pub(crate) fn new(source: &str) -> Self {
        let mut text = String::new();
        let mut holes = Vec::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("each brace is closed");
            text.push_str(before);
            holes.push((text.len(), Hole::named(name)));
            rest = after;
        }
        text.push_str(rest);
        Self { text, holes }
    }

    pub(crate) fn write(&self, fill: &Fill<'_>, out: &mut Vec<u8>) {
        let text = self.text.as_bytes();
        let mut start = 0;
        for &(end, hole) in &self.holes {
            out.extend_from_slice(&text[start..end]);
            match hole {
                Hole::Slot => out.extend_from_slice(&hex::<8>(u64::from(fill.slot))),
                Hole::Nonce => out.extend_from_slice(&hex::<16>(fill.nonce)),
                Hole::User => fill.user.put(out),
                Hole::CSeq => put_number(fill.cseq, out),
                Hole::Expires => put_number(fill.expires, out),
                Hole::Target => out.extend_from_slice(fill.target),
                Hole::Lines => out.extend_from_slice(fill.lines),
            }
            start = end;
        }
        out.extend_from_slice(&text[start..]);
    }
}

impl Hole {
    fn named(name: &str) -> Self {
        match name {
            "slot" => Self::Slot,
            "nonce" => Self::Nonce,
            "user" => Self::User,
            "cseq" => Self::CSeq,
            "expires" => Self::Expires,
            "target" => Self::Target,
            "lines" => Self::Lines,
            _ => unreachable!("no hole is called {name}"),
        }
    }
}

impl User<'_> {
    fn put(self, out: &mut Vec<u8>) {
        match self {
            Self::Numbered(number) => {
                out.extend_from_slice(b"user-");
                put_number(number, out);
            }
            Self::Named(name) => out.extend_from_slice(name.as_bytes()),
        }
    }
}

impl Default for User<'_> {
    fn default() -> Self {
        Self::Numbered(0)
    }
}

impl fmt::Display for User<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Numbered(number) => write!(f, "user-{number}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// What a URI says of the transport.
pub(crate) fn uri_param(transport: Transport) -> String {
    let name = transport.in_uri();
    name.map_or_else(String::new, |name| format!(";transport={name}"))
}

/// The session description that an end at `address` offers or answers with.
pub(crate) fn session_description(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { "IP4" } else { "IP6" };
    let host = address.ip();
    format!(
        "v=0\r\n\
         o=- 3004600 1 IN {family} {host}\r\n\
         s=call\r\n\
         c=IN {family} {host}\r\n\
         t=0 0\r\n\
         m=audio 49170 RTP/AVP 0 8 101\r\n\
         a=rtpmap:0 PCMU/8000\r\n\
         a=rtpmap:8 PCMA/8000\r\n\
         a=rtpmap:101 telephone-event/8000\r\n\
         a=fmtp:101 0-15\r\n\
         a=ptime:20\r\n\
         a=sendrecv\r\n"
    )
}

fn put_number(mut number: u32, out: &mut Vec<u8>) {
    let mut digits = [0; 10];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return out.extend_from_slice(&digits[start..]);
        }
    }
}

/// The low `4 * N` bits in hexadecimal.
pub(crate) fn hex<const N: usize>(mut value: u64) -> [u8; N] {
    let mut digits = [0; N];
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789abcdef"[(value & 0xf) as usize];
        value >>= 4;
    }
    digits
}

/// Reads at most 16 hexadecimal digits.
pub(crate) fn from_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled() {
        let template = Template::new("{slot}.{nonce} {user} {cseq} {expires}{target}{lines}!");
        let fill = Fill {
            slot: 0x1f,
            nonce: 0xabc,
            user: User::Numbered(u32::MAX),
            cseq: 0,
            expires: 300,
            target: b"t",
            lines: b"",
        };
        let mut out = Vec::new();
        template.write(&fill, &mut out);
        assert_eq!(out, b"0000001f.0000000000000abc user-4294967295 0 300t!");
    }
}
