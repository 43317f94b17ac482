//! Which requests are left open to whom, and how many each node before may leave open here.

use crate::peers::{NOBODY, PLACES};

/// Requests from one peer to another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// Since the last interval.
    pub(crate) came: u32,
    pub(crate) came_open: u32,
    /// Per second, smoothed.
    pub(crate) all: f64,
    pub(crate) open: f64,
}

/// The requests of a worker, by where they come from and where they go.
#[derive(Debug)]
pub(crate) struct Flows(Box<[Flow]>);

impl Flows {
    pub(crate) fn new() -> Self {
        Self(vec![Flow::default(); PLACES * PLACES].into())
    }

    pub(crate) fn get(&self, from: usize, to: usize) -> &Flow {
        &self.0[from * PLACES + to]
    }

    pub(crate) fn note(&mut self, from: usize, to: usize, is_open: bool) {
        let flow = &mut self.0[from * PLACES + to];
        flow.came += 1;
        flow.came_open += u32::from(is_open);
    }

    /// An interval is over. `weight` is its share of the smoothed rates.
    pub(crate) fn smooth(&mut self, end: usize, seconds: f64, weight: f64) {
        for from in 0..end {
            for flow in &mut self.0[from * PLACES..from * PLACES + end] {
                flow.all += weight * (f64::from(flow.came) / seconds - flow.all);
                flow.open += weight * (f64::from(flow.came_open) / seconds - flow.open);
                (flow.came, flow.came_open) = (0, 0);
            }
        }
    }

    pub(crate) fn forget(&mut self, peer: usize) {
        for other in 0..PLACES {
            self.0[peer * PLACES + other] = Flow::default();
            self.0[other * PLACES + peer] = Flow::default();
        }
    }

    /// Open requests per second that go to a peer.
    pub(crate) fn open_to(&self, end: usize, to: usize) -> f64 {
        (0..end).map(|from| self.get(from, to).open).sum()
    }

    /// Open requests per second.
    pub(crate) fn open(&self, end: usize) -> f64 {
        (0..end).map(|to| self.open_to(end, to)).sum()
    }
}

/// The share of the open requests to each peer that is left to it: `surplus` per second in all, divided by
/// `rooms`, which are what the peers can take.
pub(crate) fn pass_shares(
    flows: &Flows,
    end: usize,
    surplus: f64,
    rooms: &[f64],
    shares: &mut [f64],
) {
    let takes = |to: usize| flows.open_to(end, to).min(rooms[to]);
    let all: f64 = (1..end).map(takes).sum();
    let scale = if all > 0.0 {
        (surplus / all).clamp(0.0, 1.0)
    } else {
        0.0
    };
    shares[NOBODY] = 0.0;
    for (to, share) in shares.iter_mut().enumerate().take(end).skip(1) {
        let open = flows.open_to(end, to);
        *share = if open > 0.0 {
            scale * takes(to) / open
        } else {
            scale * f64::from(u8::from(rooms[to] > 0.0))
        };
    }
}

