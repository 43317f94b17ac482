//! TCP on loopback.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{
    io::{ErrorKind, Write},
    net::TcpStream,
    thread::yield_now,
    time::Duration,
};

use socket::{Clock, tcp::Listener};

/// How long a message waited is known from the system, for it may have waited before anybody looked.
#[test]
fn what_is_read_tells_how_long_it_has_waited() {
    const WAIT: Duration = Duration::from_millis(30);
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let mut peer = TcpStream::connect(listener[0].local_addr()).unwrap();
    let (stream, _) = loop {
        match listener[0].accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => yield_now(),
            accepted => break accepted.unwrap(),
        }
    };
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
