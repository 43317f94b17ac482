//! A first look at a message, where a whole parse would cost more than what is done with it.

use crate::{
    CSeq, HeaderName, MESSAGE_BYTES_MAX, Message, Method, StartLine,
    header::{Field, Lines},
    headers::empty_line,
    reader::Reader,
    scan::Block,
    text::{find, skip_line_ends},
};

/// What a message is, and which call it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance<'a> {
    /// The start line.
    pub start_line: StartLine<'a>,
    /// The first Call-ID.
    pub call_id: &'a [u8],
    /// The first CSeq.
    pub cseq: CSeq<'a>,
}

impl<'a> Glance<'a> {
    /// Reads the start line, the first Call-ID and the first CSeq, and nothing behind them. `None`: one of them is missing
    /// or malformed. Of a message that can be answered it reads what a [`Message`] does.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let bytes = skip_line_ends(bytes);
        if bytes.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let line_feed = find(bytes, b'\n')?;
        let line = &bytes[..line_feed];
        let (start_line, _) = StartLine::parse(line.strip_suffix(b"\r").unwrap_or(line)).ok()?;
        let (mut call_id, mut cseq) = (None, None);
        let mut lines = Lines::new(bytes, line_feed + 1);
        while empty_line(lines.rest()).is_none() {
            if !may_tell(lines.rest()) {
                lines.pass_over()?;
                continue;
            }
            let line = lines.next()?;
            let reader = |field: Field| Reader::new(bytes, field.value.into(), field.end.into());
            match line.known {
                Some(HeaderName::CallId) if call_id.is_none() => {
                    call_id = Some(read_call_id(reader(line.field))?);
                }
                Some(HeaderName::CSeq) if cseq.is_none() => {
                    cseq = Some(read_cseq(reader(line.field))?);
                }
                _ => continue,
            }
            if let (Some(call_id), Some(cseq)) = (call_id, cseq) {
                return Some(Self {
                    start_line,
                    call_id,
                    cseq,
                });
            }
        }
        None
    }

    /// The same of a message that is read already; `None`: its Call-ID or CSeq is missing or malformed.
    pub fn at(message: &Message<'a>) -> Option<Self> {
        Some(Self {
            start_line: message.start_line(),
            call_id: message.call_id().ok()?,
            cseq: message.cseq().ok()?,
        })
    }
}

/// Whether a header field may be a Call-ID or a CSeq, of whatever spelling.
fn may_tell(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'C' | b'c' | b'I' | b'i'))
}

/// Reads a Call-ID; none if it is empty or contains white space.
pub(crate) fn read_call_id<'a>(mut reader: Reader<'a>) -> Option<&'a [u8]> {
    let call_id = reader.word(Block::is_blank);
    (!call_id.is_empty() && reader.peek().is_none()).then_some(call_id)
}

/// Reads a CSeq; none if it is not a 32-bit number and a method.
pub(crate) fn read_cseq<'a>(mut reader: Reader<'a>) -> Option<CSeq<'a>> {
    let number = reader.number()?;
    let is_apart = reader.skip_blank();
    let method = reader.word(Block::is_blank);
    let is_whole = is_apart && !method.is_empty() && reader.peek().is_none();
    is_whole.then_some(CSeq {
        number,
        method: Method::from_bytes(method),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_no_further_than_it_must() {
        let text = b"\r\nSIP/2.0 180 Ringing\r\nContact: <sip:a>\r\nI : x\r\n y\r\ncseq: 7\r\n INVITE\r\nrubbish";
        assert_eq!(Glance::of(text), None, "white space in a Call-ID");
        let text = b"\r\nSIP/2.0 180 Ringing\r\nContact: <sip:a>\r\nI : x\r\ncseq: 7\r\n INVITE\r\nrubbish";
        let glance = Glance::of(text).expect("it has all");
        assert_eq!(
            (glance.start_line.status(), glance.call_id),
            (Some(180), &b"x"[..])
        );
        assert_eq!(
            (glance.cseq.number, glance.cseq.method),
            (7, Method::Invite)
        );
    }

    #[test]
    fn what_lacks_something_is_none() {
        for text in [
            &b""[..],
            b"INVITE sip:a SIP/2.0",
            b"INVITE sip:a SIP/2.0\r\nCSeq: 1 INVITE\r\n\r\nCall-ID: in the body\r\n",
            b"INVITE sip:a SIP/2.0\r\nCall-ID: a\r\nCSeq: INVITE\r\n\r\n",
            b"INVITE sip:a SIP/2.0\r\nCall-ID: a\r\nCSeq: 1 INVITE",
        ] {
            assert_eq!(Glance::of(text), None, "{}", String::from_utf8_lossy(text));
        }
    }
}
