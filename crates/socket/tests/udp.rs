//! What the kernel adds to a UDP socket: batches, addresses, errors. On loopback.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{collections::BTreeMap, net::SocketAddr, os::fd::AsFd, time::Duration};

use socket::{
    Poll,
    udp::{Options, RecvBatch, SendBatch, Sent, Socket, Wait},
};

const LOOPBACK: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

/// Longer than any test waits for a datagram that is on its way.
const PATIENCE: Duration = Duration::from_secs(5);

fn bind(address: &str) -> Socket {
    let options = Options {
        recv_buffer: Some(4 << 20),
        ..Options::default()
    };
    let socket = Socket::bind(address.parse().unwrap(), options).unwrap();
    socket.set_recv_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn send(from: &Socket, items: &[(SocketAddr, &[u8])]) -> Sent {
    from.send(&mut SendBatch::new(), items.iter().copied())
}

fn all_sent(sent: usize) -> Sent {
    Sent {
        sent: sent as u64,
        ..Sent::default()
    }
}

/// Receives until `count` datagrams are there; sender, bytes, truncated.
fn receive(socket: &Socket, count: usize) -> Vec<(SocketAddr, Vec<u8>, bool)> {
    let mut batch = RecvBatch::new(8, 1500);
    let mut datagrams = Vec::new();
    while datagrams.len() < count {
        assert_ne!(
            socket.recv(&mut batch, Wait::Block).unwrap(),
            0,
            "{datagrams:?}"
        );
        datagrams.extend(
            batch
                .datagrams()
                .map(|d| (d.from, d.bytes.to_vec(), d.truncated)),
        );
    }
    datagrams
}

/// An address where nobody listens.
fn nobody(family: &str) -> SocketAddr {
    bind(family).local_addr()
}

/// Who was reported unreachable, and what was quoted; where there is nothing to send after it, a
/// receive tells.
fn unreachable(socket: &Socket, sent: Sent) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut reports = Vec::new();
    assert!(
        sent.error
            || socket
                .recv(&mut RecvBatch::new(1, 100), Wait::Block)
                .is_err()
    );
    socket.unreachable(|peer, quoted| reports.push((peer, quoted.to_vec())));
    reports
}

#[test]
fn a_batch_mixes_peers() {
    for family in LOOPBACK {
        let hub = bind(family);
        let peers: Vec<_> = (0..5).map(|_| bind(family)).collect();
        let payloads: Vec<_> = (0..200u32)
            .map(|i| vec![i as u8; 1 + i as usize * 7])
            .collect();
        let to_peer = |i: usize| peers[i % peers.len()].local_addr();

        let items: Vec<_> = payloads
            .iter()
            .enumerate()
            .map(|(i, bytes)| (to_peer(i), bytes.as_slice()))
            .collect();
        assert_eq!(send(&hub, &items), all_sent(200));
        for (number, peer) in peers.iter().enumerate() {
            let expected = payloads.iter().skip(number).step_by(peers.len());
            let expected: Vec<_> = expected
                .map(|bytes| (hub.local_addr(), bytes.clone(), false))
                .collect();
            assert_eq!(receive(peer, 40), expected);
        }

        for (number, peer) in peers.iter().enumerate() {
            let bytes = [number as u8; 30];
            assert_eq!(send(peer, &[(hub.local_addr(), &bytes)]), all_sent(1));
        }
        let from: BTreeMap<_, _> = receive(&hub, 5)
            .into_iter()
            .map(|(from, bytes, _)| (from, bytes[0]))
            .collect();
        let expected = peers
            .iter()
            .enumerate()
            .map(|(i, peer)| (peer.local_addr(), i as u8));
        assert_eq!(from, expected.collect());
    }
}

#[test]
fn a_batch_is_one_call() {
    let (a, b) = (bind(LOOPBACK[0]), bind(LOOPBACK[0]));
    assert_eq!(
        send(&a, &[(b.local_addr(), b"x".as_slice()); 100]),
        all_sent(100)
    );
    let mut batch = RecvBatch::new(64, 100);
    assert_eq!(b.recv(&mut batch, Wait::Block).unwrap(), 64);
    assert_eq!(b.recv(&mut batch, Wait::Poll).unwrap(), 36);
    assert_eq!(batch.datagrams().count(), 36);
    assert_eq!(b.recv(&mut batch, Wait::Poll).unwrap(), 0);
    assert_eq!(batch.datagrams().count(), 0);
}

#[test]
fn the_wait_ends_with_the_timeout() {
    let socket = bind(LOOPBACK[0]);
    socket
        .set_recv_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    assert_eq!(
        socket
            .recv(&mut RecvBatch::new(4, 100), Wait::Block)
            .unwrap(),
        0
    );
}

