//! Users who call over a path of nodes, and whether each of their INVITEs at a server was checked.

use std::time::Duration;

use location::{Aor, Subscriber};
use node::Record;
use sip::{
    HeaderName, Message, Method,
    digest::{Algorithm, Ha1},
};
use topology::Topology;

use super::domain;
use crate::{Event, HEADERS_MAX, PartyId, Store, Watch, What};

const USER: &str = "caller";
const PASSWORD: &str = "secret";

/// Who may call: one user for each path.
#[derive(Clone, Debug)]
pub struct Users {
    /// Where the nodes find them.
    pub store: Store,
    /// Their password.
    pub password: String,
    /// What it costs a node of speed 1 to check one of them.
    pub check: Duration,
}

/// A checker: no INVITE reaches a server unless a node on its path has checked who sent it.
#[derive(Debug)]
pub struct Checks {
    servers: Vec<PartyId>,
    invites: u64,
    left: u64,
    unchecked: u64,
}

impl Users {
    /// The callers of each path of a topology.
    ///
    /// # Panics
    /// Never: all names are valid.
    #[must_use]
    pub fn of(topology: &Topology, check: Duration) -> Self {
        let store = Store::default();
        for path in 0..topology.paths.len() {
            let realm = domain(path);
            let (name, password) = (USER.as_bytes(), PASSWORD.as_bytes());
            let secret = Ha1::new(Algorithm::Sha256, name, realm.as_bytes(), password);
            let aor = Aor::new(USER, &realm).expect("a name and a domain");
            let key = Subscriber::key_of(&aor);
            let subscriber = Subscriber {
                aor,
                ha1_md5: None,
                ha1_sha256: match secret {
                    Ha1::Sha256(hash) => Some(hash),
                    Ha1::Md5(_) => None,
                },
            };
            let value = subscriber.write().into();
            store.insert(
                key.as_ref(),
                Record {
                    value,
                    expires: None,
                },
            );
        }
        Self {
            store,
            password: PASSWORD.to_owned(),
            check,
        }
    }
}

impl Checks {
    /// A checker of what reaches these servers.
    #[must_use]
    pub fn new(servers: Vec<PartyId>) -> Self {
        Self {
            servers,
            invites: 0,
            left: 0,
            unchecked: 0,
        }
    }

    /// INVITEs that reached a server, copies included.
    #[must_use]
    pub fn invites(&self) -> u64 {
        self.invites
    }

    /// Those that some node left to one behind it to check.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Those that nobody has checked, or two.
    #[must_use]
    pub fn unchecked(&self) -> u64 {
        self.unchecked
    }

    /// Whoever checks an INVITE takes the credentials off it and asserts its user, which nobody else does here.
    fn note(&mut self, message: &Message<'_>) {
        let identities = message.header_values(HeaderName::PAssertedIdentity).count();
        let shows = message.header(HeaderName::ProxyAuthorization).is_some();
        let is_marked = |letter: u8| {
            let mut vias = message.vias().map_while(Result::ok);
            vias.any(|via| {
                let mark = via.find_param(message, b"sy-check");
                mark.is_some_and(|(_, mark)| mark.first() == Some(&letter))
            })
        };
        self.invites += 1;
        self.left += u64::from(is_marked(b'o'));
        self.unchecked += u64::from(identities != 1 || shows || !is_marked(b'd'));
    }
}

impl Watch for Checks {
    fn see(&mut self, event: &Event<'_>) {
        let is_there = event.receiver.is_some_and(|id| self.servers.contains(&id));
        if matches!(event.what, What::Arrived)
            && is_there
            && let Ok(message) = Message::parse(event.bytes, HEADERS_MAX)
            && message.method() == Some(Method::Invite)
            && message.to_tag() == Ok(None)
        {
            self.note(&message);
        }
    }
}
