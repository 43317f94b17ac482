//! REGISTER, and calls to those who did: RFC 3261 §10.3, RFC 3327, RFC 3608, RFC 7616.

mod access;
mod bindings;
mod calls;
mod gruu;
mod guesses;
mod keep_alives;
mod outbound;
mod reach;
mod store;

use std::{collections::BTreeMap, fmt::Write as _};

use location::{Aor, Binding, Location, Subscriber};
use node::{
    Answer, Ask, Config, Record,
    config::{Destination, Mode, WhenFull},
    stats::Event,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use sip::digest::{Algorithm, Ha1};

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, Sent, location, ms, route, s},
    message::{Dialog, Msg, request, uri_of},
};

const PHONE: &str = "198.51.100.1:5060";
const DESK: &str = "198.51.100.2:5060";

/// Another proxy, which is a peer.
const OUTER: &str = "192.0.2.77:5070";

/// A node and the store that it asks, which answers at once.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    store: BTreeMap<Box<[u8]>, Record>,
    fails: bool,
}

/// Anybody may register.
pub(crate) fn open() -> Config {
    let mut config = location();
    config.trust.peers = vec!["192.0.2.64/26".parse().unwrap()];
    config.registrar.as_mut().unwrap().algorithms.clear();
    config
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            cluster: Cluster::new(config),
            store: BTreeMap::new(),
            fails: false,
        }
    }

    /// A user with the password "secret".
    pub(crate) fn add_user(&mut self, user: &str) {
        let aor = Aor::new(user, "example.com").unwrap();
        let hash = Ha1::new(
            Algorithm::Sha256,
            user.as_bytes(),
            b"example.com",
            b"secret",
        );
        let Ha1::Sha256(hash) = hash else { panic!() };
        let key = Subscriber::key_of(&aor).into();
        let subscriber = Subscriber {
            aor,
            ha1_md5: None,
            ha1_sha256: Some(hash),
        };
        let record = Record {
            value: subscriber.write().into(),
            expires: None,
        };
        self.store.insert(key, record);
    }

    /// Lets the node receive a message and ask all it wants to; returns what it sends.
    pub(crate) fn send(&mut self, message: &Msg) -> Vec<Sent> {
        let sent = self.cluster.send(message);
        self.answer_all(sent)
    }

    /// The connection of a message is gone before it was written.
    fn unsent(&mut self, message: &Sent) -> Vec<Sent> {
        let sent = self.cluster.unsent(message);
        self.answer_all(sent)
    }

    fn answer_all(&mut self, mut sent: Vec<Sent>) -> Vec<Sent> {
        while let Some(question) = self.cluster.questions.last() {
            let answer = match self.fails {
                true => Answer::Failed,
                false => self.ask(question.ask.clone()),
            };
            sent.extend(self.cluster.answer(answer));
        }
        sent
    }

    /// Has Bob, who is a user, register a contact.
    pub(crate) fn bind(&mut self, contact: &str) {
        let challenge = self.pass(&register(1, contact));
        let shown = credentials(&challenge, "bob", "secret", 1);
        let again = register(2, contact).with("Authorization", shown);
        assert_eq!(self.pass(&again).status(), 200);
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Locate { .. } => Answer::Located(Vec::new()),
            Ask::Read { key } => Answer::Record(self.store.get(&key).cloned()),
            Ask::Change { key, seen, next } => {
                if self.store.get(&key) != seen.as_ref() {
                    return Answer::Record(self.store.get(&key).cloned());
                }
                match next {
                    Some(next) => self.store.insert(key, next),
                    None => self.store.remove(&key),
                };
                Answer::Changed
            }
        }
    }

    /// The same when one message is to be sent.
    pub(crate) fn pass(&mut self, message: &Msg) -> Sent {
        let mut sent = self.send(message);
        assert_eq!(sent.len(), 1, "{message}\n{sent:#?}");
        sent.remove(0)
    }

    /// The status that a message gets, and the contacts in the answer.
    fn contacts(&mut self, message: &Msg) -> (u16, Vec<String>) {
        let reply = self.pass(message);
        let contacts = reply.all("Contact").iter().map(|&c| c.to_owned()).collect();
        (reply.status(), contacts)
    }
}

/// A phone that registers as `sip:bob@example.com`.
pub(crate) fn register(cseq: u32, contact: &str) -> Msg {
    let register = of(request("REGISTER", PHONE, "bob"), "bob", cseq);
    match contact {
        "" => register,
        contact => register.with("Contact", contact),
    }
}

/// The same as it comes from a proxy.
fn through(proxy: &str, register: Msg) -> Msg {
    Msg {
        from: proxy.parse().unwrap(),
        ..register
    }
}

fn of(message: Msg, user: &str, cseq: u32) -> Msg {
    let mut message = message
        .without("Contact")
        .set("To", format!("<sip:{user}@example.com>"))
        .set("CSeq", format!("{cseq} REGISTER"))
        .set(
            "Via",
            format!("SIP/2.0/UDP {PHONE};rport;branch=z9hG4bK-{user}-{cseq}"),
        );
    message.start = "REGISTER sip:example.com SIP/2.0".to_owned();
    message
}

fn hex(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
}

/// What a user agent makes of a challenge.
fn credentials(challenge: &Sent, user: &str, password: &str, nc: u32) -> String {
    let resource = ("REGISTER", "sip:example.com");
    answer_to(
        challenge,
        "WWW-Authenticate",
        resource,
        (user, password),
        nc,
    )
}

/// What a user agent with a name and a password makes of the challenge in a field, for a method and a URI.
pub(crate) fn answer_to(
    challenge: &Sent,
    field: &str,
    (method, uri): (&str, &str),
    (user, password): (&str, &str),
    nc: u32,
) -> String {
    let field = challenge.all(field);
    let nonce = field.iter().find_map(|part| part.strip_prefix("nonce=\""));
    let nonce = nonce.unwrap().trim_end_matches('"');
    let a1 = hex(&format!("{user}:example.com:{password}"));
    let a2 = hex(&format!("{method}:{uri}"));
    let response = hex(&format!("{a1}:{nonce}:{nc:08x}:c:auth:{a2}"));
    format!(
        "Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", \
         uri=\"{uri}\", algorithm=SHA-256, qop=auth, nc={nc:08x}, cnonce=\"c\", \
         response=\"{response}\""
    )
}
