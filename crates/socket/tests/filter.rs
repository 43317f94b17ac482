//! Filters of a UDP socket, and what the kernel counts of what it drops. On loopback.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::time::Duration;

use socket::udp::{Instruction, Options, RecvBatch, SendBatch, Socket, Wait};

/// Longer than any test waits for a datagram that is on its way.
const PATIENCE: Duration = Duration::from_secs(5);

const LAST: &[u8] = b"last";

fn bind(recv_buffer: usize) -> Socket {
    let options = Options {
        recv_buffer: Some(recv_buffer),
        ..Options::default()
    };
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    socket.set_recv_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
    Instruction { code, jt, jf, k }
}

/// Drops what begins with a letter.
fn drops(letter: u8) -> [Instruction; 4] {
    [
        // The first byte after the UDP header; is it the letter; drop; keep all.
        instruction(0x30, 0, 0, 8),
        instruction(0x15, 0, 1, letter.into()),
        instruction(0x06, 0, 0, 0),
        instruction(0x06, 0, 0, u32::MAX),
    ]
}

/// Sends, and returns what arrives up to the last.
fn arrivals(socket: &Socket, payloads: &[&[u8]]) -> Vec<Vec<u8>> {
    let to = socket.local_addr();
    let payloads = payloads.iter().chain(&[LAST]);
    bind(1 << 20).send(
        &mut SendBatch::new(),
        payloads.map(|payload| (to, *payload)),
    );
    let mut batch = RecvBatch::new(8, 1500);
    let mut arrived = Vec::new();
    while arrived.last().is_none_or(|last| last != LAST) {
        assert_ne!(
            socket.recv(&mut batch, Wait::Block).unwrap(),
            0,
            "{arrived:?}"
        );
        arrived.extend(batch.datagrams().map(|datagram| datagram.bytes.to_vec()));
    }
    arrived.pop();
    // A look at the counters.
    socket.recv(&mut batch, Wait::Poll).unwrap();
    arrived
}

#[test]
fn a_filter_drops_what_it_tells_until_it_is_replaced_or_cleared() {
    let socket = bind(1 << 20);
    let all: [&[u8]; 4] = [b"a1", b"b1", b"", b"a2"];
    assert_eq!(arrivals(&socket, &all), all);
    socket.clear_filter().unwrap();

    socket.set_filter(drops(b'a')).unwrap();
    // A program that loads what is not there drops: the empty one.
    assert_eq!(arrivals(&socket, &all), [b"b1"]);
    socket.set_filter(drops(b'b')).unwrap();
    assert_eq!(arrivals(&socket, &all), [b"a1", b"a2"]);
    socket.clear_filter().unwrap();
    assert_eq!(arrivals(&socket, &all), all);
    socket.clear_filter().unwrap();
}

#[test]
fn what_is_no_program_is_refused_and_leaves_the_filter() {
    let socket = bind(1 << 20);
    socket.set_filter(drops(b'a')).unwrap();
    let beyond_the_end = [instruction(0x05, 0, 0, 7), instruction(0x06, 0, 0, 0)];
    assert!(socket.set_filter(beyond_the_end).is_err());
    assert!(socket.set_filter([]).is_err());
    assert!(socket.set_filter([drops(b'b'); 1_025].concat()).is_err());
    assert!(socket.set_filter([drops(b'b'); 16_385].concat()).is_err());
    assert_eq!(arrivals(&socket, &[b"a", b"b"]), [b"b"]);
}

/// The kernel counts what a filter drops as if the buffer had been full.
#[test]
fn what_a_filter_drops_is_not_taken_for_a_full_buffer() {
    let socket = bind(1 << 20);
    let counts = || (socket.filter_drops(), socket.kernel_drops().unwrap());
    socket.set_filter(drops(b'a')).unwrap();
    arrivals(&socket, &[b"a".as_slice(); 50]);
    assert_eq!(counts(), (50, 0));
    socket.set_filter(drops(b'b')).unwrap();
    arrivals(&socket, &[b"b".as_slice(); 7]);
    assert_eq!(counts(), (57, 0));
    arrivals(&socket, &[b"b".as_slice(); 3]);
    socket.clear_filter().unwrap();
    assert_eq!(counts(), (60, 0));
}

#[test]
fn what_finds_the_buffer_full_is_counted_with_a_filter_and_without() {
    for filtered in [false, true] {
        let socket = bind(64 << 10);
        let sender = bind(1 << 20);
        if filtered {
            socket.set_filter(drops(b'a')).unwrap();
        }
        let (to, sent) = (socket.local_addr(), 1_000);
        sender.send(
            &mut SendBatch::new(),
            (0..sent).map(|_| (to, [b'c'; 1000].as_slice())),
        );
        let mut batch = RecvBatch::new(8, 1500);
        let mut arrived = 0;
        while arrived + socket.kernel_drops().unwrap() < sent {
            let count = socket.recv(&mut batch, Wait::Block).unwrap();
            assert_ne!(
                count,
                0,
                "{arrived} of {sent}, {} lost",
                socket.kernel_drops().unwrap()
            );
            arrived += count as u32;
        }
        assert!((1..sent).contains(&arrived), "{arrived}");
        assert_eq!(socket.kernel_drops().unwrap(), sent - arrived);
        assert_eq!(socket.filter_drops(), 0);
        socket.clear_filter().unwrap();
        assert_eq!(socket.kernel_drops().unwrap(), sent - arrived);
    }
}
