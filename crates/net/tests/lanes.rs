//! The kernel leads requests into lanes and sifts them as the node would. On loopback.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    collections::HashSet,
    mem,
    net::{IpAddr, SocketAddr},
    ptr,
    time::Duration,
};

use node::{Lane, Sieve, Steering, config::IpNet, steering_past_lanes};
use socket::udp::{Instruction, Options, RecvBatch, SendBatch, Socket, Wait};

/// Longer than any test waits for a datagram that is on its way.
const PATIENCE: Duration = Duration::from_secs(5);

const CALLS: usize = 2_000;
const SHARE: f64 = 0.1;

/// Takes the last datagram of each test, which belongs to a call.
const LAST: &str = "BYE sip:last@example.com SIP/2.0\r\n\r\n";

fn options() -> Options {
    Options {
        recv_buffer: Some(8 << 20),
        ..Options::default()
    }
}

fn steering(known: &[IpNet]) -> Vec<node::Instruction> {
    let rule = Steering {
        known,
        urgent: &["112".to_owned()],
        ..Steering::default()
    };
    rule.program(1).expect("it is short")
}

fn bind(ip: &str) -> Socket {
    let ip: IpAddr = ip.parse().unwrap();
    Socket::bind(SocketAddr::new(ip, 0), options()).unwrap()
}

/// A node's sockets: its own, and one for each lane.
struct Sockets {
    own: Socket,
    lanes: [Socket; Lane::ALL.len()],
}

impl Sockets {
    fn new(ip: &str, known: &[IpNet]) -> Self {
        let own = bind(ip);
        let lanes = Lane::ALL.map(|_| own.join(options()).unwrap());
        let sockets = Self { own, lanes };
        sockets.steer(steering(known));
        sockets
    }

    fn steer(&self, program: Vec<node::Instruction>) {
        let steered = self.own.steer(program.into_iter().map(instruction));
        steered.unwrap_or_else(|error| {
            panic!("{error}: `sysctl net.core.optmem_max=131072` makes room")
        });
    }

    fn sift(&self, sieve: Sieve) {
        for (lane, socket) in Lane::ALL.into_iter().zip(&self.lanes) {
            if let Some(program) = sieve.program(lane) {
                socket
                    .set_filter(program.into_iter().map(instruction))
                    .unwrap();
            }
        }
    }

    /// A stranger sends all; returns what arrives in the own socket and in the lanes.
    fn arrivals(
        &self,
        from: &Socket,
        messages: impl IntoIterator<Item = String>,
    ) -> [HashSet<String>; 1 + Lane::ALL.len()] {
        self.arrivals_until(&self.lanes[Lane::OfCalls as usize], from, messages)
    }

    /// The same of one whose messages have no lane.
    fn arrivals_of_known(
        &self,
        from: &Socket,
        messages: impl IntoIterator<Item = String>,
    ) -> [HashSet<String>; 1 + Lane::ALL.len()] {
        self.arrivals_until(&self.own, from, messages)
    }

    /// Until the last one has arrived in this socket.
    fn arrivals_until(
        &self,
        last: &Socket,
        from: &Socket,
        messages: impl IntoIterator<Item = String>,
    ) -> [HashSet<String>; 1 + Lane::ALL.len()] {
        let messages: Vec<_> = messages.into_iter().chain([LAST.to_owned()]).collect();
        let to = self.own.local_addr();
        let items = messages.iter().map(|m| (to, m.as_bytes()));
        let sent = from.send(&mut SendBatch::new(), items);
        assert_eq!(sent.sent as usize, messages.len());
        last.set_recv_timeout(Some(PATIENCE)).unwrap();
        let mut with_last = HashSet::new();
        while !with_last.remove(LAST) {
            let count = receive(last, Wait::Block, &mut with_last);
            assert!(count > 0, "{}", with_last.len());
        }
        // What was sent before has arrived by now.
        let [calls, registers, others, urgent, of_calls] = self.lanes.each_ref();
        [&self.own, calls, registers, others, urgent, of_calls].map(|socket| {
            if ptr::eq(socket, last) {
                return mem::take(&mut with_last);
            }
            let mut arrived = HashSet::new();
            while receive(socket, Wait::Poll, &mut arrived) > 0 {}
            arrived
        })
    }
}

