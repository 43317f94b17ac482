//! What the tests of limits share.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::{net::SocketAddr, time::Duration};

use sip::{FrameFault, FrameLimits};
use stream::{Closed, Connections, Event, Layer, Limits, Said, Why};
use transaction::{ConnectionId, Flow, NextHop, Transport};

pub(crate) const LIMITS: Limits = Limits {
    total: 10,
    per_source: 3,
    connecting: 2,
    handshaking: 2,
    handshake: S(2),
    idle: S(100),
    message: S(3),
    stall: S(4),
    linger: S(1),
    queue_bytes: 50_000,
    total_bytes: 120_000,
    frame: FrameLimits {
        head_bytes: 500,
        message_bytes: 1_000,
    },
};

#[expect(non_snake_case, reason = "it reads as a unit")]
pub(crate) const fn S(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const ZERO: Duration = Duration::ZERO;
pub(crate) const REQUEST: &[u8] = b"OPTIONS sip:a SIP/2.0\r\nl: 0\r\n\r\n";

pub(crate) fn flow(host: u8, port: u16) -> Flow {
    let address = ([192, 0, 2, host], port).into();
    let transport = Transport::Tcp;
    Flow::to(0, NextHop { transport, address })
}

pub(crate) fn hear<L: Layer>(
    connections: &mut Connections<L>,
    now: Duration,
    id: ConnectionId,
    bytes: &[u8],
) -> Vec<(SocketAddr, Vec<u8>, Option<FrameFault>)> {
    let mut all = Vec::new();
    connections.receive(now, id, bytes, &mut |flow, heard| {
        all.push((flow.remote, heard.bytes.to_vec(), heard.fault));
    });
    all
}

pub(crate) fn end<L: Layer>(connections: &mut Connections<L>) -> Vec<Why> {
    let events = std::iter::from_fn(|| connections.next_event());
    let ends = events.filter_map(|event| match event {
        Event::Close(Closed { why, .. }) => Some(why),
        Event::Writable(_) | Event::Opened(_) | Event::Backlog { .. } | Event::Unsent { .. } => {
            None
        }
    });
    let ends: Vec<_> = ends.collect();
    connections.recount();
    for &why in &ends {
        assert!(connections.counters().closed(why) > 0);
    }
    ends
}

/// A layer that is open when a byte has come, after an address if it wants one.
#[derive(Debug)]
pub(crate) struct Slow {
    is_open: bool,
    awaits_remote: bool,
}

pub(crate) fn slow(awaits_remote: bool) -> Slow {
    let is_open = false;
    Slow {
        is_open,
        awaits_remote,
    }
}

impl Layer for Slow {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        if std::mem::take(&mut self.awaits_remote) {
            heard(Said::Remote(([198, 51, 100, bytes[0]], 9).into()));
            return Ok(());
        }
        if std::mem::replace(&mut self.is_open, true) {
            heard(Said::Bytes(bytes));
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        wire.extend_from_slice(message);
        Ok(())
    }

    fn write_own(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        wire.extend_from_slice(b"bye");
    }

    fn awaits_remote(&self) -> bool {
        self.awaits_remote
    }
}
