//! What tells transactions apart.

use std::hash::{Hash, Hasher};

use sip::{Method, Via};

/// RFC 3261's magic cookie: the branch alone identifies a client's transactions.
const COOKIE: &[u8] = b"z9hG4bK";

/// Which end of a transaction we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// We sent its request.
    Client,
    /// We received it.
    Server,
}

/// A transaction's name: RFC 3261 §17.1.3 and §17.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    id: u64,
    method: u32,
    role: Role,
}

impl Key {
    /// The transaction that a request of this method and [`identity`] belongs to. An ACK is of its
    /// INVITE's.
    #[must_use]
    pub fn server(id: u64, method: Method<'_>) -> Self {
        let role = Role::Server;
        let method = number(method);
        Self { id, method, role }
    }

    /// The transaction that a response belongs to: the number that its branch stands for, and the
    /// method in its CSeq.
    #[must_use]
    pub fn client(id: u64, method: Method<'_>) -> Self {
        let role = Role::Client;
        let method = number(method);
        Self { id, method, role }
    }

    /// Which end of the transaction we are.
    #[must_use]
    pub const fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn is_invite(&self) -> bool {
        self.method == number(Method::Invite)
    }

    /// The CANCEL of this INVITE.
    pub(crate) fn cancel(self) -> Self {
        let method = number(Method::Cancel);
        Self { method, ..self }
    }
}

/// One word: [`identity`] has mixed it well.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ends = u64::from(self.method) << 1 | self.role as u64;
        state.write_u64(self.id ^ ends.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// The identity that a request shares with its retransmissions, its ACK, its CANCEL and its
/// responses, and with nothing else: by branch and sent-by of its topmost Via, RFC 3261 §17.2.3.
/// The hasher's key must be secret: what is hashed, the peer chooses.
///
/// A peer of RFC 2543's time sets no cookie. Of what then identifies its transaction two things are
/// left out: the To tag, as an ACK has that of the response, and the Request-URI, which no response
/// has. CSeq tells apart the requests of a dialog.
pub fn identity(
    mut hasher: impl Hasher,
    via: &Via<'_>,
    from_tag: Option<&[u8]>,
    call_id: &[u8],
    number: u32,
) -> u64 {
    let branch = via.branch.unwrap_or_default();
    let port = via.port.unwrap_or(5060).to_be_bytes();
    write_parts(&mut hasher, &[branch, via.host, &port]);
    if !branch.starts_with(COOKIE) {
        let parts = [from_tag.unwrap_or_default(), call_id, &number.to_be_bytes()];
        write_parts(&mut hasher, &parts);
    }
    hasher.finish()
}

/// Lengths go in too, so that no two lists of parts read the same: all in one word, as a hasher
/// takes few long pieces faster than many short ones.
fn write_parts(hasher: &mut impl Hasher, parts: &[&[u8]]) {
    let mut lengths = 0;
    for part in parts {
        lengths = lengths << 16 | part.len() as u64;
        hasher.write(part);
    }
    hasher.write_u64(lengths);
}

fn number(method: Method<'_>) -> u32 {
    let method = match method {
        Method::Ack => Method::Invite,
        other => other,
    };
    let add = |hash: u32, &byte: &u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    method.as_bytes().iter().fold(0x811c_9dc5, add)
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use sip::Message;

    use super::*;

    fn key(method: &str, uri: &str, via: &str, to: &str, cseq: u32) -> Key {
        let text = format!(
            "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nFrom: <sip:a@b>;tag=1\r\n\
             To: <sip:c@d>{to}\r\nCall-ID: 7\r\nCSeq: {cseq} {method}\r\n\r\n"
        );
        let message = Message::parse(text.as_bytes(), 16).expect("well formed");
        let known = message.essentials().expect("well formed");
        let (from_tag, number) = (known.from_tag, known.cseq.number);
        let hasher = DefaultHasher::new();
        let id = identity(hasher, &known.via, from_tag, known.call_id, number);
        Key::server(id, known.cseq.method)
    }

    /// The key of the request that differs from an INVITE by one thing: its method, Request-URI, Via, To
    /// parameters or CSeq.
    fn varied(via: &str, what: &str, value: &str) -> Key {
        let or = |name, usual| if what == name { value } else { usual };
        let cseq = or("cseq", "1").parse().expect("it is a number");
        let (method, uri) = (or("method", "INVITE"), or("uri", "sip:c@d"));
        key(method, uri, or("via", via), or("to", ""), cseq)
    }

    /// RFC 3261 §17.2.3
    #[test]
    fn requests_of_one_transaction_have_one_key() {
        const VIA: &str = "10.0.0.1;branch=z9hG4bK1";
        const OLD: &str = "10.0.0.1;branch=1";
        let cases = [
            // A retransmission.
            (VIA, "", "", true),
            (OLD, "", "", true),
            // The default port is a port.
            (VIA, "via", "10.0.0.1:5060;branch=z9hG4bK1", true),
            // Method, branch, sent-by.
            (VIA, "method", "CANCEL", false),
            (VIA, "method", "OPTIONS", false),
            (VIA, "via", "10.0.0.1;branch=z9hG4bK2", false),
            (VIA, "via", "10.0.0.2;branch=z9hG4bK1", false),
            (VIA, "via", "10.0.0.1:5061;branch=z9hG4bK1", false),
            // Without a cookie: CSeq, Via. The Request-URI does not come back in a response.
            (OLD, "uri", "sip:e@d", true),
            (OLD, "cseq", "2", false),
            (OLD, "via", "10.0.0.1", false),
            (OLD, "via", "10.0.0.2;branch=1", false),
        ];
        for (via, what, value, same) in cases {
            let is_same = varied(via, what, value) == varied(via, "", "");
            assert_eq!(is_same, same, "{via} {what} {value}");
        }
        for via in [VIA, OLD] {
            let ack = key("ACK", "sip:c@d", via, ";tag=2", 1);
            assert_eq!(ack, varied(via, "", ""), "the ACK of a failure, {via}");
        }
        let [foo, bar] = ["FOO", "BAR"].map(|method| varied(VIA, "method", method));
        assert_ne!(foo, bar, "methods that nobody knows differ, too");
    }
}
