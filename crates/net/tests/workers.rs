//! Workers with a real node on loopback: what they relay, how they start, are asked and stop.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

mod common;

use std::{
    io::ErrorKind,
    net::{SocketAddr, UdpSocket},
    sync::mpsc,
    time::Duration,
};

use common::{PATIENCE, answer, listener, options, server, start, wait_until};
use net::{Busy, StartError, Stats};
use node::{Config, Transport::Udp, stats::Dropped};

fn config(listeners: &[SocketAddr], servers: &[SocketAddr]) -> Config {
    let listeners = listeners.iter().map(|at| listener(Udp, &at.to_string()));
    let servers = servers.iter().map(|&at| server(Udp, at));
    common::config(listeners.collect(), servers.collect())
}

fn peer(family: &str) -> UdpSocket {
    let socket = UdpSocket::bind(family).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> (String, SocketAddr) {
    let mut buffer = [0; 4096];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (String::from_utf8(buffer[..length].to_vec()).unwrap(), from)
}

/// Every caller's requests reach the server and are answered to it, by the socket it spoke to.
fn check_relay(family: &str, listeners: usize, workers: usize) {
    let server = peer(family);
    let listen = vec![family.parse().unwrap(); listeners];
    let (shared, running) = start(config(&listen, &[server.local_addr().unwrap()]), workers);
    let running = running.unwrap();
    let addresses = running.addresses();
    let callers: Vec<_> = (0..16).map(|_| peer(family)).collect();
    for (call, caller) in callers.iter().enumerate() {
        let request = options("UDP", caller.local_addr().unwrap(), call);
        caller
            .send_to(request.as_bytes(), addresses[call % listeners])
            .unwrap();
    }
    for _ in &callers {
        let (request, from) = receive(&server);
        assert!(request.starts_with("OPTIONS"), "{request}");
        assert!(addresses.contains(&from));
        server.send_to(answer(&request).as_bytes(), from).unwrap();
    }
    for (call, caller) in callers.iter().enumerate() {
        let (response, from) = receive(caller);
        assert!(response.starts_with("SIP/2.0 200"), "{response}");
        assert!(
            response.contains(&format!("Call-ID: call-{call}\r\n")),
            "{response}"
        );
        assert_eq!(from, addresses[call % listeners]);
    }

    let sum =
        |count: fn(&Stats) -> u64| (0..workers).map(|n| count(&running.stats(n))).sum::<u64>();
    wait_until(&running, || {
        sum(|stats| stats.sent) == 32 && shared.transactions() == 0
    });
    assert_eq!(sum(|stats| stats.received), 32);
    running.stop();
    addresses
        .iter()
        .for_each(|address| drop(UdpSocket::bind(address).unwrap()));
}

/// Workers wait for more where much comes, also of somebody who is not to be heard; others are served.
#[test]
fn a_flood_keeps_nobody_from_being_served() {
    for workers in [1, 2] {
        let [server, caller] = ["127.0.0.1:0", "127.0.0.3:0"].map(peer);
        let mut config = config(
            &["127.0.0.1:0".parse().unwrap()],
            &[server.local_addr().unwrap()],
        );
        config.abuse.rules.burst = 10;
        let (shared, running) = start(config, workers);
        let running = running.unwrap();
        let edge = running.addresses()[0];
        let flooder = peer("127.0.0.2:0");
        for call in 0..20 {
            for _ in 0..50 {
                flooder.send_to(b"rubbish\r\n\r\n", edge).unwrap();
            }
            let request = options("UDP", caller.local_addr().unwrap(), call);
            caller.send_to(request.as_bytes(), edge).unwrap();
            let (request, from) = receive(&server);
            server.send_to(answer(&request).as_bytes(), from).unwrap();
            assert!(receive(&caller).0.starts_with("SIP/2.0 200"));
        }
        let unheard = |worker: &node::stats::WorkerStats| {
            worker.dropped(Dropped::Banned) + worker.dropped(Dropped::Limited)
        };
        let all = || shared.workers().iter().map(unheard).sum::<u64>();
        wait_until(&running, || all() > 900);
        running.stop();
    }
}

#[test]
fn one_worker_relays_from_one_socket() {
    check_relay("127.0.0.1:0", 1, 1);
    check_relay("[::1]:0", 1, 1);
}

#[test]
fn one_worker_relays_from_several_sockets() {
    check_relay("127.0.0.1:0", 3, 1);
    check_relay("[::1]:0", 3, 1);
}

#[test]
fn several_workers_hand_over_to_each_other() {
    check_relay("127.0.0.1:0", 1, 4);
    check_relay("[::1]:0", 2, 3);
}

#[test]
fn every_listener_that_fails_is_reported_and_nothing_starts() {
    let taken = [peer("127.0.0.1:0"), peer("[::1]:0")].map(|peer| {
        let address = peer.local_addr().unwrap();
        (peer, address)
    });
    let free = peer("127.0.0.1:0").local_addr().unwrap();
    let not_ours = "192.0.2.1:5060".parse().unwrap();
    for workers in [1, 2] {
        let listeners = [taken[0].1, free, not_ours, taken[1].1];
        let (_, result) = start(config(&listeners, &[]), workers);
        let Err(StartError::Listeners(errors)) = result else {
            panic!("{result:?}")
        };
        let errors: Vec<_> = errors
            .into_iter()
            .map(|(index, error)| (index, error.kind()))
            .collect();
        let (in_use, no_address) = (ErrorKind::AddrInUse, ErrorKind::AddrNotAvailable);
        assert_eq!(errors, [(0, in_use), (2, no_address), (3, in_use)]);
        drop(UdpSocket::bind(free).unwrap());
    }
}

#[test]
fn commands_run_between_batches_and_are_bounded() {
    for (listeners, workers) in [(1, 1), (2, 1), (1, 2)] {
        let listen = vec!["127.0.0.1:0".parse().unwrap(); listeners];
        let (_, running) = start(config(&listen, &[]), workers);
        let running = running.unwrap();
        let last = workers - 1;
        let (started, starts) = mpsc::channel();
        let (resume, resumed) = mpsc::channel::<()>();
        let block = move || {
            started.send(()).unwrap();
            let _ = resumed.recv();
        };
        running
            .command(last, Box::new(move |_, _, _| block()))
            .unwrap();
        starts.recv_timeout(PATIENCE).unwrap();
        let fitting = (0..).take_while(|_| running.command(last, Box::new(|_, _, _| ())).is_ok());
        assert_eq!(fitting.count(), 64);
        assert_eq!(running.command(last, Box::new(|_, _, _| ())), Err(Busy));
        resume.send(()).unwrap();
    }
}

#[test]
fn a_full_queue_between_workers_drops_and_counts() {
    let server = peer("127.0.0.1:0");
    let mut config = config(
        &["127.0.0.1:0".parse().unwrap()],
        &[server.local_addr().unwrap()],
    );
    config.limits.handover_queue = 1;
    let (shared, running) = start(config, 2);
    let running = running.unwrap();
    let (started, starts) = mpsc::channel();
    let (resume, resumed) = mpsc::channel::<()>();
    let block = move || {
        started.send(()).unwrap();
        let _ = resumed.recv();
    };
    running
        .command(1, Box::new(move |_, _, _| block()))
        .unwrap();
    starts.recv_timeout(PATIENCE).unwrap();

    let callers: Vec<_> = (0..64).map(|_| peer("127.0.0.1:0")).collect();
    for (call, caller) in callers.iter().enumerate() {
        let request = options("UDP", caller.local_addr().unwrap(), call);
        caller
            .send_to(request.as_bytes(), running.addresses()[0])
            .unwrap();
    }
    wait_until(&running, || {
        shared.workers()[0].dropped(Dropped::HandoverFull) > 0
    });
    resume.send(()).unwrap();
    let (request, _) = receive(&server);
    assert!(request.starts_with("OPTIONS"), "{request}");
}

#[test]
fn a_server_that_is_away_is_taken_down_by_icmp() {
    for (listeners, workers) in [(1, 1), (2, 2)] {
        let away = peer("127.0.0.1:0").local_addr().unwrap();
        let listen = vec!["127.0.0.1:0".parse().unwrap(); listeners];
        let (_shared, running) = start(config(&listen, &[away]), workers);
        let running = running.unwrap();
        let caller = peer("127.0.0.1:0");
        let request = |call| options("UDP", caller.local_addr().unwrap(), call);
        let to = running.addresses()[0];
        // The first goes to the server; by the next the node knows that there is none.
        caller.send_to(request(0).as_bytes(), to).unwrap();
        for call in 1.. {
            caller.send_to(request(call).as_bytes(), to).unwrap();
            caller
                .set_read_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            let mut buffer = [0; 4096];
            if caller.recv(&mut buffer).is_ok() {
                assert!(
                    buffer.starts_with(b"SIP/2.0 503"),
                    "{}",
                    String::from_utf8_lossy(&buffer)
                );
                break;
            }
            assert!(call < 100, "no answer");
        }
    }
}
