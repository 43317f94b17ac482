//! What is known of a call at a glance.

use std::{net::SocketAddr, time::Duration};

use node::Flow;
use serde::{Deserialize, Serialize};
use sip::{Glance, Message, Method, Scheme, Uri};

use crate::mask::Mask;

/// A request without a final response for so long has none: 64*T1 with the usual T1. RFC 3261 §17.1.1.1
const SILENCE_MAX: Duration = Duration::from_secs(32);
/// An INVITE rings no longer than Timer C of three minutes and a bit. RFC 3261 §16.6
const RINGING_MAX: Duration = Duration::from_secs(200);
/// Text of a peer that is kept.
const TEXT_MAX: usize = 200;

/// A call at a glance. Times count from the node's zero.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Its Call-ID.
    pub call_id: Box<str>,
    /// The method of its first request.
    pub method: Box<str>,
    /// Who calls, as `user@host`.
    pub from: Box<str>,
    /// Who is called.
    pub to: Box<str>,
    /// Where the first request came from.
    pub source: SocketAddr,
    /// The server that it went to last.
    pub server: Option<SocketAddr>,
    /// When it began.
    pub began: Duration,
    /// When its first request got a provisional response other than 100.
    pub rang: Option<Duration>,
    /// When its first request was answered, by whatever final response.
    pub answered: Option<Duration>,
    /// When it ended by a BYE.
    pub ended: Option<Duration>,
    /// Its latest message.
    pub latest: Duration,
    /// The last response to its first request that the caller was sent; 0: none.
    pub status: u16,
    /// Who ended it.
    pub end: Option<End>,
    /// Messages that came or went.
    pub messages: u32,
    /// The first request's number.
    cseq: u32,
    caller_tag: Box<[u8]>,
    is_cancelled: bool,
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Who began it.
    Caller,
    /// Who was called.
    Callee,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No final response came, or what was said last is long ago.
    Lost,
    /// A final response of 300 or more.
    Refused,
    /// It rings.
    Ringing,
    /// The first request has no response but 100 yet.
    Trying,
    /// The caller gave up.
    Cancelled,
    /// They talk.
    Talking,
    /// It was answered and has ended; for other requests than INVITE: it was answered.
    Done,
}

