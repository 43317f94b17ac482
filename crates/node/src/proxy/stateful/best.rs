//! The best response: RFC 3261 §16.7 steps 6 and 7.

use std::mem;

use sip::{Edits, Message};
use slots::{Buffers, Kept};

/// Bytes of further challenges that a context gathers at most.
const CHALLENGES_BYTES_MAX: usize = 2_048;

/// The response that goes back when no better one comes. Its bytes are of the [`Buffers`] that all of
/// its methods are given.
#[derive(Debug, Default)]
pub(super) struct Best {
    /// 0: there is none.
    status: u16,
    /// It is one of our own.
    is_own: bool,
    /// As it goes back; empty if it is one of our own.
    bytes: Kept,
    /// The challenges of all 401 and 407 but the one that is kept, as header fields.
    challenges: Vec<u8>,
}

impl Best {
    pub(super) fn clear(&mut self, buffers: &mut Buffers) {
        buffers.release(mem::take(self).bytes);
    }

    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Whether it is a response that came, and not one of our own.
    pub(super) fn is_received(&self) -> bool {
        !self.is_own
    }

    /// A response of our own is at hand.
    pub(super) fn offer_own(&mut self, status: u16) {
        if rank(status) < rank(self.status) {
            (self.status, self.is_own) = (status, true);
        }
    }

    /// A response came; `write` appends it as it goes back. Without room for it we answer with its status.
    pub(super) fn offer(
        &mut self,
        buffers: &mut Buffers,
        response: &Message<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let status = response.status().unwrap_or_default();
        if rank(status) < rank(self.status) {
            buffers.release(mem::take(&mut self.bytes));
            self.status = status;
            self.is_own = !buffers.has_room(response.bytes().len());
            if !self.is_own {
                self.bytes = buffers.keep_written(write);
            }
        } else if is_challenge(status) {
            self.gather(response);
        }
    }

    /// Appends it with all challenges.
    pub(super) fn write(&self, edits: &mut Edits, out: &mut Vec<u8>) {
        edits.clear();
        if is_challenge(self.status)
            && let Ok(message) = Message::parse(&self.bytes, usize::MAX - 1)
            && let Ok(call_id) = message.call_id()
        {
            let behind = message.span_of(call_id).end;
            edits.insert(behind, |out| out.extend_from_slice(&self.challenges));
        }
        edits.apply(&self.bytes, out);
    }

    fn gather(&mut self, response: &Message<'_>) {
        for (name, value) in response.headers() {
            let names: [&[u8]; 2] = [b"WWW-Authenticate", b"Proxy-Authenticate"];
            let fits = self.challenges.len() + name.len() + value.len() < CHALLENGES_BYTES_MAX;
            if fits && names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                for part in [b"\r\n", name, b": ", value] {
                    self.challenges.extend_from_slice(part);
                }
            }
        }
    }
}

fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// Lower is better. A 6xx ends every search; of the others the lowest class, and of a class what
/// helps the caller to ask anew. What says nothing of the target comes last.
fn rank(status: u16) -> u8 {
    match status {
        600.. => 0,
        300..400 => 1,
        401 | 407 => 2,
        415 | 420 | 484 => 3,
        408 => 5,
        400..500 => 4,
        503 => 7,
        500..600 => 6,
        0..300 => u8::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, realm: &str) -> Vec<u8> {
        format!(
            "SIP/2.0 {status} Reason\r\nVia: SIP/2.0/UDP a\r\nCall-ID: 1\r\n\
             Proxy-Authenticate: Digest realm=\"{realm}\"\r\n\r\n"
        )
        .into_bytes()
    }

    fn best_of(statuses: &[u16]) -> (u16, String) {
        let (mut best, mut buffers) = (Best::default(), Buffers::new(4096));
        for (index, &status) in statuses.iter().enumerate() {
            let bytes = response(status, &index.to_string());
            let message = Message::parse(&bytes, 16).expect("well formed");
            best.offer(&mut buffers, &message, |out| out.extend_from_slice(&bytes));
        }
        let mut out = Vec::new();
        best.write(&mut Edits::default(), &mut out);
        (best.status(), String::from_utf8(out).expect("it is text"))
    }

    /// RFC 3261 §16.7 step 6
    #[test]
    fn the_best_response_is_chosen() {
        let cases: [(&[u16], u16); 8] = [
            (&[486, 603, 302], 603),
            (&[486, 302, 500], 302),
            (&[500, 486, 404], 486),
            (&[404, 484, 486], 484),
            (&[486, 407, 420], 407),
            (&[503, 500], 500),
            (&[503, 408], 408),
            (&[408, 480], 480),
        ];
        for (statuses, expected) in cases {
            assert_eq!(best_of(statuses).0, expected, "{statuses:?}");
        }
    }

    /// The best response of a request was kept beside all budgets, with any number of challenges.
    #[test]
    fn what_has_no_room_is_answered_with_its_status() {
        let mut buffers = Buffers::new(300);
        let (mut best, mut other) = (Best::default(), Best::default());
        let bytes = response(486, &"x".repeat(100));
        let message = Message::parse(&bytes, 16).expect("well formed");
        for best in [&mut best, &mut other] {
            best.offer(&mut buffers, &message, |out| out.extend_from_slice(&bytes));
        }
        assert!(best.is_received() && !other.is_received());
        assert_eq!((best.status(), other.status()), (486, 486));
        best.clear(&mut buffers);
        assert_eq!(buffers.kept_bytes(), 0);
        let challenge = response(407, &"x".repeat(500));
        let challenge = Message::parse(&challenge, 16).expect("well formed");
        for _ in 0..26 {
            other.offer(&mut buffers, &challenge, |_| {});
        }
        assert!(other.challenges.len() < CHALLENGES_BYTES_MAX);
    }

    /// RFC 3261 §16.7 step 7
    #[test]
    fn all_challenges_go_back() {
        let (status, text) = best_of(&[486, 407, 401, 407, 500]);
        assert_eq!(status, 407);
        for realm in [1, 2, 3] {
            assert!(text.contains(&format!("realm=\"{realm}\"\r\n")), "{text}");
        }
        assert!(!text.contains("realm=\"0\"") && !text.contains("realm=\"4\""));
        assert!(Message::parse(text.as_bytes(), 16).is_ok());
    }
}