#[test]
fn a_datagram_beyond_its_slot_is_marked() {
    for family in LOOPBACK {
        let (a, b) = (bind(family), bind(family));
        let bytes: Vec<u8> = (0..=255).cycle().take(1501).collect();
        let lengths = [1500, 1501, 0, 3];
        let items: Vec<_> = lengths
            .iter()
            .map(|&n| (b.local_addr(), &bytes[..n]))
            .collect();
        assert_eq!(send(&a, &items), all_sent(4));
        let from = a.local_addr();
        let expected = lengths.map(|n| (from, bytes[..n.min(1500)].to_vec(), n > 1500));
        assert_eq!(receive(&b, 4), expected);
    }
}

#[test]
fn icmp_names_the_peer_that_is_away_and_quotes_what_was_sent() {
    for (family, quoted) in LOOPBACK.into_iter().zip([520, 1184]) {
        let (socket, peer, away) = (bind(family), bind(family), nobody(family));
        let long: Vec<u8> = (0..=255).cycle().take(1_400).collect();
        let sent = send(&socket, &[(away, &long)]);
        let [(address, bytes)] = &unreachable(&socket, sent)[..] else {
            panic!("one error")
        };
        assert_eq!(*address, away);
        assert!(
            bytes.len() >= quoted && long.starts_with(bytes),
            "{family}: {}",
            bytes.len()
        );
        let (bad, good) = (
            (away, b"x".as_slice()),
            (peer.local_addr(), b"y".as_slice()),
        );
        for items in [&[bad][..], &[good, bad], &[bad, good]] {
            let sent = send(&socket, items);
            assert_eq!((sent.sent, sent.lost()), (items.len() as u64, 0));
            assert_eq!(unreachable(&socket, sent), [(away, b"x".to_vec())]);
        }
        assert_eq!(receive(&peer, 2).len(), 2);
    }
}

#[test]
fn an_error_costs_no_later_datagram() {
    for family in LOOPBACK {
        let (socket, peer, away) = (bind(family), bind(family), nobody(family));
        let items: Vec<_> = (0..100)
            .flat_map(|_| {
                [
                    (away, b"x".as_slice()),
                    (peer.local_addr(), b"y".as_slice()),
                ]
            })
            .collect();
        let sent = send(&socket, &items);
        assert_eq!((sent.sent, sent.lost(), sent.error), (200, 0, true));
        assert_eq!(receive(&peer, 100).len(), 100);
        let reports = unreachable(&socket, sent);
        assert!(!reports.is_empty() && reports.iter().all(|(address, _)| *address == away));
    }
}

#[test]
fn what_cannot_be_sent_is_skipped_and_counted() {
    let check = |from: &str, bad: (SocketAddr, &[u8]), expected: Sent| {
        let (socket, peer) = (bind(from), bind(from));
        let good = (peer.local_addr(), b"x".as_slice());
        assert_eq!(send(&socket, &[good, bad, good, bad]), expected);
        assert_eq!(receive(&peer, 2).len(), 2);
    };
    let long = vec![0; 65_600];
    let other_family = "[::1]:5060".parse().unwrap();
    let sent = Sent {
        sent: 2,
        error: true,
        ..Sent::default()
    };
    for family in LOOPBACK {
        let to = nobody(family);
        check(
            family,
            (to, &long),
            Sent {
                too_long: 2,
                ..sent
            },
        );
    }
    check(
        LOOPBACK[0],
        (other_family, b"x"),
        Sent { refused: 2, ..sent },
    );
}

#[test]
fn a_burst_within_the_buffer_arrives_whole() {
    let (a, b) = (bind(LOOPBACK[0]), bind(LOOPBACK[0]));
    let payloads: Vec<_> = (0..250u32).map(|i| i.to_be_bytes().repeat(50)).collect();
    let items: Vec<_> = payloads
        .iter()
        .map(|bytes| (b.local_addr(), bytes.as_slice()))
        .collect();
    assert_eq!(send(&a, &items), all_sent(250));
    let received: Vec<_> = receive(&b, 250)
        .into_iter()
        .map(|(_, bytes, _)| bytes)
        .collect();
    assert_eq!(received, payloads);
    assert_eq!(b.kernel_drops().unwrap(), 0);
}

