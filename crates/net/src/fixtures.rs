//! What the tests inside and outside of this crate share.

use std::time::Duration;

use node::{
    Config, Shared, Transport,
    config::{Limits, Listener, Timers},
};

/// The configuration of a node with these listeners, and nothing behind it.
pub(crate) fn config_of(listeners: Vec<Listener>) -> Config {
    let second = Duration::from_secs(1);
    Config {
        name: "edge".to_owned(),
        secret: b"a secret of at least thirty-two bytes".to_vec().into(),
        accepted_secret: None,
        listeners,
        pools: Vec::new(),
        routes: Vec::new(),
        limits: Limits {
            sessions: 1_000,
            transactions: 1_000,
            held_transactions: 1_000,
            registrations: 1_000,
            retained_requests: 100,
            message_bytes: 4096,
            headers: 64,
            handover_queue: 1_000,
            strangers: 1_024,
        },
        timers: Timers {
            t1: second / 2,
            timer_c: 181 * second,
            call_max: 3600 * second,
            drain: second,
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: None,
    }
}

/// What workers share who listen with this transport on loopback.
#[allow(dead_code, reason = "tests outside of the crate start workers")]
pub(crate) fn shared(transport: Transport, workers: usize) -> Shared {
    let config = config_of(vec![Listener {
        transport,
        address: ([127, 0, 0, 1], 0).into(),
        advertise: "127.0.0.1:5060".to_owned(),
    }]);
    Shared::new(config, workers).expect("it is valid")
}
