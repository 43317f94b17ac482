//! The ledger equals the sum over what is open, is never negative and returns to zero.

use std::time::Duration;

use balance::{Arrival, Cost, Policy, Pool, Server, ServerId};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Place {
        policy: usize,
        cost: u32,
        call: bool,
    },
    OpenTransaction {
        server: usize,
        cost: u32,
    },
    OpenCall {
        server: usize,
    },
    CloseTransaction {
        which: prop::sample::Index,
    },
    CloseCall {
        which: prop::sample::Index,
    },
}

const SERVERS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let cost = 0..=1_000_000_u32;
    prop_oneof![
        (0..Policy::ALL.len(), cost.clone(), any::<bool>())
            .prop_map(|(policy, cost, call)| Step::Place { policy, cost, call }),
        (0..SERVERS, cost).prop_map(|(server, cost)| Step::OpenTransaction { server, cost }),
        (0..SERVERS).prop_map(|server| Step::OpenCall { server }),
        any::<prop::sample::Index>().prop_map(|which| Step::CloseTransaction { which }),
        any::<prop::sample::Index>().prop_map(|which| Step::CloseCall { which }),
    ]
}

fn cost(thousandths: u32) -> Cost {
    Cost::new(f64::from(thousandths) / 1_000.0).expect("within the range of costs")
}

/// What should be open: pairs of server and cost, and the servers of calls.
#[derive(Default)]
struct Model {
    transactions: Vec<(usize, u32)>,
    calls: Vec<usize>,
    placed: [u64; SERVERS],
}

impl Model {
    fn apply(&mut self, step: &Step, pools: &[Pool], rng: &mut fastrand::Rng) {
        let servers = pools[0].servers();
        match *step {
            Step::Place {
                policy,
                cost: thousandths,
                call,
            } => {
                let arrival = Arrival {
                    key: &thousandths.to_be_bytes(),
                    cost: cost(thousandths),
                    call,
                    avoid: &[],
                };
                let placed = pools[policy].place(Duration::ZERO, &arrival, rng);
                let server = usize::from(placed.expect("all are eligible").id().0);
                self.transactions.push((server, thousandths));
                self.calls.extend(call.then_some(server));
                self.placed[server] += 1;
            }
            Step::OpenTransaction {
                server,
                cost: thousandths,
            } => {
                servers[server].open_transaction(cost(thousandths));
                self.transactions.push((server, thousandths));
            }
            Step::OpenCall { server } => {
                servers[server].open_call();
                self.calls.push(server);
            }
            Step::CloseTransaction { which } if !self.transactions.is_empty() => {
                let which = which.index(self.transactions.len());
                let (server, thousandths) = self.transactions.swap_remove(which);
                servers[server].close_transaction(cost(thousandths));
            }
            Step::CloseCall { which } if !self.calls.is_empty() => {
                let server = self.calls.swap_remove(which.index(self.calls.len()));
                servers[server].close_call();
            }
            Step::CloseTransaction { .. } | Step::CloseCall { .. } => {}
        }
    }

    fn close_all(&mut self, servers: &[Arc<Server>]) {
        for (server, thousandths) in self.transactions.drain(..) {
            servers[server].close_transaction(cost(thousandths));
        }
        for server in self.calls.drain(..) {
            servers[server].close_call();
        }
    }

    fn compare(&self, servers: &[Arc<Server>]) {
        for (i, server) in servers.iter().enumerate() {
            let open = self.transactions.iter().filter(|(at, _)| *at == i);
            let work: u64 = open.clone().map(|(_, cost)| u64::from(*cost)).sum();
            assert_eq!(server.transactions(), open.count() as u64);
            assert_eq!(server.work(), work as f64 / 1_000.0);
            let calls = self.calls.iter().filter(|at| **at == i);
            assert_eq!(server.calls(), calls.count() as u64);
            assert_eq!(server.placed(), self.placed[i]);
            assert_eq!(server.underflows(), 0);
        }
    }
}

proptest! {
    #[test]
    fn the_ledger_is_the_sum_of_what_is_open(
        seed: u64,
        steps in prop::collection::vec(step(), 0..200),
    ) {
        let server = |i| Arc::new(Server::new(ServerId(i), &format!("s{i}"), 1.0 + f64::from(i)));
        let servers: Vec<_> = (0..SERVERS as u16).map(server).collect();
        let pools = Policy::ALL.map(|policy| Pool::new(policy, servers.clone(), Duration::ZERO));
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut model = Model::default();
        for step in &steps {
            model.apply(step, &pools, &mut rng);
            model.compare(&servers);
        }
        model.close_all(&servers);
        model.compare(&servers);
    }
}