/// What each peer before may leave open per second. `own` is what this node can hold itself.
///
/// First comes what is left open to it already, as far as there is room, and what the nodes behind it
/// take of a peer's requests. What it can hold beyond that is divided evenly. So a peer that needs more
/// than its part gets more each time, because the others leave theirs unused.
pub(crate) fn grants(flows: &Flows, end: usize, own: f64, rooms: &[f64], grants: &mut [f64]) {
    let mut needs = [Need::default(); PLACES];
    for (from, need) in needs.iter_mut().enumerate().take(end) {
        *need = need_of(flows, end, from, rooms);
    }
    let here: f64 = needs[..end].iter().map(Need::here).sum();
    let of_peers = here - needs[NOBODY].here();
    let is_before = |need: &&Need| need.comes > 0.0;
    let peers = needs[1..end].iter().filter(is_before).count().max(1) as f64;
    let left = own - here;
    for (from, grant) in grants.iter_mut().enumerate().take(end).skip(1) {
        let need = &needs[from];
        let most = need.open.max(need.below);
        *grant = if left >= 0.0 {
            most + left / peers
        } else if of_peers > 0.0 {
            most - need.here() * (-left / of_peers).min(1.0)
        } else {
            need.below
        };
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Need {
    /// All requests that come from there.
    comes: f64,
    /// Those that come open.
    open: f64,
    /// Those of them that nodes behind can take.
    below: f64,
}

impl Need {
    /// What has to be held here.
    fn here(&self) -> f64 {
        (self.open - self.below).max(0.0)
    }
}

fn need_of(flows: &Flows, end: usize, from: usize, rooms: &[f64]) -> Need {
    let mut need = Need::default();
    for (to, room) in rooms.iter().enumerate().take(end) {
        let flow = flows.get(from, to);
        need.comes += flow.all;
        need.open += flow.open;
        if to != NOBODY && *room > 0.0 && flow.all > 0.0 {
            let open_to = flows.open_to(end, to);
            let all_to: f64 = (0..end).map(|from| flows.get(from, to).all).sum();
            let part = if open_to <= *room {
                flow.open + (room - open_to) * flow.all / all_to
            } else {
                room * flow.open / open_to
            };
            need.below += part.min(flow.all);
        }
    }
    need
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(list: &[(usize, usize, f64, f64)]) -> Flows {
        let mut flows = Flows::new();
        for &(from, to, all, open) in list {
            let flow = &mut flows.0[from * PLACES + to];
            (flow.all, flow.open) = (all, open);
        }
        flows
    }

    fn check_shares(list: &[(usize, usize, f64, f64)], surplus: f64, rooms: [f64; 3]) -> [f64; 3] {
        let mut shares = [0.0; 3];
        pass_shares(&flows(list), 3, surplus, &rooms, &mut shares);
        shares
    }

    #[test]
    fn surplus_is_divided_by_room() {
        let even = [(0, 1, 100.0, 100.0), (0, 2, 100.0, 100.0)];
        assert_eq!(check_shares(&even, 0.0, [0.0, 50.0, 50.0]), [0.0, 0.0, 0.0]);
        assert_eq!(check_shares(&even, 30.0, [0.0, 0.0, 60.0]), [0.0, 0.0, 0.3]);
        assert_eq!(
            check_shares(&even, 40.0, [0.0, 20.0, 60.0]),
            [0.0, 0.1, 0.3]
        );
        assert_eq!(
            check_shares(&even, 900.0, [0.0, 20.0, 900.0]),
            [0.0, 0.2, 1.0]
        );
    }

    fn check_grants(list: &[(usize, usize, f64, f64)], own: f64, rooms: [f64; 3]) -> [f64; 3] {
        let mut told = [0.0; 3];
        grants(&flows(list), 3, own, &rooms, &mut told);
        told
    }

    #[test]
    fn room_goes_to_those_who_use_it() {
        let last = [(1, 0, 100.0, 80.0), (2, 0, 100.0, 0.0)];
        assert_eq!(check_grants(&last, 120.0, [0.0; 3]), [0.0, 100.0, 20.0]);
        // Full: those who use it use less.
        assert_eq!(check_grants(&last, 60.0, [0.0; 3]), [0.0, 60.0, 0.0]);
        assert_eq!(check_grants(&last, -10.0, [0.0; 3]), [0.0, 0.0, 0.0]);
    }

    #[test]
    fn own_clients_come_first() {
        let both = [(0, 0, 50.0, 50.0), (1, 0, 100.0, 80.0)];
        assert_eq!(check_grants(&both, 100.0, [0.0; 3])[1], 50.0);
        assert_eq!(check_grants(&both, 200.0, [0.0; 3])[1], 150.0);
    }

    /// Two nodes that send each other calls told each other of their own room, and of more each time.
    #[test]
    fn no_peer_is_told_of_its_own_room() {
        let mutual = [(0, 1, 100.0, 100.0), (1, 0, 100.0, 20.0)];
        assert_eq!(check_grants(&mutual, 30.0, [0.0, 500.0, 0.0])[1], 30.0);
    }

    #[test]
    fn room_behind_is_passed_on() {
        let chain = [(1, 2, 100.0, 50.0)];
        assert_eq!(check_grants(&chain, 0.0, [0.0, 0.0, 60.0])[1], 60.0);
        assert_eq!(check_grants(&chain, 30.0, [0.0, 0.0, 60.0])[1], 90.0);
        assert_eq!(check_grants(&chain, 0.0, [0.0, 0.0, 500.0])[1], 100.0);
        assert_eq!(check_grants(&chain, 0.0, [0.0, 0.0, 20.0])[1], 20.0);
    }
}
