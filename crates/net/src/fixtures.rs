//! What this crate's own tests share.

use std::time::Duration;

use node::{
    Config, Shared, Transport,
    config::{Connections, Limits, Listener, Timers},
};

/// What workers share who listen with this transport on loopback, without routes.
pub(crate) fn shared(transport: Transport, workers: usize) -> Shared {
    let second = Duration::from_secs(1);
    let config = Config {
        name: "edge".to_owned(),
        secret: b"a secret of at least thirty-two bytes".to_vec().into(),
        accepted_secret: None,
        listeners: vec![Listener {
            transport,
            address: ([127, 0, 0, 1], 0).into(),
            advertise: "127.0.0.1:5060".to_owned(),
        }],
        pools: Vec::new(),
        routes: Vec::new(),
        limits: Limits {
            sessions: 10,
            transactions: 10,
            held_transactions: 10,
            registrations: 10,
            retained_requests: 10,
            message_bytes: 4096,
            headers: 64,
            handover_queue: 10,
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
        connections: Connections::default(),
        abuse: Default::default(),
        registrar: None,
    };
    Shared::new(config, workers).expect("it is valid")
}
