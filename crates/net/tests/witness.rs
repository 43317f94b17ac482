//! Who learns what passes learns all of it, and before it leaves.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::{
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
};

use common::{PATIENCE, config, listener, options, server};
use net::{Security, Start, Witness, Workers};
use node::{Shared, Transport::Udp, tap::Tap};
use socket::Clock;

#[derive(Default)]
struct Count(AtomicUsize);

impl Witness for Count {
    fn tap(&self) -> Tap {
        Tap::new(1 << 20)
    }

    fn see(&self, _: usize, tap: &mut Tap) {
        self.0.fetch_add(tap.news().len(), SeqCst);
    }
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// What went wrong: who took the tap away between a message's arrival and its departure took the news along. The witness
/// never saw that message.
#[test]
fn it_sees_what_has_passed_before_the_tap_is_taken() {
    let (caller, called) = (peer(), peer());
    let servers = vec![server(Udp, called.local_addr().unwrap())];
    let config = config(vec![listener(Udp, "127.0.0.1:0")], servers);
    let shared = Arc::new(Shared::new(config, 1).unwrap());
    let count = Arc::new(Count::default());
    let witness = Some(Arc::clone(&count) as Arc<dyn Witness>);
    let start = Start {
        witness,
        ..Start::default()
    };
    let (clock, security) = (Clock::start(), Security::default());
    let workers = Workers::start_with(&shared, clock, None, security, start).unwrap();
    let (sender, taken) = mpsc::channel();
    let mut messages = 0;
    for call in 0..500 {
        let request = options("UDP", caller.local_addr().unwrap(), call);
        let to = workers.addresses()[0];
        caller.send_to(request.as_bytes(), to).unwrap();
        let sender = sender.clone();
        let take = move |_: &mut _, _, out: &mut node::Outbox| {
            let tap = out.tap.replace(Tap::new(1 << 20));
            sender.send(tap.unwrap()).unwrap();
        };
        workers.command(0, Box::new(take)).unwrap();
        called.recv(&mut [0; 4096]).unwrap();
        let mut tap = taken.recv_timeout(PATIENCE).unwrap();
        assert!(tap.news().is_empty(), "call {call}");
        messages += tap.entries().len();
    }
    assert!(messages > 0 && count.0.load(SeqCst) >= messages);
}
