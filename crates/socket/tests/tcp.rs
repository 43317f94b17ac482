//! TCP on loopback.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    io::{ErrorKind, Write},
    net::TcpStream,
    thread::yield_now,
    time::Duration,
};

use socket::{
    Clock,
    tcp::{Listener, Stream},
};
use socket2::SockRef;

fn accept(listener: &Listener) -> Stream {
    loop {
        match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
            accepted => return accepted.unwrap().0,
        }
    }
}

/// How long a message waited is known from the system, for it may have waited before anybody looked.
#[test]
fn what_is_read_tells_how_long_it_has_waited() {
    const WAIT: Duration = Duration::from_millis(30);
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let mut peer = TcpStream::connect(listener[0].local_addr()).unwrap();
    let stream = accept(&listener[0]);
    let clock = Clock::start();
    let mut late = |wait: Duration| {
        let began = clock.now();
        peer.write_all(b"late").unwrap();
        while clock.now() < began + wait {
            yield_now();
        }
        let (length, waited) = loop {
            match stream.read_dated(&mut [0; 8]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
                read => break read.unwrap(),
            }
        };
        assert_eq!(length, 4);
        (waited, clock.now() - began)
    };
    // Linux begins to date what comes a moment after it was told to.
    while late(Duration::ZERO).0.is_none() {
        assert!(clock.now() < Duration::from_secs(10));
    }
    for wait in [WAIT, Duration::ZERO] {
        let (waited, most) = late(wait);
        let waited = waited.unwrap();
        assert!(wait.mul_f64(0.9) < waited || wait.is_zero(), "{waited:?}");
        assert!(waited <= most.mul_f64(1.1), "{waited:?} of {most:?}");
    }
}

/// Bytes of messages that a peer can send while nobody reads; then all of them are read.
fn unread(peer: &mut TcpStream, stream: &Stream) -> usize {
    let mut sent = 0;
    loop {
        match peer.write(&[0; 700]) {
            Ok(length) => sent += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    let mut left = sent;
    while left > 0 {
        match stream.read(&mut [0; 4_096]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
            read => left -= read.unwrap(),
        }
    }
    sent
}

/// What waited unread was as much as the system found of use: seconds of what an overloaded node could do.
#[test]
fn little_waits_unread_where_it_is_limited() {
    const LITTLE: usize = 32 * 1024;
    let mut group = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let listener = group.remove(0);
    listener.allow_unread(LITTLE);
    let mut peer = TcpStream::connect(listener.local_addr()).unwrap();
    peer.set_nonblocking(true).unwrap();
    peer.set_nodelay(true).unwrap();
    SockRef::from(&peer).set_send_buffer_size(0).unwrap();
    let stream = accept(&listener);
    let at_first = unread(&mut peer, &stream);
    stream.allow_unread(8 * LITTLE);
    let allowed = unread(&mut peer, &stream);
    stream.allow_unread(LITTLE);
    let kept = unread(&mut peer, &stream);
    stream.limit_unread(LITTLE);
    let limited: Vec<_> = (0..8).map(|_| unread(&mut peer, &stream)).collect();
    assert!(at_first * 2 < allowed, "{at_first} {allowed}");
    assert!(at_first * 2 < kept, "{at_first} {kept}");
    assert!(
        limited.iter().all(|&it| it * 2 < allowed),
        "{limited:?} {allowed}"
    );
}
