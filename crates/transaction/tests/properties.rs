//! Whatever comes in whatever order: every transaction ends, nothing is left of it, and nothing
//! is said twice.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{MS, TIMING, Wire, flow, request, response};
use proptest::prelude::*;
use sip::{Message, Method};
use slots::Id;
use transaction::{Event, Key, Notice, State, Transaction, Transactions};

type Open = Id<Transaction<u8>>;

/// Who owns every transaction.
const OWNER: u8 = 1;
const LIMIT: usize = 6;
/// Timer C, then 64*T1 for what was cancelled, then 64*T1 for its last state.
const LONGEST: Duration = Duration::from_secs(181 + 32 + 32 + 1);

#[derive(Clone, Debug)]
enum Step {
    Request { invite: bool, reliable: bool },
    Receive { invite: bool, reliable: bool },
    Respond { which: usize, status: u16 },
    Answer { which: usize, status: u16 },
    Again { which: usize, ack: bool },
    Cancel { which: usize },
    Unreachable { which: usize },
    Wait { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![
        Just(100),
        Just(180),
        Just(200),
        Just(408),
        Just(486),
        Just(503)
    ];
    prop_oneof![
        any::<(bool, bool)>().prop_map(|(invite, reliable)| Step::Request { invite, reliable }),
        any::<(bool, bool)>().prop_map(|(invite, reliable)| Step::Receive { invite, reliable }),
        (0..LIMIT, status.clone()).prop_map(|(which, status)| Step::Respond { which, status }),
        (0..LIMIT, status).prop_map(|(which, status)| Step::Answer { which, status }),
        (0..LIMIT, any::<bool>()).prop_map(|(which, ack)| Step::Again { which, ack }),
        (0..LIMIT).prop_map(|which| Step::Cancel { which }),
        (0..LIMIT).prop_map(|which| Step::Unreachable { which }),
        (0_u64..40_000).prop_map(|ms| Step::Wait { ms }),
    ]
}

/// The transactions that the test knows to be open, and what it did with them.
struct World {
    store: Transactions<u8>,
    now: Duration,
    wire: Wire,
    open: Vec<(Open, Key)>,
    opened: u64,
}

impl World {
    fn new() -> Self {
        Self {
            store: Transactions::new(LIMIT, 4096, TIMING, MS(0)),
            now: MS(0),
            wire: Wire::default(),
            open: Vec::new(),
            opened: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        let now = self.now;
        match *step {
            Step::Request { invite, reliable } => {
                let method = if invite { Method::Invite } else { Method::Info };
                let text = request(str::from_utf8(method.as_bytes()).unwrap(), self.opened);
                let key = Key::client(self.opened, method);
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&text);
                let id = self
                    .store
                    .request(now, key, flow(reliable), OWNER, &mut self.wire, write);
                self.opened(id.ok(), key);
            }
            Step::Receive { invite, reliable } => {
                let method = if invite { Method::Invite } else { Method::Info };
                let key = Key::server(self.opened, method);
                let id = self.store.receive(now, key, flow(reliable), OWNER);
                self.opened(id.ok(), key);
            }
            Step::Respond { which, status } => {
                if let Some(id) = self.which(which, false) {
                    let bytes = response("INFO", status);
                    let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
                    self.store.respond(now, id, status, &mut self.wire, write);
                }
            }
            Step::Answer { which, status } => {
                if let Some(id) = self.which(which, true) {
                    let bytes = response("INFO", status);
                    let message = Message::parse(&bytes, 64).unwrap();
                    let before = self.store.state(id);
                    let passed = self.store.on_response(now, id, &message, &mut self.wire);
                    let is_final_again = status >= 300 && before == self.store.state(id);
                    assert!(!(passed && is_final_again), "a failure is passed on once");
                }
            }
            Step::Again { which, ack } => {
                if let Some(id) = self.which(which, false) {
                    self.store.on_request(now, id, ack, &mut self.wire);
                }
            }
            Step::Cancel { which } => {
                if let Some(id) = self.which(which, true) {
                    self.store.cancel(now, id, &mut self.wire);
                }
            }
            Step::Unreachable { which } => {
                if let Some(&(id, _)) = self.open.get(which)
                    && self.store.on_transport_error(now, id)
                {
                    self.open.remove(which);
                }
            }
            Step::Wait { ms } => self.wait(MS(ms), false),
        }
        let is_found = |&(id, key): &(Open, Key)| self.store.find(key) == Some(id);
        assert!(self.open.iter().all(is_found), "what is open can be found");
        assert!(self.store.len() >= self.open.len() && self.store.len() <= LIMIT);
    }

    fn opened(&mut self, id: Option<Open>, key: Key) {
        self.opened += 1;
        match id {
            Some(id) => self.open.push((id, key)),
            None => assert!(!self.store.has_room(1)),
        }
    }

    fn which(&self, which: usize, client: bool) -> Option<Open> {
        let &(id, _) = self.open.get(which)?;
        let is_client = matches!(
            self.store.state(id),
            State::InviteClient(_) | State::OtherClient(_)
        );
        (is_client == client).then_some(id)
    }

    /// Lets time pass. `dutiful`: the transaction user does what it is told.
    fn wait(&mut self, time: Duration, dutiful: bool) {
        let end = self.now + time;
        while let Some(at) = self.store.deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            while let Some(event) = self.store.poll(self.now, &mut self.wire) {
                self.told(event, dutiful);
            }
        }
        self.now = end;
        assert!(
            self.store.poll(end, &mut self.wire).is_none(),
            "the deadline was too late"
        );
    }

    fn told(&mut self, event: Event<u8>, dutiful: bool) {
        assert_eq!(event.owner, OWNER);
        let place = self.open.iter().position(|&(id, _)| id == event.id);
        let place = place.expect("what is told of is open");
        match event.notice {
            Notice::Timeout | Notice::Withheld | Notice::Ended => {
                self.open.swap_remove(place);
            }
            Notice::TimerC if dutiful => {
                self.store.cancel(self.now, event.id, &mut self.wire);
            }
            Notice::TimerC | Notice::Trying => {}
        }
    }
}

proptest! {
    #[test]
    fn every_transaction_ends(steps in prop::collection::vec(step(), 0..60)) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        // An INVITE that we received ends when its transaction user answers it; one whose Timer C
        // the transaction user let pass, when it is cancelled.
        for (id, _) in world.open.clone() {
            world.store.respond_if_server(world.now, id, &mut world.wire);
            world.store.cancel(world.now, id, &mut world.wire);
        }
        world.wait(LONGEST, true);
        prop_assert!(world.store.is_empty(), "{} are left", world.store.len());
        prop_assert!(world.open.is_empty(), "the transaction user was not told");
        prop_assert_eq!(world.store.deadline(), None);
    }
}

trait Answer {
    fn respond_if_server(&mut self, now: Duration, id: Open, wire: &mut Wire);
}

impl Answer for Transactions<u8> {
    fn respond_if_server(&mut self, now: Duration, id: Open, wire: &mut Wire) {
        if matches!(self.state(id), State::InviteServer(_)) {
            let bytes = response("INVITE", 500);
            self.respond(now, id, 500, wire, |out| out.extend_from_slice(&bytes));
        }
    }
}
