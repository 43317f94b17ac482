//! The calls of a server, found by Call-ID or by the tag that the server gave them.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
    net::SocketAddr,
    time::Duration,
};

use fastrand::Rng;

use crate::{
    template::{from_hex, hex},
    timers::{Alarm, T1, T4},
};

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    generation: u32,
    key: u64,
    pub phase: Phase,
    /// The number of the last INVITE.
    pub cseq: u32,
    /// A BYE has come.
    pub is_closing: bool,
    pub alarm: Alarm,
    pub interval: Duration,
    pub give_up: Duration,
    /// Where the INVITE came from.
    pub peer: SocketAddr,
    /// The header fields of the INVITE's responses; empty once the ACK is there.
    pub headers: Vec<u8>,
    /// The caller's Contact URI, kept as long as `headers`.
    pub contact: Vec<u8>,
    /// The `headers` of the first INVITE if the server may hang up: a re-INVITE changes no route set
    /// (RFC 3261 §12.2).
    pub first_headers: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No call uses the slot.
    Vacant,
    /// The INVITE waits for its service.
    Queued,
    /// A re-INVITE waits for its service.
    Renewing,
    /// 180 sent.
    Ringing,
    /// 200 sent, and again until the ACK comes (RFC 3261 §13.3.1.4).
    Answered,
    /// 487 sent, and again until the ACK comes (RFC 3261 §17.2.1).
    Refused,
    /// ACK received.
    Confirmed,
    /// No ACK came: BYE sent.
    Leaving,
    /// The server hangs up: BYE sent.
    HangingUp,
}

/// One call for ever: its slot is another's in another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub slot: u32,
    generation: u32,
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Open(Handle),
    /// There was such a call; what comes for it is a late copy.
    Ended,
    Unknown,
}

/// A To tag: server, slot and generation of the slot in hexadecimal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tag([u8; 24]);

#[derive(Debug)]
pub(super) struct Calls {
    /// Sets the tags of this server apart from those of others.
    identity: u32,
    pub slots: Vec<Call>,
    free: Vec<u32>,
    by_key: HashMap<u64, Found, BuildHasherDefault<Mixed>>,
    /// Keys of ended calls that a late INVITE may still name, oldest first.
    ended: VecDeque<(Duration, u64)>,
    spare: Vec<Vec<u8>>,
}

impl Calls {
    pub(super) fn new(rng: &mut Rng) -> Self {
        Self {
            identity: rng.u32(..),
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::default(),
            ended: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    pub(super) fn open(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn by_call_id(&self, call_id: &[u8]) -> Found {
        *self
            .by_key
            .get(&self.key(call_id))
            .unwrap_or(&Found::Unknown)
    }

    /// Finds the call whose To tag this is. Ended calls are known as long as the server lives.
    pub(super) fn by_tag(&self, tag: &[u8]) -> Found {
        let Some((slot, generation)) = self.read_tag(tag) else {
            return Found::Unknown;
        };
        match self.slots.get(slot as usize) {
            Some(call) if call.generation == generation && call.phase != Phase::Vacant => {
                Found::Open(Handle { slot, generation })
            }
            Some(call) if call.generation > generation => Found::Ended,
            _ => Found::Unknown,
        }
    }

    /// The To tag of a call.
    pub(super) fn tag(&self, slot: u32) -> Tag {
        let generation = self.slots[slot as usize].generation;
        let mut digits = [0; 24];
        for (part, value) in digits.chunks_mut(8).zip([self.identity, slot, generation]) {
            part.copy_from_slice(&hex::<8>(u64::from(value)));
        }
        Tag(digits)
    }

    pub(super) fn insert(&mut self, now: Duration, call_id: &[u8], peer: SocketAddr) -> Handle {
        self.forget_ended(now);
        let key = self.key(call_id);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Call::vacant(peer));
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 calls are open")
        });
        let call = &mut self.slots[slot as usize];
        call.key = key;
        let generation = call.generation;
        let handle = Handle { slot, generation };
        self.by_key.insert(key, Found::Open(handle));
        handle
    }

    pub(super) fn is_open(&self, handle: Handle) -> bool {
        self.slots[handle.slot as usize].generation == handle.generation
    }

    /// Gives a call the memory for another INVITE.
    pub(super) fn renew(&mut self, slot: u32) -> &mut Call {
        let call = &mut self.slots[slot as usize];
        call.headers = self.spare.pop().unwrap_or_default();
        call.contact = self.spare.pop().unwrap_or_default();
        call
    }

    /// Gives back what only retransmissions need.
    pub(super) fn shed(&mut self, slot: u32) {
        let call = &mut self.slots[slot as usize];
        for text in [
            &mut call.headers,
            &mut call.contact,
            &mut call.first_headers,
        ] {
            if text.capacity() > 0 {
                text.clear();
                self.spare.push(std::mem::take(text));
            }
        }
    }

    pub(super) fn remove(&mut self, now: Duration, slot: u32) {
        self.shed(slot);
        let call = &mut self.slots[slot as usize];
        call.phase = Phase::Vacant;
        call.is_closing = false;
        call.generation += 1;
        call.alarm.stop();
        self.by_key.insert(call.key, Found::Ended);
        self.ended.push_back((now, call.key));
        self.free.push(slot);
    }

    fn forget_ended(&mut self, now: Duration) {
        while let Some((_, key)) = self.ended.pop_front_if(|(ended, _)| *ended + T4 < now) {
            self.by_key.remove(&key);
        }
    }

    fn read_tag(&self, tag: &[u8]) -> Option<(u32, u32)> {
        let part = |at: usize| u32::try_from(from_hex(tag.get(at..at + 8)?)?).ok();
        let ours = tag.len() == 24 && part(0)? == self.identity;
        if ours {
            Some((part(8)?, part(16)?))
        } else {
            None
        }
    }

    /// A hash that tells Call-IDs apart.
    fn key(&self, call_id: &[u8]) -> u64 {
        let seed = u64::from(self.identity) ^ call_id.len() as u64;
        call_id.chunks(8).fold(seed, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(hash ^ u64::from_le_bytes(word)) * 0x9e37_79b9_7f4a_7c15;
            (product ^ (product >> 64)) as u64
        })
    }
}

impl Tag {
    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl Call {
    fn vacant(peer: SocketAddr) -> Self {
        Self {
            generation: 0,
            key: 0,
            phase: Phase::Vacant,
            cseq: 0,
            is_closing: false,
            alarm: Alarm::OFF,
            interval: T1,
            give_up: Duration::ZERO,
            peer,
            headers: Vec::new(),
            contact: Vec::new(),
            first_headers: Vec::new(),
        }
    }
}

/// Hashes keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}
