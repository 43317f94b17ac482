//! Threads that all read one socket and share one node behind a lock. They hold it for a batch, and send without it.

use std::{
    convert::Infallible,
    io,
    sync::{Mutex, PoisonError},
    thread,
};

use node::Outbox;
use socket::udp::SendBatch;

use crate::station::{self, Ground, Station};

pub(crate) fn run(ground: &Ground, threads: usize) -> io::Result<Infallible> {
    let station = Mutex::new(ground.station()?);
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| serve(ground, &station));
        }
        Ok(serve(ground, &station))
    })
}

fn serve(ground: &Ground, station: &Mutex<Station>) -> Infallible {
    let (mut received, mut to_send) = (station::batch(), SendBatch::new());
    let mut out = Outbox::default();
    loop {
        let now = station::receive(ground, &mut received);
        {
            let mut station = station.lock().unwrap_or_else(PoisonError::into_inner);
            for datagram in received.datagrams() {
                station.hear(now, &datagram, &mut out);
            }
            station.keep_time(now, &mut out);
        }
        station::send(&ground.socket, &mut to_send, &mut out);
    }
}
