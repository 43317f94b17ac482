//! Each limit has an end that is told, and a counter.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{LIMITS, REQUEST, S, ZERO, end, flow, hear, slow};
use sip::FrameFault;
use stream::{Closed, Connections, Event, Limits, NotSent, Plain, Refused, Why};
use transaction::{ConnectionId, Flow, NextHop, Transport};

fn plain() -> Connections<Plain> {
    Connections::new(0, 1, LIMITS, ZERO)
}

/// A connection that is open, and whose events are read.
fn opened(connections: &mut Connections<Plain>, port: u16) -> ConnectionId {
    let id = connections.accept(ZERO, flow(1, port), Plain).unwrap();
    assert_eq!(connections.next_event(), Some(Event::Opened(id)));
    id
}

#[test]
fn connections_are_refused_by_name() {
    let mut connections = plain();
    for port in 0..3 {
        connections.accept(ZERO, flow(1, port), Plain).unwrap();
    }
    let refused = connections.accept(ZERO, flow(1, 9), Plain);
    assert_eq!(refused, Err(Refused::Source));
    for port in 0..2 {
        connections.open(ZERO, flow(2, port), Plain).unwrap();
    }
    let refused = connections.open(ZERO, flow(2, 9), Plain);
    assert_eq!(refused, Err(Refused::Connecting));
    for host in 10..15 {
        connections.accept(ZERO, flow(host, 1), Plain).unwrap();
    }
    assert!(!connections.may_accept(true));
    let refused = connections.accept(ZERO, flow(20, 1), Plain);
    assert_eq!(refused, Err(Refused::Total));
    for &why in &[Refused::Source, Refused::Connecting, Refused::Total] {
        assert_eq!(connections.counters().refused(why), 1);
    }

    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    for port in 0..2 {
        connections
            .accept(ZERO, flow(1, port), slow(false))
            .unwrap();
    }
    assert!(!connections.may_accept(false) && connections.may_accept(true));
    let refused = connections.accept(ZERO, flow(2, 1), slow(false));
    assert_eq!(refused, Err(Refused::Handshaking));
}

#[test]
fn an_ipv6_network_is_one_source() {
    let mut connections = plain();
    let flow = |text: &str| {
        let address = text.parse().unwrap();
        let transport = Transport::Tcp;
        Flow::to(0, NextHop { transport, address })
    };
    for address in ["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3:1]:1"] {
        connections.accept(ZERO, flow(address), Plain).unwrap();
    }
    let refused = connections.accept(ZERO, flow("[2001:db8::4]:1"), Plain);
    assert_eq!(refused, Err(Refused::Source));
    let other = flow("[2001:db8:0:1::4]:1");
    assert!(connections.accept(ZERO, other, Plain).is_ok());
}

#[test]
fn what_takes_too_long_ends() {
    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    connections.open(ZERO, flow(1, 1), slow(false)).unwrap();
    connections.accept(ZERO, flow(1, 2), slow(false)).unwrap();
    connections.handle_timeout(S(1));
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(3));
    let ends = end(&mut connections);
    assert_eq!(ends, [Why::ConnectTimeout, Why::HandshakeTimeout]);

    let mut connections = plain();
    let id = opened(&mut connections, 1);
    connections.handle_timeout(S(99));
    hear(&mut connections, S(99), id, b"\r\n\r\n");
    assert_eq!(connections.to_write(id), b"\r\n");
    connections.wrote(S(99), id, 2);
    connections.handle_timeout(S(198));
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(200));
    assert_eq!(end(&mut connections), [Why::Idle]);
}

/// A peer that sent a byte now and then kept its connection, and the memory of a message, for ever.
#[test]
fn a_message_takes_its_time_at_most() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    let mut time = ZERO;
    for &byte in REQUEST {
        time += Duration::from_millis(200);
        hear(&mut connections, time, id, &[byte]);
        connections.handle_timeout(time);
    }
    assert_eq!(end(&mut connections), [Why::SlowMessage]);
    assert_eq!(connections.held_bytes(), 0);
}

#[test]
fn messages_in_a_row_each_have_their_time() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    let mut heard = 0;
    for second in 0..20 {
        let (one, other) = REQUEST.split_at(9);
        let bytes = if second == 0 {
            one
        } else {
            &[other, one].concat()
        };
        heard += hear(&mut connections, S(second), id, bytes).len();
        connections.handle_timeout(S(second));
    }
    assert_eq!((heard, end(&mut connections)), (19, vec![]));
}

#[test]
fn a_peer_that_does_not_read_is_closed() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    connections.send(ZERO, id, REQUEST).unwrap();
    connections.wrote(S(3), id, 1);
    connections.handle_timeout(S(5));
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(8));
    assert_eq!(end(&mut connections), [Why::Stalled]);

    let id = opened(&mut connections, 1);
    let message = [b'x'; 1_000];
    let sent = (0..).find_map(|count| {
        let error = connections.send(S(9), id, &message).err()?;
        Some((count, error))
    });
    assert_eq!(sent, Some((49, NotSent::QueueFull)));
    let unsent = connections.counters().unsent;
    assert_eq!((end(&mut connections), unsent), (vec![Why::QueueFull], 50));
    assert_eq!(connections.send(S(9), id, b"x"), Err(NotSent::Gone));
}

