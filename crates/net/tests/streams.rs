//! Workers with a real node whose callers and servers are connected by TCP.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::{
    io::{ErrorKind, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    time::Duration,
};

use common::{PATIENCE, answer, config, listener, options, server, start, wait_until};
use node::Transport::{Tcp, Udp, Ws};

/// A whole message: these have no body.
fn receive(stream: &mut TcpStream) -> String {
    let (mut message, mut byte) = (Vec::new(), [0]);
    while !message.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        message.push(byte[0]);
    }
    String::from_utf8(message).unwrap()
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(to: std::net::SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Whichever worker owns a call, its answer goes back over the connection that its request came by, and
/// all requests of a worker go over one connection to the server.
#[test]
fn answers_find_the_connection_of_their_request() {
    for workers in [1, 3] {
        let home = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = server(Tcp, home.local_addr().unwrap());
        let (_, running) = start(
            config(vec![listener(Tcp, "127.0.0.2:0")], vec![server]),
            workers,
        );
        let running = running.unwrap();
        let edge = running.addresses()[0];
        let mut callers: Vec<_> = (0..8).map(|_| connect(edge)).collect();
        for (call, caller) in callers.iter_mut().enumerate() {
            let request = options("TCP", caller.local_addr().unwrap(), call);
            // In three pieces, as a stream has no borders.
            let (first, rest) = request.split_at(7 + call);
            let (second, third) = rest.split_at(100);
            for piece in [first, second, third] {
                caller.write_all(piece.as_bytes()).unwrap();
            }
        }
        let mut answered = 0;
        let mut connections = Vec::new();
        home.set_nonblocking(false).unwrap();
        while answered < callers.len() {
            let mut connection = accept(&home);
            connection.set_read_timeout(Some(PATIENCE / 20)).unwrap();
            while let Some(request) = try_receive(&mut connection) {
                assert!(request.contains("Via: SIP/2.0/TCP 127.0.0.2"), "{request}");
                connection.write_all(answer(&request).as_bytes()).unwrap();
                answered += 1;
            }
            connections.push(connection);
        }
        assert!(connections.len() <= workers);
        for (call, caller) in callers.iter_mut().enumerate() {
            let response = receive(caller);
            assert!(response.starts_with("SIP/2.0 200"), "{response}");
            let own = format!("Call-ID: call-{call}\r\n");
            assert!(response.contains(&own), "{response}");
            assert!(!response.contains(";i="), "{response}");
        }
    }
}

fn try_receive(stream: &mut TcpStream) -> Option<String> {
    let mut byte = [0];
    match stream.peek(&mut byte) {
        Ok(1) => Some(receive(stream)),
        _ => None,
    }
}

/// A caller on UDP, a server on TCP.
#[test]
fn a_call_may_change_its_transport() {
    let home = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server(Tcp, home.local_addr().unwrap());
    let listeners = vec![listener(Udp, "127.0.0.2:0"), listener(Tcp, "127.0.0.2:0")];
    let (_, running) = start(config(listeners, vec![server]), 2);
    let running = running.unwrap();
    let caller = UdpSocket::bind("127.0.0.3:0").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = options("UDP", caller.local_addr().unwrap(), 1);
    let edge = running.addresses()[0];
    caller.send_to(request.as_bytes(), edge).unwrap();
    let mut connection = accept(&home);
    let request = receive(&mut connection);
    connection.write_all(answer(&request).as_bytes()).unwrap();
    let mut buffer = [0; 2048];
    let (length, from) = caller.recv_from(&mut buffer).unwrap();
    assert!(buffer[..length].starts_with(b"SIP/2.0 200"));
    assert_eq!(from, edge);
}

/// Nobody listens at the first server: its requests go to the second, in the same moment.
#[test]
fn what_can_not_be_connected_fails_over() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = server(Tcp, dead.local_addr().unwrap());
    drop(dead);
    let home = UdpSocket::bind("127.0.0.1:0").unwrap();
    home.set_read_timeout(Some(PATIENCE)).unwrap();
    let lives = server(Udp, home.local_addr().unwrap());
    let listeners = vec![listener(Udp, "127.0.0.2:0"), listener(Tcp, "127.0.0.2:0")];
    let (_, running) = start(config(listeners, vec![gone, lives]), 1);
    let running = running.unwrap();
    let mut caller = connect(running.addresses()[1]);
    for call in 0..4 {
        let request =
            options("TCP", caller.local_addr().unwrap(), call).replace("OPTIONS", "INVITE");
        caller.write_all(request.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let (length, edge) = home.recv_from(&mut buffer).unwrap();
        let request = str::from_utf8(&buffer[..length]).unwrap();
        home.send_to(answer(request).as_bytes(), edge).unwrap();
        assert!(receive(&mut caller).starts_with("SIP/2.0 200"));
    }
}

/// What is no SIP ends its own connection and no other.
#[test]
fn rubbish_closes_its_connection_alone() {
    let home = UdpSocket::bind("127.0.0.1:0").unwrap();
    home.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = server(Udp, home.local_addr().unwrap());
    let listeners = vec![listener(Udp, "127.0.0.2:0"), listener(Tcp, "127.0.0.2:0")];
    let (_, running) = start(config(listeners, vec![server]), 1);
    let running = running.unwrap();
    let edge = running.addresses()[1];
    let mut good = connect(edge);
    for rubbish in [
        "\u{16}\u{3}\u{1}\u{2}\u{0}hello".repeat(20_000),
        "INVITE sip:a SIP/2.0\r\nContent-Length: 4000000000\r\n\r\n".to_owned(),
        "INVITE sip:a SIP/2.0\r\nContent-Length: 1\r\nl: 2\r\n\r\nab".to_owned(),
        "INVITE sip:a SIP/2.0\r\nVia: x\r\n\r\n".to_owned(),
    ] {
        let mut bad = connect(edge);
        // The node may close before all is written.
        let _ = bad.write_all(rubbish.as_bytes());
        let mut rest = Vec::new();
        let ended = bad.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() != ErrorKind::WouldBlock));
    }
    good.write_all(b"\r\n\r\n").unwrap();
    let mut pong = [0; 2];
    good.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\r\n");
    let request = options("TCP", good.local_addr().unwrap(), 9);
    good.write_all(request.as_bytes()).unwrap();
    let mut buffer = [0; 4096];
    let (length, from) = home.recv_from(&mut buffer).unwrap();
    let request = str::from_utf8(&buffer[..length]).unwrap();
    home.send_to(answer(request).as_bytes(), from).unwrap();
    assert!(receive(&mut good).starts_with("SIP/2.0 200"));
}

