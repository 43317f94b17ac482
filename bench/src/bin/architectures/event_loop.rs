//! One thread, one socket, one node: no lock and no queue.

use std::{convert::Infallible, io};

use node::Outbox;
use socket::udp::SendBatch;

use crate::station::{self, Ground};

pub(crate) fn run(ground: &Ground) -> io::Result<Infallible> {
    let mut station = ground.station()?;
    let (mut received, mut to_send) = (station::batch(), SendBatch::new());
    let mut out = Outbox::default();
    loop {
        let now = station::receive(ground, &mut received);
        for datagram in received.datagrams() {
            station.hear(now, &datagram, &mut out);
        }
        station.keep_time(now, &mut out);
        station::send(&ground.socket, &mut to_send, &mut out);
    }
}