/// Of all that keep bytes, the one that keeps most has to go: a peer that does not read costs no other.
#[test]
fn all_connections_together_have_a_limit() {
    let mut connections = plain();
    let [greedy, frugal] = [1, 2].map(|port| opened(&mut connections, port));
    let total_bytes = 40_000;
    connections.set_limits(Limits {
        total_bytes,
        ..LIMITS
    });
    for _ in 0..10 {
        connections.send(ZERO, greedy, &[b'x'; 1_000]).unwrap();
    }
    assert_eq!(end(&mut connections), []);
    while connections.flow(greedy).is_some() {
        connections.send(ZERO, frugal, REQUEST).unwrap();
    }
    assert_eq!(end(&mut connections), [Why::MemoryFull]);
    assert!(connections.flow(frugal).is_some() && connections.held_bytes() <= total_bytes);
    assert_eq!(connections.counters().unsent, 10);
}

/// A request that can't be framed is answered before its connection is closed.
#[test]
fn a_fault_is_answered_first() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    let long = b"OPTIONS sip:a SIP/2.0\r\nl: 5000\r\n\r\n";
    let remote = flow(1, 1).remote;
    let heard = hear(
        &mut connections,
        ZERO,
        id,
        &[REQUEST, long, b"rest"].concat(),
    );
    let fault = FrameFault::MessageTooLong;
    let expected = [
        (remote, REQUEST.to_vec(), None),
        (remote, long.to_vec(), Some(fault)),
    ];
    assert_eq!(heard, expected);
    assert_eq!(hear(&mut connections, ZERO, id, REQUEST), []);
    assert_eq!(
        connections.find(flow(1, 1)),
        None,
        "no new request goes there"
    );
    assert_eq!(end(&mut connections), []);
    connections
        .send(ZERO, id, b"SIP/2.0 513 Message Too Large\r\n\r\n")
        .unwrap();
    let bytes = connections.to_write(id).len();
    connections.wrote(ZERO, id, bytes);
    assert_eq!(end(&mut connections), [Why::MessageTooLong]);

    let id = opened(&mut connections, 1);
    hear(&mut connections, ZERO, id, b"\0");
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(1));
    assert_eq!(end(&mut connections), [Why::NotSip], "nobody answers");
}

#[test]
fn a_close_writes_first_what_waits() {
    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    let id = connections.accept(ZERO, flow(1, 1), slow(false)).unwrap();
    hear(&mut connections, ZERO, id, b"x");
    connections.send(ZERO, id, REQUEST).unwrap();
    connections.close(ZERO, id);
    assert_eq!(connections.to_write(id), REQUEST);
    connections.wrote(ZERO, id, REQUEST.len());
    assert_eq!(connections.to_write(id), b"bye");
    assert_eq!(connections.send(ZERO, id, REQUEST), Err(NotSent::Closing));
    connections.wrote(ZERO, id, 3);
    assert_eq!(end(&mut connections), [Why::Ours]);
    assert_eq!(connections.counters().messages_sent, 1);
}

/// What waits for a connection that can't be opened can go elsewhere.
#[test]
fn messages_wait_for_the_connection() {
    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    let id = connections.open(ZERO, flow(1, 1), slow(false)).unwrap();
    connections.send(ZERO, id, REQUEST).unwrap();
    assert_eq!(connections.find(flow(1, 1)), Some(id));
    assert_eq!(
        (connections.connecting(), connections.to_write(id).len()),
        (1, 0)
    );
    connections.connected(ZERO, id);
    hear(&mut connections, ZERO, id, b"x");
    assert_eq!(connections.next_event(), Some(Event::Opened(id)));
    assert_eq!(connections.next_event(), Some(Event::Writable(id)));
    assert_eq!(connections.to_write(id), REQUEST);

    let id = connections.open(ZERO, flow(2, 1), slow(false)).unwrap();
    connections.send(ZERO, id, REQUEST).unwrap();
    let flow = connections.flow(id).unwrap();
    connections.closed(ZERO, id, Why::NotConnected);
    let closed = Closed {
        flow,
        id,
        is_of_peer: false,
        why: Why::NotConnected,
        detail: None,
    };
    assert_eq!(connections.next_event(), Some(Event::Close(closed)));
    let message = REQUEST.to_vec();
    assert_eq!(
        connections.next_event(),
        Some(Event::Unsent { flow, message })
    );
    assert_eq!(connections.next_event(), None);
}

#[test]
fn a_flow_finds_the_connection_with_least_to_send() {
    let mut connections = plain();
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let id = connections.open(ZERO, flow(1, 1), Plain).unwrap();
            connections.connected(ZERO, id);
            id
        })
        .collect();
    connections.send(ZERO, ids[0], REQUEST).unwrap();
    assert_eq!(connections.find(flow(1, 1)), Some(ids[1]));
    let own = connections.flow(ids[0]).unwrap();
    assert_eq!(connections.find(own), Some(ids[0]));
    connections.closed(ZERO, ids[0], Why::Failed);
    assert_eq!(connections.find(own), Some(ids[1]));
    let elsewhere = Flow {
        remote: flow(2, 1).remote,
        ..connections.flow(ids[1]).unwrap()
    };
    assert_eq!(connections.find(elsewhere), None);
}

