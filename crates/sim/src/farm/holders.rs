//! Counts who holds each transaction, by the marks in the Vias of the requests that reach servers.

use std::{collections::BTreeMap, hash::Hasher, mem, time::Duration};

use sip::{Message, Method, Via};

use crate::{Event, HEADERS_MAX, PartyId, Watch, What};

/// A transaction that is older than twice this is forgotten: no copy of its request comes any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(64);

/// A checker: each transaction that reaches a server is held by one node on its path.
///
/// A node that restarts has lost what it held, so another may hold it after that.
#[derive(Debug)]
pub struct Holders {
    servers: Vec<PartyId>,
    young: BTreeMap<u64, Held>,
    old: BTreeMap<u64, Held>,
    turned_at: Duration,
    restarts: u32,
    tally: Tally,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    /// The node's name in its Via, hashed.
    by: u64,
    /// How many restarts there had been.
    restarts: u32,
}

/// What a [`Holders`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transactions that reached a server.
    pub transactions: u64,
    /// Those that not the first node held.
    pub left_open: u64,
    /// Those that nobody held when they did.
    pub by_none: u64,
    /// Those that two nodes held, although no node restarted in between.
    pub by_two: u64,
    /// Those that another node held after a restart.
    pub anew: u64,
}

impl Holders {
    /// A checker of what reaches these servers.
    #[must_use]
    pub fn new(servers: Vec<PartyId>) -> Self {
        Self {
            servers,
            young: BTreeMap::new(),
            old: BTreeMap::new(),
            turned_at: Duration::ZERO,
            restarts: 0,
            tally: Tally::default(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    fn note(&mut self, at: Duration, message: &Message<'_>) {
        let Some(key) = key_of(message) else {
            return;
        };
        let marked = |letter: u8| {
            let vias = message.vias().map_while(Result::ok);
            vias.filter(move |via| {
                let mark = via.find_param(message, b"sy-state");
                mark.is_some_and(|(_, mark)| mark.first() == Some(&letter))
            })
        };
        let mut holders = marked(b'h');
        let first = holders.next().map(|via| name(&via));
        if holders.next().is_some() {
            self.tally.by_two += 1;
        }
        if at > self.turned_at + FORGOTTEN_AFTER {
            self.turned_at = at;
            self.old = mem::take(&mut self.young);
        }
        let known = self.young.get(&key).or_else(|| self.old.get(&key)).copied();
        let restarts = self.restarts;
        match (known, first) {
            (None, by) => {
                self.tally.transactions += 1;
                self.tally.left_open += u64::from(marked(b'o').next().is_some());
                self.tally.by_none += u64::from(by.is_none());
                let by = by.unwrap_or_default();
                self.young.insert(key, Held { by, restarts });
            }
            (Some(held), Some(by)) if held.by != by => {
                if held.restarts == restarts && held.by != 0 {
                    self.tally.by_two += 1;
                } else {
                    self.tally.anew += 1;
                }
                self.young.insert(key, Held { by, restarts });
            }
            _ => {}
        }
    }
}

impl Watch for Holders {
    fn see(&mut self, event: &Event<'_>) {
        match event.what {
            What::Restarted => self.restarts += 1,
            What::Arrived => {
                let is_server = |id: PartyId| self.servers.contains(&id);
                if event.receiver.is_some_and(is_server)
                    && let Ok(message) = Message::parse(event.bytes, HEADERS_MAX)
                {
                    self.note(event.at, &message);
                }
            }
            _ => {}
        }
    }
}

/// What a transaction's copies share on the whole path. None: it is no request, or none that is held; a node's own,
/// which asks whether a dialog is alive, has a single Via.
fn key_of(message: &Message<'_>) -> Option<u64> {
    let method = message.method()?;
    let is_of_node = message.vias().count() < 2;
    if is_of_node || matches!(method, Method::Ack | Method::Cancel) {
        return None;
    }
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(message.call_id().ok()?);
    hasher.write_u32(message.cseq().ok()?.number);
    hasher.write(method.as_bytes());
    Some(hasher.finish())
}

fn name(via: &Via<'_>) -> u64 {
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    hasher.write(via.host);
    hasher.write_u16(via.port.unwrap_or(5060));
    hasher.finish().max(1)
}
