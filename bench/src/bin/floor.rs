//! The floor: a relay that reads no byte of the messages, so that it costs what the kernel costs.
//!
//! It has one thread and one socket, and blocks in `recvmmsg`. Without reading it can't tell calls
//! apart, so it pairs addresses: the i-th caller it sees gets the i-th server, and what that server
//! sends goes to that caller. A load generator must use one caller port per server. A caller beyond
//! the last server takes the place of the first one, and so on.

use std::{env, io, net::SocketAddr, process::ExitCode};

use socket::udp::{BATCH, Options, RecvBatch, SendBatch, Socket, Wait};

const USAGE: &str = "usage: floor --listen ADDRESS --servers ADDRESS,ADDRESS...

Relays datagrams between callers and servers, the i-th caller's to the i-th server and back.
Example: floor --listen 127.0.0.1:5060 --servers 127.0.0.1:7001,127.0.0.1:7002";

/// As large as what is measured against it has them.
const MESSAGE_BYTES: usize = 16_384;
const BUFFER_BYTES: usize = 4 << 20;

fn main() -> ExitCode {
    let Some((listen, servers)) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match relay(listen, &servers) {
        Ok(never) => match never {},
        Err(error) => {
            eprintln!("floor: {listen}: {error}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Option<(SocketAddr, Vec<SocketAddr>)> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let value = |name: &str| {
        let place = arguments.iter().position(|argument| argument == name)?;
        arguments.get(place + 1)
    };
    let servers: Result<_, _> = value("--servers")?.split(',').map(str::parse).collect();
    Some((value("--listen")?.parse().ok()?, servers.ok()?))
}

fn relay(listen: SocketAddr, servers: &[SocketAddr]) -> io::Result<std::convert::Infallible> {
    let options = Options {
        recv_buffer: Some(BUFFER_BYTES),
        send_buffer: Some(BUFFER_BYTES),
        ..Options::default()
    };
    let socket = Socket::bind(listen, options)?;
    let mut received = RecvBatch::new(BATCH, MESSAGE_BYTES);
    let mut to_send = SendBatch::new();
    let mut pairs = Pairs::new(servers);
    loop {
        // An error is ICMP's word on what was sent; a peer that is away gets its datagrams anyway.
        let failed = socket.recv(&mut received, Wait::Block).is_err();
        let relayed = received
            .datagrams()
            .filter_map(|datagram| Some((pairs.peer(datagram.from)?, datagram.bytes)));
        if socket.send(&mut to_send, relayed).error || failed {
            socket.unreachable(|_, _| ());
        }
    }
}

/// Who talks to whom. A scan of so few is faster than a hash.
struct Pairs {
    servers: Vec<SocketAddr>,
    callers: Vec<Option<SocketAddr>>,
    next: usize,
}

impl Pairs {
    fn new(servers: &[SocketAddr]) -> Self {
        Self {
            servers: servers.to_vec(),
            callers: vec![None; servers.len()],
            next: 0,
        }
    }

    /// The other side of `from`; none: a server without a caller.
    fn peer(&mut self, from: SocketAddr) -> Option<SocketAddr> {
        if let Some(place) = self.servers.iter().position(|&server| server == from) {
            return self.callers[place];
        }
        let known = self.callers.iter().position(|&caller| caller == Some(from));
        let place = known.unwrap_or_else(|| self.meet(from));
        Some(self.servers[place])
    }

    fn meet(&mut self, caller: SocketAddr) -> usize {
        let place = self.next;
        self.callers[place] = Some(caller);
        self.next = (place + 1) % self.callers.len();
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_and_servers_pair_in_order_of_appearance() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let mut pairs = Pairs::new(&[address(71), address(72)]);
        let expected = [
            (71, None),
            (1, Some(71)),
            (2, Some(72)),
            (1, Some(71)),
            (71, Some(1)),
            (72, Some(2)),
            (3, Some(71)),
            (71, Some(3)),
        ];
        for (from, to) in expected {
            assert_eq!(pairs.peer(address(from)), to.map(address), "{from}");
        }
    }
}
