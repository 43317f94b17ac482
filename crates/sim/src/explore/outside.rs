use std::net::SocketAddr;

use fastrand::Rng;

use super::{
    affinity::Affinity,
    attack::{Attack, Forged, Strangers, own_addresses},
    draw::Plan,
    public::{Deed, nat_ip},
    reach::Reach,
};
use crate::{Cluster, Nat, PartyId, Watch, edge_address, server_address};

/// The public network of a run: NATs and strangers.
#[derive(Debug)]
pub(super) struct Outside {
    strangers: Option<(PartyId, Strangers)>,
    /// Draws what strangers do with their connections, if they have some.
    line: Option<Rng>,
    servers_hang_up: bool,
    /// Draws the edges that are told of closed ports.
    rng: Rng,
    /// Calls that may fail, because a NAT rebound during a transaction of theirs.
    pub(super) excused: u64,
    /// Calls whose servers may not have reached their callers, because a NAT rebound.
    pub(super) unreached: u64,
    /// The servers' count of unheard BYEs when the counting began.
    unheard_before: u64,
}

impl Outside {
    /// Puts NATs before callers, and adds strangers.
    pub(super) fn new(plan: &Plan, cluster: &mut Cluster) -> Self {
        let mut rng = Rng::with_seed(!plan.seed);
        for (number, &caller) in cluster.callers.iter().enumerate() {
            if let Some(nat) = plan.nat(number) {
                let nat = Nat::new(nat_ip(number), nat.idle_max, rng.fork());
                cluster.world.put_behind(nat, caller);
            }
        }
        let strangers = plan.public.as_ref().map(|_| {
            let streams = plan.streams.filter(|streams| streams.of_strangers);
            let world = &mut cluster.world;
            let id = match streams {
                Some(streams) => world.add_stream_stranger(own_addresses(), streams.conduct),
                None => world.add_stranger(own_addresses()),
            };
            let edges = (0..plan.setup.edges).map(edge_address).collect();
            let strangers = Strangers::new(rng.fork(), edges, servers(plan), callers(plan));
            (id, strangers)
        });
        Self {
            strangers,
            line: plan.streams.map(|_| Rng::with_seed(plan.seed)),
            servers_hang_up: plan.public.as_ref().is_some_and(|it| it.hang_up.is_some()),
            rng,
            excused: 0,
            unreached: 0,
            unheard_before: 0,
        }
    }

    /// Does what is due.
    pub(super) fn act<W: Watch>(
        &mut self,
        deed: Deed,
        cluster: &mut Cluster,
        watch: &mut ((Affinity, Option<Reach>), W),
    ) {
        match deed {
            Deed::Rebind(caller) => self.rebind(cluster, caller),
            Deed::Attack(Attack::Unreachable) => self.forge_unreachable(cluster),
            Deed::Attack(attack) => self.attack(attack, cluster, watch),
        }
    }

    /// From now on, BYEs that nobody hears have no excuse.
    pub(super) fn begin_anew(&mut self, cluster: &Cluster) {
        (self.unreached, self.unheard_before) = (0, 0);
        self.unheard_before = self.unheard(cluster);
    }

    /// BYEs of servers that nobody has answered.
    pub(super) fn unheard(&self, cluster: &Cluster) -> u64 {
        let servers = cluster.servers.iter();
        let unheard = servers.map(|&server| cluster.world.server(server).stats().unheard);
        unheard.sum::<u64>() - self.unheard_before
    }

    fn rebind(&mut self, cluster: &mut Cluster, caller: usize) {
        let id = cluster.callers[caller];
        if let Some(nat) = cluster.world.nat_mut(id) {
            nat.rebind();
            let caller = cluster.world.caller(id);
            let open = caller.open_calls() as u64;
            // A caller that missed the BYE of its server is refused what it asks for then.
            self.excused += match self.servers_hang_up {
                true => open,
                false => caller.pending_calls() as u64,
            };
            self.unreached += open;
        }
    }

    fn forge_unreachable(&mut self, cluster: &mut Cluster) {
        if let Some((id, strangers)) = &mut self.strangers {
            let edge = cluster.edges[self.rng.usize(..cluster.edges.len())];
            let address = strangers.unreachable();
            cluster.world.forge_unreachable(*id, edge, address);
        }
    }

    fn attack<W: Watch>(
        &mut self,
        attack: Attack,
        cluster: &mut Cluster,
        watch: &mut ((Affinity, Option<Reach>), W),
    ) {
        let (Some((id, strangers)), Some(reach)) = (&mut self.strangers, &watch.0.1) else {
            return;
        };
        let world = &mut cluster.world;
        for forged in strangers.attack(attack, &reach.seen) {
            let Forged { from, to, bytes } = &forged;
            let own = own_addresses().iter().position(|own| own == from);
            let sent = own.zip(self.line.as_mut().and_then(|rng| on_stream(rng, bytes)));
            match sent {
                Some((own, bytes)) => world.send_over_stream(*id, own, *to, &bytes, watch),
                None => world.forge(*id, *from, *to, bytes, watch),
            }
        }
        if let Some(rng) = &mut self.line {
            match rng.u8(..20) {
                0 => world.reset_streams(*id),
                1 => world.set_reading(*id, false),
                2 | 3 => world.set_reading(*id, true),
                _ => {}
            }
        }
    }
}

/// What is sent of a datagram over a connection, if it does not stay a datagram: all of it, or not its end.
fn on_stream(rng: &mut Rng, bytes: &[u8]) -> Option<Vec<u8>> {
    if rng.bool() {
        return None;
    }
    let end = match rng.u8(..10) {
        0 => rng.usize(..=bytes.len()),
        _ => bytes.len(),
    };
    let mut bytes = bytes[..end].to_vec();
    let datagram = b"SIP/2.0/UDP";
    if let Some(at) = bytes.windows(datagram.len()).position(|it| it == datagram) {
        bytes[at..at + datagram.len()].copy_from_slice(b"SIP/2.0/TCP");
    }
    Some(bytes)
}

/// Who sees where edges send to, if strangers are there.
pub(super) fn reach(plan: &Plan, cluster: &Cluster, outside: &Outside) -> Option<Reach> {
    let (id, _) = outside.strangers.as_ref()?;
    let honest = [servers(plan), callers(plan)].concat();
    let honest = honest.iter().map(SocketAddr::ip).collect();
    let is_tapped = plan.public.as_ref()?.is_tapped;
    let has_copies = !plan.is_faultless();
    let own = own_addresses().iter().map(SocketAddr::ip).collect();
    let edges = cluster.edges.clone();
    let reach = Reach::new(edges, honest, (*id, own), is_tapped, has_copies);
    Some(reach)
}

fn servers(plan: &Plan) -> Vec<SocketAddr> {
    (0..plan.setup.servers.len()).map(server_address).collect()
}

/// The callers' addresses as others see them, but for the ports that NATs give.
fn callers(plan: &Plan) -> Vec<SocketAddr> {
    let seen = (0..plan.setup.edges).map(|caller| {
        let mut address = plan.setup.caller(caller).sockets[0];
        if plan.nat(caller).is_some() {
            address.set_ip(nat_ip(caller));
        }
        address
    });
    seen.collect()
}
