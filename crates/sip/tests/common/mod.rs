//! What a proxy makes of a message, held against what it should.

use sip::{Fault, Message, ParseError};

/// The messages may have this many header fields.
pub(crate) const HEADERS_MAX: usize = 128;

/// What a proxy does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Passes it on; nothing is wrong with what it reads.
    Forward,
    /// Answers a request, or drops a response, because of this fault.
    Refuse(Fault),
    /// Drops it.
    Silence(ParseError),
}

/// One message of a collection: its file, what becomes of it, and what is read from it (nothing: it can't be).
pub(crate) struct Case {
    pub(crate) file: &'static str,
    pub(crate) outcome: Outcome,
    /// The method or the status code.
    pub(crate) start: &'static str,
    pub(crate) call_id: &'static str,
    pub(crate) vias: usize,
    /// From tag and to tag.
    pub(crate) tags: [&'static str; 2],
}

pub(crate) fn outcome(bytes: &[u8]) -> Outcome {
    match Message::parse(bytes, HEADERS_MAX).map(|message| message.validate()) {
        Ok(Ok(())) => Outcome::Forward,
        Ok(Err(fault)) => Outcome::Refuse(fault),
        Err(error) => Outcome::Silence(error),
    }
}

pub(crate) fn check(case: &Case, bytes: &[u8]) {
    let file = case.file;
    assert_eq!(outcome(bytes), case.outcome, "{file}");
    let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
        return;
    };
    let start = message.method().map_or_else(
        || message.status().expect("it is a response").to_string(),
        |method| text(method.as_bytes()),
    );
    assert_eq!(start, case.start, "{file}: method or status");
    assert_eq!(
        message.call_id().map_or_else(|_| String::new(), text),
        case.call_id,
        "{file}: Call-ID"
    );
    assert_eq!(
        message.vias().filter(Result::is_ok).count(),
        case.vias,
        "{file}: Vias"
    );
    let tags = [message.from_tag(), message.to_tag()]
        .map(|tag| text(tag.ok().flatten().unwrap_or_default()));
    assert_eq!(tags, case.tags, "{file}: tags");
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
