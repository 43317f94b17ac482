//! What an ICMP error quotes of a request that we sent: its beginning, as much as the router or host
//! that sent the error cared to copy. RFC 792, RFC 4443

use sip::Method;

use super::branch::Branch;

/// A request of ours, as far as it is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quote<'a> {
    pub(crate) method: Method<'a>,
    pub(crate) branch: Branch,
    /// None: the quotation ends before it.
    pub(crate) call_id: Option<&'a [u8]>,
}

impl<'a> Quote<'a> {
    /// None: it is no request with a branch of ours, or ends before that.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        let method = lines.next()?.split(|&byte| byte == b' ').next()?;
        let mut fields = lines.filter_map(field);
        let via = fields.find(|(name, ..)| is_either(name, "Via", "v"))?;
        let call_id =
            fields.find(|(name, _, is_whole)| *is_whole && is_either(name, "Call-ID", "i"));
        Some(Self {
            method: Method::from_bytes(method),
            branch: branch_of(via.1)?,
            call_id: call_id.map(|(_, value, _)| value),
        })
    }
}

/// A header field's name and value, and whether its line is whole.
fn field(line: &[u8]) -> Option<(&[u8], &[u8], bool)> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let (name, value) = line.split_at(colon);
    Some((
        name.trim_ascii(),
        value[1..].trim_ascii(),
        line.ends_with(b"\n"),
    ))
}

fn is_either(name: &[u8], long: &str, short: &str) -> bool {
    [long, short]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// The branch of a Via that we wrote.
fn branch_of(via: &[u8]) -> Option<Branch> {
    let start = via.windows(8).position(|part| part == b";branch=")?;
    let value = via[start + 8..].split(|&byte| matches!(byte, b';' | b',' | b' '));
    value.into_iter().next().and_then(Branch::read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::branch::Purpose;

    const BRANCH: &str = "z9hG4bKsy0A0123456789abcdef";

    #[test]
    fn as_much_is_read_as_is_quoted() {
        fn check(text: &str, expected: Option<Option<&str>>) {
            let quote = Quote::read(text.as_bytes());
            let found = quote.map(|quote| {
                assert_eq!(quote.method, Method::Invite);
                assert_eq!(quote.branch.purpose, Purpose::Relay(0));
                assert_eq!(quote.branch.id, 0x0123_4567_89ab_cdef);
                quote.call_id
            });
            assert_eq!(found, expected.map(|it| it.map(str::as_bytes)), "{text}");
        }
        let via = format!("Via: SIP/2.0/UDP 192.0.2.10:5060;branch={BRANCH}");
        let start = "INVITE sip:bob@example.com SIP/2.0\r\n";
        check(&format!("{start}{via}\r\nCall-ID: 7\r\n"), Some(Some("7")));
        check(&format!("{start}{via}\r\ni: 7\r\nTo: <"), Some(Some("7")));
        check(&format!("{start}{via}\r\nCall-ID: 7"), Some(None));
        check(&format!("{start}{via}"), Some(None));
        check(&format!("{start}{via}\r\nVia: x;branch=y\r\n"), Some(None));
        check(&format!("{start}Via: x;branch=y\r\n{via}\r\n"), None);
        check(&format!("{start}{}", &via[..via.len() - 1]), None);
        check(
            &format!("INVITE sip:{BRANCH}@example.com SIP/2.0\r\n"),
            None,
        );
        check(start, None);
        check("", None);
        check("\n\n:\n", None);
    }

    #[test]
    fn no_prefix_panics() {
        let via = format!("Via: SIP/2.0/UDP 192.0.2.10:5060;branch={BRANCH}");
        let text = format!("OPTIONS sip:a SIP/2.0\r\n{via}\r\nCall-ID: 7\r\n\r\n");
        for end in 0..text.len() {
            let quote = Quote::read(&text.as_bytes()[..end]);
            assert_eq!(
                quote.is_some(),
                end >= text.find("\r\nCall").unwrap(),
                "{end}"
            );
        }
    }
}
