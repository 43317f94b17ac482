//! Who comes over connections, and what their systems have room for.

use std::{fmt, time::Duration};

use fastrand::Rng;
use load::{CallerConfig, Retransmission};
use node::{
    Config, Transport,
    config::{Listener, Pool},
};
use stream::Connections;

use super::{fault::Fault, ledger};
use crate::{Buffers, Conduct, PartyId, World};

/// Sets what is drawn here apart from the rest of the plan.
const OWN_STREAM: u64 = 0x7463_7073;

/// One in this many of the seeds that may be has connections.
const STREAMED: u32 = 2;

/// The connections of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Streams {
    /// Callers open them to their edges.
    pub of_callers: bool,
    /// Edges open them to the servers.
    pub of_servers: bool,
    /// Strangers open them to the edges.
    pub of_strangers: bool,
    /// How all deal with them.
    pub conduct: Conduct,
}

impl Streams {
    /// Draws the connections of a seed's plan, and faults of theirs, if it is to have faults. On a public network
    /// strangers have them in the place of callers, whose NATs know only datagrams.
    pub(super) fn draw(
        seed: u64,
        is_public: bool,
        (edges, servers): (usize, usize),
        until: Duration,
        faults: &mut Vec<(Duration, Fault)>,
    ) -> Option<Self> {
        let mut rng = Rng::with_seed(seed ^ OWN_STREAM);
        let rng = &mut rng;
        if rng.u32(..STREAMED) != 0 {
            return None;
        }
        let who = rng.u8(1..=3);
        if !faults.is_empty() {
            for _ in 0..rng.usize(..=6) {
                let at = until.mul_f64(rng.f64());
                faults.push((at, fault(rng, edges, servers)));
            }
            faults.sort_by_key(|(at, _)| *at);
        }
        Some(Self {
            of_callers: who & 1 != 0 && !is_public,
            of_servers: who & 2 != 0,
            of_strangers: is_public,
            conduct: conduct(rng),
        })
    }

    pub(super) fn apply_to_node(&self, config: &mut Config) {
        let Listener {
            address, advertise, ..
        } = config.listeners[0].clone();
        config.listeners.push(Listener {
            transport: Transport::Tcp,
            address,
            advertise,
        });
        let of_pool = |pool: &mut Pool| {
            for server in pool.servers.iter_mut().filter(|_| self.of_servers) {
                server.transport = Transport::Tcp;
            }
        };
        config.pools.iter_mut().for_each(of_pool);
    }

    /// Who calls over a connection sends nothing twice: RFC 3261 §17.1.1.2.
    pub(super) fn apply_to_caller(&self, config: &mut CallerConfig) {
        if self.of_callers {
            config.retransmission = Retransmission::Never;
        }
    }
}

/// Finds connections that are still there although nobody has used them for longer than they may be idle. An edge
/// uses one to a server that it probes, or that it asks about a call whose caller vanished.
pub(super) fn left(world: &World, edges: &[PartyId], are_probed: bool) -> Result<(), String> {
    let mut used = 0;
    for &edge in edges {
        let edge = world.edge(edge);
        let is_used = |remote| are_probed || ledger::calls_on(edge, remote) > 0;
        for (flow, _) in edge.connections().flat_map(Connections::iter) {
            if !is_used(flow.remote) {
                return Err(format!("a connection with {} stays", flow.remote));
            }
            used += 1;
        }
    }
    match world.connection_ends() {
        ends if ends == 2 * used => Ok(()),
        ends => Err(format!(
            "{ends} ends of connections stay, of which {used} are edges'"
        )),
    }
}

/// From the least room that Linux gives to what it usually gives.
fn conduct(rng: &mut Rng) -> Conduct {
    let usual = Conduct::default();
    let mut bytes = |least: usize, most: usize| match rng.bool() {
        true => rng.usize(least..most),
        false => most,
    };
    Conduct {
        buffers: Buffers {
            send: bytes(4_608, usual.buffers.send),
            receive: bytes(2_304, usual.buffers.receive),
            unsent: bytes(1, 4_096),
        },
        read_bytes: bytes(1, usual.read_bytes),
        ..usual
    }
}

fn fault(rng: &mut Rng, edges: usize, servers: usize) -> Fault {
    let (edge, server) = (rng.usize(..edges), rng.usize(..servers));
    let lasting = Duration::from_millis(rng.u64(50..15_000));
    match rng.u8(..3) {
        0 => Fault::ResetEdge(edge),
        1 => Fault::ResetServer(server),
        _ => Fault::Unread(server, lasting),
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.of_callers, "callers"),
            (self.of_servers, "servers"),
            (self.of_strangers, "strangers"),
        ];
        let who = all.iter().filter_map(|&(has, who)| has.then_some(who));
        let who = who.collect::<Vec<_>>().join(" and ");
        let Conduct {
            buffers,
            read_bytes,
            ..
        } = self.conduct;
        let Buffers {
            send,
            receive,
            unsent,
        } = buffers;
        write!(
            f,
            "{who} on connections: send {send} B, receive {receive} B, unsent {unsent} B, read {read_bytes} B"
        )
    }
}