impl State {
    /// All of them, those that an operator looks for first.
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::Lost, "lost"),
        (Self::Refused, "refused"),
        (Self::Ringing, "ringing"),
        (Self::Trying, "trying"),
        (Self::Cancelled, "cancelled"),
        (Self::Talking, "talking"),
        (Self::Done, "done"),
    ];

    /// Its name.
    #[must_use]
    pub fn label(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Summary {
    pub(crate) fn new(
        message: &Message<'_>,
        source: SocketAddr,
        at: Duration,
        mask: &Mask,
    ) -> Self {
        let name = |uri: Option<&[u8]>| boxed(uri.map_or_else(String::new, |uri| who(uri, mask)));
        Self {
            call_id: text(message.call_id().unwrap_or_default()),
            method: text(
                message
                    .method()
                    .map_or(b"".as_slice(), |method| method.as_bytes()),
            ),
            from: name(message.from().ok().map(|from| from.uri)),
            to: name(message.to().ok().map(|to| to.uri)),
            source,
            server: None,
            began: at,
            rang: None,
            answered: None,
            ended: None,
            latest: at,
            status: 0,
            end: None,
            messages: 0,
            cseq: message.cseq().map_or(0, |cseq| cseq.number),
            caller_tag: message.from_tag().ok().flatten().unwrap_or_default().into(),
            is_cancelled: false,
        }
    }

    /// Hides the users of a call that has them in the clear. A name without a host may be a number, so all of it goes.
    pub(crate) fn hide_users(&mut self, mask: &Mask) {
        for name in [&mut self.from, &mut self.to] {
            *name = boxed(match name.rsplit_once('@') {
                Some((user, host)) => mask.hidden(user.as_bytes()) + "@" + host,
                None => mask.hidden(name.as_bytes()),
            });
        }
    }

    /// Memory behind its pointers.
    pub(crate) fn bytes(&self) -> usize {
        let texts = [&self.call_id, &self.method, &self.from, &self.to];
        texts.map(|text| text.len()).iter().sum::<usize>() + self.caller_tag.len()
    }

    /// What became of it by `now`.
    #[must_use]
    pub fn state(&self, now: Duration) -> State {
        let silence = now.saturating_sub(self.latest);
        match (self.answered, self.status) {
            (Some(_), 200..300) if &*self.method != "INVITE" => State::Done,
            (Some(_), 200..300) if self.ended.is_some() => State::Done,
            (Some(_), 200..300) => State::Talking,
            (Some(_), 487) => State::Cancelled,
            (Some(_), _) if self.is_cancelled => State::Cancelled,
            (Some(_), _) => State::Refused,
            (None, _) if &*self.method == "ACK" => State::Done,
            (None, _) if self.rang.is_some() && silence < RINGING_MAX => State::Ringing,
            (None, _) if silence < SILENCE_MAX => State::Trying,
            (None, _) => State::Lost,
        }
    }

    /// How long it has lasted, or lasted: from its answer to its end.
    #[must_use]
    pub fn talked(&self, now: Duration) -> Option<Duration> {
        let answered = self
            .answered
            .filter(|_| (200..300).contains(&self.status))?;
        Some(self.ended.unwrap_or(now).saturating_sub(answered))
    }

    /// Follows a message that came in or went out. Of a request that came in it reads the tags, too.
    pub(crate) fn follow(
        &mut self,
        at: Duration,
        came_in: bool,
        flow: Flow,
        is_server: impl FnOnce() -> bool,
        glance: &Glance<'_>,
        message: Option<&Message<'_>>,
    ) {
        self.latest = self.latest.max(at);
        self.messages += 1;
        match (
            glance.start_line.method(),
            glance.start_line.status(),
            message,
        ) {
            (Some(method), _, Some(message)) if came_in => {
                self.follow_in(at, method, glance, message)
            }
            (Some(method), ..) => {
                if !came_in && is_server() {
                    self.server = Some(flow.remote);
                }
                self.is_cancelled |= method == Method::Cancel;
            }
            (None, Some(status), _) => self.follow_response(at, came_in, status, glance),
            (None, None, _) => {}
        }
    }

    fn follow_in(
        &mut self,
        at: Duration,
        method: Method<'_>,
        glance: &Glance<'_>,
        message: &Message<'_>,
    ) {
        let is_callers = || {
            let tag = message.from_tag().ok().flatten().unwrap_or_default();
            *tag == *self.caller_tag
        };
        match method {
            Method::Cancel => self.is_cancelled = true,
            Method::Bye if self.ended.is_none() && &*self.method == "INVITE" => {
                self.end = Some(if is_callers() {
                    End::Caller
                } else {
                    End::Callee
                });
                self.ended = Some(at);
            }
            // The credentials that the first answer asked for, or a phone that registers again.
            Method::Invite | Method::Register if is_callers() => {
                let number = glance.cseq.number;
                let begins_anew = message.to_tag().ok().flatten().is_none() && number > self.cseq;
                if begins_anew {
                    self.cseq = number;
                    (self.rang, self.answered, self.status) = (None, None, 0);
                }
            }
            _ => {}
        }
    }

    /// What the caller is sent decides. RFC 6076 counts from there, too.
    fn follow_response(&mut self, at: Duration, came_in: bool, status: u16, glance: &Glance<'_>) {
        let cseq = &glance.cseq;
        let is_of_first =
            cseq.number == self.cseq && cseq.method.as_bytes() == self.method.as_bytes();
        if came_in || !is_of_first || self.answered.is_some() {
            return;
        }
        self.status = status;
        match status {
            101..200 => self.rang = self.rang.or(Some(at)),
            200.. => self.answered = Some(at),
            _ => {}
        }
    }
}

/// `user@host` of a URI; of a tel URI its number; what can't be read, as it is.
fn who(uri: &[u8], mask: &Mask) -> String {
    let Ok(parsed) = Uri::parse(uri) else {
        return shown(uri, mask);
    };
    let after_scheme = uri
        .iter()
        .position(|&byte| byte == b':')
        .map_or(0, |colon| colon + 1);
    let rest = &uri[after_scheme..];
    let cut = |end: &[u8]| {
        rest.iter()
            .position(|byte| end.contains(byte))
            .unwrap_or(rest.len())
    };
    let Some(user) = parsed.user else {
        let name = &rest[..cut(b";?")];
        return match parsed.scheme {
            Scheme::Tel => shown(name, mask),
            _ => lossy(name),
        };
    };
    let at = rest
        .iter()
        .position(|&byte| byte == b'@')
        .map_or(0, |at| at + 1);
    let host = &rest[at..];
    let end = host
        .iter()
        .position(|byte| b";?".contains(byte))
        .unwrap_or(host.len());
    let mut name = shown(user, mask);
    name.push('@');
    name.push_str(&lossy(&host[..end]));
    name
}

fn shown(user: &[u8], mask: &Mask) -> String {
    if mask.users {
        mask.hidden(user)
    } else {
        lossy(user)
    }
}

fn lossy(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn text(bytes: &[u8]) -> Box<str> {
    boxed(lossy(bytes))
}

/// At most so much of a text.
fn boxed(text: String) -> Box<str> {
    if text.len() <= TEXT_MAX {
        return text.into();
    }
    text.chars().take(TEXT_MAX).collect()
}