fn receive(socket: &Socket, wait: Wait, arrived: &mut HashSet<String>) -> usize {
    let mut batch = RecvBatch::new(64, 4096);
    let count = socket.recv(&mut batch, wait).unwrap();
    let texts = batch
        .datagrams()
        .map(|d| String::from_utf8(d.bytes.to_vec()).unwrap());
    arrived.extend(texts);
    count
}

fn instruction(of: node::Instruction) -> Instruction {
    let node::Instruction { code, jt, jf, k } = of;
    Instruction { code, jt, jf, k }
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

#[test]
fn what_strangers_send_comes_in_lanes() {
    for (ip, known) in [("127.0.0.1", "127.0.0.0/8"), ("::1", "::1/128")] {
        let caller = bind(ip);
        let node = Sockets::new(
            ip,
            &["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
        );
        let open = (0..CALLS).map(|call| request("INVITE", call, ";tag=b"));
        let others = ["ACK", "BYE", "CANCEL"].map(|method| request(method, 1, ""));
        let to = |to| request("INVITE", 2, "").replacen("sip:200@", to, 1);
        let for_help = HashSet::from(["sip:112@", "tel:112;x=", "urn:service:sos;x="].map(to));
        let parts: HashSet<_> = open.chain(others).collect();
        let register = HashSet::from([request("REGISTER", 1, "")]);
        let options = HashSet::from([request("OPTIONS", 1, "")]);
        let all = || {
            let all = invites().chain(parts.iter().cloned());
            all.chain(register.iter().cloned())
                .chain(options.iter().cloned())
                .chain(for_help.iter().cloned())
        };
        let [own, calls, registers, others, urgent, of_calls] = node.arrivals(&caller, all());
        assert_eq!((own, of_calls), (HashSet::new(), parts.clone()));
        assert_eq!(calls, invites().collect());
        assert_eq!((registers, others), (register.clone(), options.clone()));
        assert_eq!(urgent, for_help);

        node.steer(steering(&[known.parse().unwrap()]));
        let [own, lanes @ ..] = node.arrivals_of_known(&caller, all());
        assert_eq!(own, all().collect());
        assert!(lanes.iter().all(HashSet::is_empty));
        node.steer(steering_past_lanes(1));
        let [own, ..] = node.arrivals_of_known(&caller, all());
        assert_eq!(own, all().collect());
    }
}

#[test]
fn of_new_calls_those_arrive_that_the_rule_lets_pass() {
    for ip in ["127.0.0.1", "::1"] {
        let (caller, node, sieve) = (bind(ip), Sockets::new(ip, &[]), Sieve::new(7, SHARE));
        node.sift(sieve);
        let from = caller.local_addr();
        let passing: HashSet<_> = invites()
            .filter(|m| sieve.passes(m.as_bytes(), from))
            .collect();
        assert!((140..260).contains(&passing.len()), "{}", passing.len());
        for _ in ["at first", "retransmissions"] {
            assert_eq!(node.arrivals(&caller, invites())[1], passing);
        }
        let [calls, ..] = &node.lanes;
        calls.recv(&mut RecvBatch::new(1, 64), Wait::Poll).unwrap();
        assert_eq!(calls.kernel_drops().unwrap(), 0);
        assert_eq!(calls.filter_drops() as usize, 2 * (CALLS - passing.len()));
    }
}

#[test]
fn of_phones_those_register_that_the_rule_lets_pass() {
    for ip in ["127.0.0.1", "::1"] {
        let (node, sieve) = (Sockets::new(ip, &[]), Sieve::new(7, 0.5));
        node.sift(sieve);
        let mut passed = 0;
        for _ in 0..64 {
            let phone = bind(ip);
            let registers = || (0..2).map(|call| request("REGISTER", call, ""));
            let passes = sieve.passes(registers().next().unwrap().as_bytes(), phone.local_addr());
            let [_, _, arrived, ..] = node.arrivals(&phone, registers());
            assert_eq!(arrived.len(), if passes { 2 } else { 0 }, "{phone:?}");
            passed += u32::from(passes);
        }
        assert!((8..56).contains(&passed), "{passed}");
    }
}