/// Whether the other end has closed.
fn is_closed(stream: &mut TcpStream) -> bool {
    let read = stream.read(&mut [0]);
    matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}

/// They are there before the first message, come back when they are lost, and go when their server does.
#[test]
fn connections_are_opened_ahead_and_closed_behind() {
    let homes = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let servers = homes
        .each_ref()
        .map(|home| server(Tcp, home.local_addr().unwrap()));
    let mut config = config(vec![listener(Tcp, "127.0.0.2:0")], servers.to_vec());
    config.connections.per_server = 2;
    let (shared, running) = start(config.clone(), 1);
    let running = running.unwrap();
    drop([accept(&homes[0]), accept(&homes[0])]);
    let mut first = [accept(&homes[0]), accept(&homes[0])];
    let mut second = [accept(&homes[1]), accept(&homes[1])];

    config.pools[0].servers.remove(0);
    shared.reload(config, Duration::from_secs(1)).unwrap();
    assert!(first.iter_mut().all(is_closed));
    second[0].set_nonblocking(true).unwrap();
    assert!(!is_closed(&mut second[0]));
    second[0].set_nonblocking(false).unwrap();
    running.stop();
    assert!(second.iter_mut().all(is_closed));
}

/// A length that makes no sense closed its connection without a word.
#[test]
fn a_bad_length_is_answered_before_its_connection_is_closed() {
    let server = server(Udp, "127.0.0.1:9".parse().unwrap());
    let (_, running) = start(config(vec![listener(Tcp, "127.0.0.2:0")], vec![server]), 1);
    let running = running.unwrap();
    for length in [
        "",
        "Content-Length: 4294967296\r\n",
        "Content-Length: 1\r\nl: 2\r\n",
    ] {
        let mut caller = connect(running.addresses()[0]);
        let request = options("TCP", caller.local_addr().unwrap(), 1);
        let request = request.replace("Content-Length: 0\r\n", length);
        caller.write_all(request.as_bytes()).unwrap();
        assert!(receive(&mut caller).starts_with("SIP/2.0 400 "), "{length}");
        assert!(is_closed(&mut caller));
    }
}

/// Its caller waited for the 32 s of Timer F, as nobody would send the request again.
#[test]
fn a_server_that_refuses_the_connection_is_answered_for_at_once() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = server(Tcp, dead.local_addr().unwrap());
    drop(dead);
    let (_, running) = start(config(vec![listener(Tcp, "127.0.0.2:0")], vec![gone]), 1);
    let running = running.unwrap();
    let mut caller = connect(running.addresses()[0]);
    for method in ["OPTIONS", "INVITE"] {
        let request = options("TCP", caller.local_addr().unwrap(), 1).replace("OPTIONS", method);
        caller.write_all(request.as_bytes()).unwrap();
        let answer = receive(&mut caller);
        assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    }
    let (closings, untold) = running.take_closings();
    assert_eq!(untold, 0);
    let told = closings[0].detail.as_deref();
    assert!(told.is_some_and(|why| why.contains("refused")), "{told:?}");
}

/// While strangers had all handshakes, nobody was taken on any listener.
#[test]
fn handshakes_of_strangers_stop_no_other_listener() {
    let server = server(Udp, "127.0.0.9:9".parse().unwrap());
    let listeners = vec![listener(Ws, "127.0.0.2:0"), listener(Tcp, "127.0.0.2:0")];
    let mut config = config(listeners, vec![server]);
    config.connections.handshakes = 4;
    config.connections.handshake = 100 * PATIENCE;
    let (_, running) = start(config, 1);
    let running = running.unwrap();
    let [secured, plain] = running.addresses()[..] else {
        panic!("there are two")
    };
    let _silent: Vec<_> = (0..5).map(|_| connect(secured)).collect();
    wait_until(&running, || running.connections(0).handshaking == 4);
    let mut caller = connect(plain);
    caller.write_all(b"\r\n\r\n").unwrap();
    let mut pong = [0; 2];
    caller.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\r\n");
}