#[test]
fn a_balancer_tells_the_peers_address() {
    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    let mut accept = |host: u8| {
        let id = connections.accept(ZERO, flow(1, 1), slow(true)).unwrap();
        hear(&mut connections, ZERO, id, &[host]);
        hear(&mut connections, ZERO, id, b"x");
        let heard = hear(&mut connections, ZERO, id, REQUEST);
        (id, heard)
    };
    for _ in 0..3 {
        let (_, heard) = accept(7);
        assert_eq!(heard[0].0, ([198, 51, 100, 7], 9).into());
    }
    let (_, heard) = accept(7);
    assert_eq!(heard, []);
    let (id, heard) = accept(8);
    assert_eq!(heard.len(), 1);
    let flow = connections.flow(id).unwrap();
    assert_eq!(flow.remote, ([198, 51, 100, 8], 9).into());
    assert_eq!(end(&mut connections), [Why::SourceFull]);
}

/// An overloaded node left connections unread, and closed them as their peers had not ended a message.
#[test]
fn what_waits_to_be_read_is_not_held_against_the_peer() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    hear(&mut connections, S(0), id, &REQUEST[..9]);
    connections.leave_unread(S(2), id);
    connections.handle_timeout(S(50));
    assert_eq!(end(&mut connections), []);
    // It has had two seconds of three.
    hear(&mut connections, S(50), id, &REQUEST[9..12]);
    connections.handle_timeout(S(50));
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(53));
    assert_eq!(end(&mut connections), [Why::SlowMessage]);
}

/// A peer that sent just as much as was read at once could leave a message incomplete for as long as it liked.
#[test]
fn a_message_takes_its_time_once_nothing_is_left_to_read() {
    let mut connections = plain();
    let id = opened(&mut connections, 1);
    hear(&mut connections, S(0), id, &REQUEST[..9]);
    connections.leave_unread(S(0), id);
    connections.is_read(S(1), id);
    connections.handle_timeout(S(3));
    assert_eq!(end(&mut connections), []);
    connections.handle_timeout(S(5));
    assert_eq!(end(&mut connections), [Why::SlowMessage]);
}

/// New requests went to servers that did not read what they had.
#[test]
fn a_peer_that_does_not_read_is_told_of_but_a_burst_is_not() {
    let ms = Duration::from_millis;
    let mut connections = plain();
    let id = connections.open(ZERO, flow(1, 5), Plain).unwrap();
    connections.connected(ZERO, id);
    let backlog = |connections: &mut Connections<Plain>| {
        let events = std::iter::from_fn(|| connections.next_event());
        let told = events.filter_map(|event| match event {
            Event::Backlog { is_backed_up, .. } => Some(is_backed_up),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let all = |connections: &mut Connections<Plain>, now| {
        let count = connections.to_write(id).len();
        connections.wrote(now, id, count);
    };
    // For 49 ms: a burst.
    connections.send(ZERO, id, REQUEST).unwrap();
    connections.back_up(ZERO, id);
    connections.send(ms(49), id, REQUEST).unwrap();
    all(&mut connections, ms(49));
    assert!(backlog(&mut connections).is_empty());
    // For longer.
    connections.send(ms(60), id, REQUEST).unwrap();
    connections.back_up(ms(60), id);
    connections.send(ms(110), id, REQUEST).unwrap();
    assert_eq!(backlog(&mut connections), [true]);
    all(&mut connections, ms(111));
    assert_eq!(backlog(&mut connections), [false]);
    // Soon after that, at once.
    connections.send(ms(120), id, REQUEST).unwrap();
    connections.back_up(ms(120), id);
    assert_eq!(backlog(&mut connections), [true]);
    // It does not outlive its connection.
    connections.closed(ms(130), id, Why::Peer);
    assert_eq!(backlog(&mut connections), [false]);
    assert_eq!(connections.counters().backed_up, 2);
}

/// A server stayed barred although another connection to it had opened, and was not barred when the only free one closed.
#[test]
fn a_free_connection_makes_a_peer_free_as_long_as_it_is_there() {
    let mut connections = plain();
    let slow = connections.open(ZERO, flow(1, 5), Plain).unwrap();
    connections.connected(ZERO, slow);
    connections.send(ZERO, slow, REQUEST).unwrap();
    connections.back_up(ZERO, slow);
    let late = Duration::from_millis(60);
    connections.send(late, slow, REQUEST).unwrap();
    let free = connections.open(late, flow(1, 5), Plain).unwrap();
    connections.connected(late, free);
    connections.closed(late, free, Why::Peer);
    let events = std::iter::from_fn(|| connections.next_event());
    let told = events.filter_map(|event| match event {
        Event::Backlog { is_backed_up, .. } => Some(is_backed_up),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [true, false, true]);
}