#[test]
fn the_kernel_counts_what_it_drops() {
    let options = Options {
        recv_buffer: Some(4096),
        ..Options::default()
    };
    let full = Socket::bind(LOOPBACK[0].parse().unwrap(), options).unwrap();
    let from = bind(LOOPBACK[0]);
    assert_eq!(
        send(&from, &[(full.local_addr(), [0; 1000].as_slice()); 200]),
        all_sent(200)
    );
    let mut batch = RecvBatch::new(64, 1500);
    let mut received = 0;
    while let count @ 1.. = full.recv(&mut batch, Wait::Poll).unwrap() {
        received += count as u32;
    }
    assert_eq!(received + full.kernel_drops().unwrap(), 200);
}

#[test]
fn a_group_shares_an_address_that_was_free() {
    for family in LOOPBACK {
        let group = Socket::bind_group(family.parse().unwrap(), 3, Options::default()).unwrap();
        let address = group[0].local_addr();
        assert!(group.iter().all(|socket| socket.local_addr() == address));
        for reuse_port in [false, true] {
            let options = Options {
                reuse_port,
                ..Options::default()
            };
            assert!(Socket::bind_group(address, 3, options).is_err());
        }

        let peers: Vec<_> = (0..64).map(|_| bind(family)).collect();
        for peer in &peers {
            send(peer, &[(address, b"x")]);
        }
        let mut batch = RecvBatch::new(64, 100);
        let shares = [0, 1, 2].map(|i| group[i].recv(&mut batch, Wait::Poll).unwrap());
        assert_eq!(shares.iter().sum::<usize>(), 64);
        assert!(shares.iter().all(|&share| share > 0), "{shares:?}");
    }
}

#[test]
fn an_address_in_use_is_an_error() {
    let taken = bind(LOOPBACK[0]).local_addr();
    let holder = Socket::bind(taken, Options::default()).unwrap();
    let error = Socket::bind(holder.local_addr(), Options::default()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[test]
fn one_wait_serves_several_sockets() {
    let sockets = [bind(LOOPBACK[0]), bind(LOOPBACK[1]), bind(LOOPBACK[0])];
    let sender = bind(LOOPBACK[0]);
    let mut poll = Poll::default();
    poll.wait(
        sockets.iter().map(AsFd::as_fd),
        Some(Duration::from_millis(1)),
    );
    assert!((0..3).all(|place| !poll.is_ready(place)));
    send(&sender, &[(sockets[2].local_addr(), b"x")]);
    poll.wait(sockets.iter().map(AsFd::as_fd), None);
    let ready: Vec<_> = (0..3).map(|place| poll.is_ready(place)).collect();
    assert_eq!(ready, [false, false, true]);
    receive(&sockets[2], 1);
    poll.wait(sockets.iter().map(AsFd::as_fd), Some(Duration::ZERO));
    assert!(!poll.is_ready(2));
}

/// A client that hears from another address than it has asked takes it for somebody else's word.
#[test]
fn a_socket_of_all_addresses_answers_from_the_one_that_was_hit() {
    let any = Socket::bind_group("0.0.0.0:0".parse().unwrap(), 2, Options::default()).unwrap();
    for socket in &any {
        socket
            .set_recv_timeout(Some(Duration::from_millis(10)))
            .unwrap();
    }
    let port = any[0].local_addr().port();
    let ask = |host: &str| {
        let client = std::net::UdpSocket::bind("127.0.0.9:0").unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.connect((host, port)).unwrap();
        client.send(b"ask").unwrap();
        let mut batch = RecvBatch::new(8, 100);
        let came = (0..500).any(|_| {
            let mut sockets = any.iter();
            sockets.any(|it| it.recv(&mut batch, Wait::Block).unwrap() > 0)
        });
        assert!(came, "nothing came to either socket");
        let from = batch.datagrams().next().unwrap().from;
        assert_eq!(from, client.local_addr().unwrap());
        client
    };
    // Whichever socket was hit, either of them answers.
    for host in ["127.0.0.2", "127.0.0.3", "127.0.0.1"] {
        let client = ask(host);
        let to = client.local_addr().unwrap();
        for socket in &any {
            assert_eq!(send(socket, &[(to, b"answer")]), all_sent(1));
            let mut bytes = [0; 100];
            assert_eq!(client.recv(&mut bytes).unwrap(), 6, "{host}");
        }
    }
}

#[test]
fn a_socket_of_all_ipv6_addresses_sends_and_receives() {
    let any = bind("[::]:0");
    let client = bind("[::1]:0");
    let to = format!("[::1]:{}", any.local_addr().port())
        .parse()
        .unwrap();
    assert_eq!(send(&client, &[(to, b"ask")]), all_sent(1));
    assert_eq!(receive(&any, 1)[0].0, client.local_addr());
    assert_eq!(send(&any, &[(client.local_addr(), b"answer")]), all_sent(1));
    assert_eq!(receive(&client, 1)[0].0, to);
}
