//! The kernel runs the node's sieve as the node would. On loopback.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    collections::HashSet,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use node::{Sieve, config::IpNet};
use socket::udp::{Instruction, Options, RecvBatch, SendBatch, Socket, Wait};

/// Longer than any test waits for a datagram that is on its way.
const PATIENCE: Duration = Duration::from_secs(5);

const CALLS: usize = 2_000;
const SHARE: f64 = 0.1;

fn bind(ip: &str) -> Socket {
    let options = Options {
        recv_buffer: Some(8 << 20),
        ..Options::default()
    };
    let ip: IpAddr = ip.parse().unwrap();
    let socket = Socket::bind(SocketAddr::new(ip, 0), options).unwrap();
    socket.set_recv_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn sift(socket: &Socket, sieve: Sieve, known: &[IpNet]) {
    let program = sieve.program(known).unwrap();
    let program = program.into_iter().map(|instruction| Instruction {
        code: instruction.code,
        jt: instruction.jt,
        jf: instruction.jf,
        k: instruction.k,
    });
    let set = socket.set_filter(program);
    set.unwrap_or_else(|error| panic!("{error}: `sysctl net.core.optmem_max=131072` makes room"));
}

fn request(method: &str, call: usize, to_tag: &str) -> String {
    format!(
        "{method} sip:200@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.1.2.3;rport;branch=z9hG4bK{call:06}\r\n\
         Max-Forwards: 70\r\nFrom: \"Anna\" <sip:anna@example.com>;tag={call:05}\r\n\
         To: <sip:200@example.com>{to_tag}\r\nCall-ID: {call:010}@10.1.2.3\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:anna@10.1.2.3:5060>\r\nUser-Agent: a phone{}\r\nContent-Length: 0\r\n\r\n",
        " of some kind".repeat(call % 60),
    )
}

fn invites() -> impl Iterator<Item = String> {
    (0..CALLS).map(|call| request("INVITE", call, ""))
}

/// Sends all, and what no sieve stops at the end; returns what arrives before that.
fn arrivals(from: &Socket, to: &Socket, messages: impl Iterator<Item = String>) -> HashSet<String> {
    const LAST: &str = "last";
    let messages: Vec<_> = messages.chain([LAST.to_owned()]).collect();
    let items = messages.iter().map(|m| (to.local_addr(), m.as_bytes()));
    let sent = from.send(&mut SendBatch::new(), items);
    assert_eq!(sent.sent as usize, messages.len());
    let mut batch = RecvBatch::new(64, 4096);
    let mut arrived = HashSet::new();
    while !arrived.remove(LAST) {
        assert_ne!(
            to.recv(&mut batch, Wait::Block).unwrap(),
            0,
            "{}",
            arrived.len()
        );
        let texts = batch
            .datagrams()
            .map(|d| String::from_utf8(d.bytes.to_vec()).unwrap());
        arrived.extend(texts);
    }
    arrived
}

#[test]
fn of_new_calls_those_arrive_that_the_rule_lets_pass_and_of_open_calls_all() {
    for (ip, known) in [("127.0.0.1", "127.0.0.0/8"), ("::1", "::1/128")] {
        let (caller, node) = (bind(ip), bind(ip));
        let sieve = Sieve::new(7, SHARE);
        sift(
            &node,
            sieve,
            &["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        );

        let from = caller.local_addr();
        let passing: HashSet<_> = invites()
            .filter(|m| sieve.passes(m.as_bytes(), from))
            .collect();
        assert!((140..260).contains(&passing.len()), "{}", passing.len());
        assert_eq!(arrivals(&caller, &node, invites()), passing);
        assert_eq!(
            arrivals(&caller, &node, invites()),
            passing,
            "retransmissions"
        );
        assert_eq!(node.kernel_drops().unwrap(), 0);
        assert_eq!(node.filter_drops() as usize, 2 * (CALLS - passing.len()));

        let open = (0..CALLS).map(|call| request("INVITE", call, ";tag=b"));
        let others = ["ACK", "BYE", "CANCEL"].map(|method| request(method, 1, ""));
        let all: HashSet<_> = open.chain(others).collect();
        assert_eq!(arrivals(&caller, &node, all.iter().cloned()), all);

        sift(&node, sieve, &[known.parse().unwrap()]);
        assert_eq!(arrivals(&caller, &node, invites()).len(), CALLS);
    }
}

#[test]
fn of_phones_those_register_that_the_rule_lets_pass() {
    for ip in ["127.0.0.1", "::1"] {
        let (node, sieve) = (bind(ip), Sieve::new(7, 0.5));
        sift(&node, sieve, &[]);
        let mut passed = 0;
        for _ in 0..64 {
            let phone = bind(ip);
            let registers = || (0..2).map(|call| request("REGISTER", call, ""));
            let passes = sieve.passes(registers().next().unwrap().as_bytes(), phone.local_addr());
            let arrived = arrivals(&phone, &node, registers());
            assert_eq!(arrived.len(), if passes { 2 } else { 0 }, "{phone:?}");
            passed += u32::from(passes);
        }
        assert!((8..56).contains(&passed), "{passed}");
    }
}
