//! Who of the nodes on a path checks the credentials of those who call: an edge before a core before a server.

use std::net::SocketAddr;

use balance::Policy;
use node::{
    Config,
    config::{IpNet, Mode},
    stats::Event,
};

use crate::{
    harness::{
        ALICE, BOB, EDGE, ONE, Sent, TRANSACTION_MAX, config, listener, ms, registrar, s, worked,
    },
    message::{Msg, param, request},
    registrar::{World, answer_to},
};

const CORE: &str = "192.0.2.20:5060";

/// A gateway that the core believes. It is no node.
const GATEWAY: &str = "192.0.2.30:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn asking(server: &str) -> Config {
    let mut config = config(&[server]);
    config.registrar = Some(registrar());
    config.routes[0].auth = true;
    config.routes[0].state = Mode::Dynamic;
    config
}

fn core_config() -> Config {
    let mut config = asking(ONE);
    config.name = "core".to_owned();
    config.listeners = vec![listener(CORE)];
    let peers = [EDGE, GATEWAY].map(|peer| IpNet::from(address(peer).ip()));
    config.trust.peers = peers.to_vec();
    config
}

fn world(config: Config) -> World {
    let mut world = World::new(config);
    world.add_user("alice");
    world
}

/// Two nodes, and how often each has asked who a user is.
struct Pair {
    nodes: [World; 2],
    asked: [u32; 2],
}

impl Pair {
    fn new(edge: Config, core: Config) -> Self {
        Self {
            nodes: [world(edge), world(core)],
            asked: [0; 2],
        }
    }

    /// A core that has told of its room, and an edge that leaves this share open.
    fn leaving(share: f64) -> Self {
        Self::with_core(share, core_config())
    }

    fn with_core(share: f64, core: Config) -> Self {
        let mut pair = Self::new(asking(CORE), core);
        pair.learn(80, 4);
        pair.fix(Some(share));
        pair.asked = [0; 2];
        pair
    }

    /// Has the core see enough to tell of room: calls of a server that it believes are checked by nobody.
    fn learn(&mut self, requests: u32, rounds: u32) {
        for round in 0..rounds {
            for number in 0..requests {
                let call = format!("warm{round}-{number}");
                let sent = self.call(&call);
                self.back(&sent[0].respond(200));
            }
            let core = &mut self.nodes[1].cluster;
            core.nodes[0].handle_work(core.now, worked(20));
            for world in &mut self.nodes {
                world.cluster.wait(ms(100));
            }
        }
    }

    fn fix(&mut self, share: Option<f64>) {
        self.nodes[0].cluster.nodes[0].fix_share_left_open(share);
    }

    /// What a node sends when bytes have come from somebody, its questions answered.
    fn receive(&mut self, node: usize, from: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        let mut sent = self.nodes[node].cluster.send_bytes(0, from, bytes);
        while let Some(question) = self.nodes[node].cluster.questions.last() {
            let ask = question.ask.clone();
            let answer = self.nodes[node].ask(ask);
            self.asked[node] += 1;
            sent.extend(self.nodes[node].cluster.answer(answer));
        }
        sent
    }

    /// What reaches the server or the caller when a request was sent to the edge.
    fn send(&mut self, request: &Msg) -> Vec<Sent> {
        let bytes = request.to_string();
        let sent = self.receive(0, request.from, bytes.as_bytes());
        self.deliver(0, sent)
    }

    /// The same when a response was sent to the core.
    fn back(&mut self, response: &Msg) -> Vec<Sent> {
        let bytes = response.to_string();
        let sent = self.receive(1, response.from, bytes.as_bytes());
        self.deliver(1, sent)
    }

    fn deliver(&mut self, from: usize, sent: Vec<Sent>) -> Vec<Sent> {
        let addresses = [EDGE, CORE].map(address);
        let mut arrived = Vec::new();
        for sent in sent {
            if sent.to == addresses[1 - from] {
                let next = self.receive(1 - from, addresses[from], &sent.bytes);
                arrived.extend(self.deliver(1 - from, next));
            } else {
                arrived.push(sent);
            }
        }
        arrived
    }

    /// A user calls, and answers the challenge.
    fn call(&mut self, call: &str) -> Vec<Sent> {
        let proven = self.proven(call, "secret");
        self.send(&proven)
    }

    /// The call with the credentials for its challenge.
    fn proven(&mut self, call: &str, password: &str) -> Msg {
        let invite = request("INVITE", ALICE, call);
        let challenge = self.send(&invite);
        assert_eq!(challenge[0].status(), 407);
        with_credentials(&invite, &challenge[0], password, 1)
    }

    fn left_unchecked(&self) -> u64 {
        self.nodes[0].cluster.event(Event::LeftUnchecked)
    }
}

fn with_credentials(invite: &Msg, challenge: &Sent, password: &str, nc: u32) -> Msg {
    let of = (invite.method(), invite.uri());
    let shown = answer_to(challenge, "Proxy-Authenticate", of, ("alice", password), nc);
    let branch = format!("{}-{nc}", invite.get("Call-ID"));
    let again = invite.clone().again(1 + nc, &branch);
    again.set("Proxy-Authorization", shown)
}

/// The check that the topmost Via tells of.
fn check(sent: &Msg) -> Option<&str> {
    param(sent.all("Via")[0], "sy-check")
}

fn is_asserted(sent: &Msg) -> bool {
    sent.all("P-Asserted-Identity") == ["<sip:alice@example.com>"]
        && sent.whole("Proxy-Authorization").is_empty()
}

#[test]
fn one_node_checks_each_call() {
    for (share, asked) in [(0.0, [1, 0]), (1.0, [0, 1])] {
        let mut pair = Pair::leaving(share);
        let left = pair.left_unchecked();
        let arrived = pair.call("call");
        assert_eq!(pair.asked, asked, "share {share}");
        assert_eq!(arrived.len(), 1);
        assert_eq!(arrived[0].to, address(ONE));
        assert!(is_asserted(&arrived[0]), "{}", arrived[0].message);
        assert_eq!(pair.left_unchecked() - left, u64::from(asked[1]));
        let answered = pair.back(&arrived[0].respond(200));
        assert_eq!(
            (answered[0].to, answered[0].status()),
            (address(ALICE), 200)
        );
    }
}

/// Who shows nothing is sent back by the first node. It takes no other's time.
#[test]
fn the_first_node_challenges() {
    let mut pair = Pair::leaving(1.0);
    let before = pair.nodes[1].cluster.event(Event::Received);
    let challenge = pair.send(&request("INVITE", ALICE, "call"));
    assert_eq!((challenge.len(), challenge[0].status()), (1, 407));
    assert_eq!(pair.nodes[1].cluster.event(Event::Received), before);
}

#[test]
fn wrong_credentials_that_were_left_are_refused_behind() {
    let mut pair = Pair::leaving(1.0);
    let guess = pair.proven("call", "guess");
    let refused = pair.send(&guess);
    assert_eq!(pair.asked, [0, 1]);
    assert_eq!((refused[0].to, refused[0].status()), (address(ALICE), 407));
    assert_eq!(pair.nodes[1].cluster.event(Event::WrongCredentials), 1);
    let ack = guess.ack_of(&refused[0]);
    assert!(pair.send(&ack).is_empty());

    // The challenge of the core is as good as that of the edge.
    let again = with_credentials(&guess, &refused[0], "secret", 2);
    let arrived = pair.send(&again);
    assert!(is_asserted(&arrived[0]), "{arrived:?}");
}

/// Credentials are good once at a node. All of a call are checked by the same one.
#[test]
fn a_replay_is_found_where_the_call_was_checked() {
    for share in [0.0, 1.0] {
        let mut pair = Pair::leaving(share);
        let proven = pair.proven("call", "secret");
        assert!(pair.send(&proven)[0].is_request());
        let replay = proven.again(9, "replayed");
        let shown = proven.get("Proxy-Authorization");
        let replay = replay.set("Proxy-Authorization", shown);
        let refused = pair.send(&replay.from(BOB));
        assert_eq!(refused[0].status(), 407, "share {share}");
    }
}

#[test]
fn a_retransmission_is_checked_by_who_checked_the_first() {
    for (first, then) in [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)] {
        let mut pair = Pair::leaving(first);
        let proven = pair.proven("call", "secret");
        let arrived = pair.send(&proven);
        pair.fix(Some(then));
        let again = pair.send(&proven);
        assert!(again.iter().all(|sent| !sent.is_request()), "{again:?}");
        let answered = pair.back(&arrived[0].respond(200));
        assert_eq!(
            (answered[0].to, answered[0].status()),
            (address(ALICE), 200)
        );
    }
}

/// A core that does not ask is told that it must.
#[test]
fn what_was_left_is_checked_whatever_the_route_says() {
    let mut core = core_config();
    core.routes[0].auth = false;
    let mut pair = Pair::with_core(1.0, core);
    let guess = pair.proven("call", "guess");
    assert_eq!(pair.send(&guess)[0].status(), 407);
    let arrived = pair.call("another");
    assert_eq!(pair.asked, [0, 2]);
    assert!(is_asserted(&arrived[0]));
}

/// A core without users tells of room for transactions alone.
#[test]
fn nothing_is_left_to_who_can_check_nothing() {
    let mut core = core_config();
    core.routes[0].auth = false;
    core.registrar = None;
    let mut pair = Pair::with_core(1.0, core);
    let arrived = pair.call("call");
    assert_eq!(pair.asked, [1, 0]);
    assert!(is_asserted(&arrived[0]));
    let open = pair.nodes[0].cluster.event(Event::LeftOpen);
    assert!(open > 0, "its transaction is left nevertheless");
}

/// The core loses its users between telling of room and the request.
#[test]
fn who_can_check_no_longer_refuses() {
    let mut pair = Pair::leaving(1.0);
    let mut core = core_config();
    core.routes[0].auth = false;
    core.registrar = None;
    let now = pair.nodes[1].cluster.now;
    pair.nodes[1].cluster.shared.reload(core, now).unwrap();
    let refused = pair.call("call");
    assert_eq!((refused[0].to, refused[0].status()), (address(ALICE), 500));
}

#[test]
fn room_that_is_over_leaves_the_check_here() {
    let mut pair = Pair::leaving(1.0);
    let proven = pair.proven("call", "secret");
    for world in &mut pair.nodes {
        world.cluster.wait(ms(1_001));
    }
    assert!(is_asserted(&pair.send(&proven)[0]));
    assert_eq!(pair.asked, [1, 0]);
}

/// What the edge sends to the core: an INVITE that it has checked.
fn checked() -> Sent {
    let mut pair = Pair::leaving(0.0);
    let proven = pair.proven("call", "secret");
    let sent = pair.receive(0, proven.from, proven.to_string().as_bytes());
    let sent = sent
        .into_iter()
        .find(|sent| sent.to == address(CORE))
        .unwrap();
    assert!(check(&sent).unwrap().starts_with('d'));
    sent
}

fn text(sent: &Sent) -> String {
    String::from_utf8(sent.bytes.clone()).unwrap()
}

fn at_core(from: &str, message: &str) -> Sent {
    let mut core = world(core_config()).cluster;
    core.send_bytes(0, address(from), message.as_bytes())
        .remove(0)
}

#[test]
fn a_mark_is_believed_of_a_node_alone() {
    let real = text(&checked());
    assert!(at_core(EDGE, &real).is_request());
    assert_eq!(at_core(BOB, &real).status(), 407, "who heard it is nobody");
}

/// Who writes as a node does, even from its address, can't make a mark, nor move one.
#[test]
fn a_mark_can_t_be_forged_or_moved() {
    let sent = checked();
    let (real, mark) = (text(&sent), check(&sent).unwrap().to_owned());
    let with = |from: &str, to: &str| {
        assert!(real.contains(from), "{from}");
        real.replacen(from, to, 1)
    };
    let opened = format!("o{}", &mark[1..]);
    let cases = [
        with(&format!(";sy-check={mark}"), ""),
        with(&mark, ""),
        with(&mark, "d"),
        with(&mark, "d0000000000000000"),
        with(&mark, &opened),
        with(&mark, &format!("{mark}0")),
        with("sip:alice@example.com>;tag", "sip:carol@example.com>;tag"),
        with("Call-ID: call@test", "Call-ID: other@test"),
        with("INVITE sip:", "MESSAGE sip:").replace(" INVITE\r\n", " MESSAGE\r\n"),
        {
            let branch = sent.branch();
            let last = if branch.ends_with('0') { '1' } else { '0' };
            with(branch, &format!("{}{last}", &branch[..branch.len() - 1]))
        },
    ];
    for forged in cases {
        let answer = at_core(EDGE, &forged);
        assert!(!answer.is_request(), "{forged}\n{}", answer.message);
        assert_eq!(answer.status(), 407, "{forged}");
    }
}

/// A mark of one transaction with the CSeq of another: the core takes it for what it was, a copy.
#[test]
fn a_replayed_call_is_a_copy() {
    let sent = checked();
    let mut core = world(core_config()).cluster;
    let first = core.send_bytes(0, address(EDGE), &sent.bytes);
    let again = core.send_bytes(0, address(EDGE), &sent.bytes);
    assert_eq!(first[0].branch(), again[0].branch());
    assert_eq!(core.event(Event::Retransmission), 1);
}

/// A gateway is no node, and is believed as without dynamic state. The edge tells the core of its own gateways.
#[test]
fn who_is_believed_need_not_prove_anything() {
    let mut core = world(core_config()).cluster;
    assert!(core.pass(&request("INVITE", GATEWAY, "call")).is_request());

    let mut edge = asking(CORE);
    edge.trust.peers = vec![IpNet::from(address(GATEWAY).ip())];
    let mut pair = Pair::new(edge, core_config());
    let arrived = pair.send(&request("INVITE", GATEWAY, "call"));
    assert_eq!((arrived[0].to, pair.asked), (address(ONE), [0, 0]));
}

/// A node whose route asks for nothing vouches for nobody.
#[test]
fn an_edge_that_asks_nobody_leaves_it_to_the_core() {
    let mut edge = asking(CORE);
    edge.routes[0].auth = false;
    let mut pair = Pair::new(edge, core_config());
    let challenge = pair.send(&request("INVITE", ALICE, "call"));
    assert_eq!(
        (challenge[0].to, challenge[0].status()),
        (address(ALICE), 407)
    );
    let arrived = pair.call("another");
    assert_eq!(pair.asked, [0, 1]);
    assert!(is_asserted(&arrived[0]));
}

/// An INVITE that was left unchecked would have gone to another server, which checks nothing.
#[test]
fn what_is_unchecked_goes_to_no_other_server() {
    let mut pair = Pair::leaving(1.0);
    let mut two = asking(CORE);
    let mut other = two.pools[0].servers[0].clone();
    other.address = address(BOB);
    two.pools[0].servers.push(other);
    two.pools[0].policy = Policy::RoundRobin;
    let now = pair.nodes[0].cluster.now;
    pair.nodes[0].cluster.shared.reload(two, now).unwrap();
    for number in 0..20 {
        let proven = pair.proven(&format!("call{number}"), "secret");
        let sent = pair.receive(0, proven.from, proven.to_string().as_bytes());
        let requests = sent.iter().filter(|sent| sent.is_request());
        for sent in requests {
            let is_checked = check(sent).unwrap().starts_with('d');
            assert!(is_checked || sent.to == address(CORE), "{}", sent.message);
        }
    }
    assert!(pair.asked[0] > 0 && pair.left_unchecked() > 0);
    let to_other = pair.nodes[0].cluster.wait(s(4));
    let mut to_other = to_other.iter().filter(|sent| sent.to == address(BOB));
    assert!(to_other.all(|sent| check(sent).unwrap().starts_with('d')));
}

#[test]
fn marks_of_checks_stay_inside() {
    let mut pair = Pair::leaving(1.0);
    let mut invite = request("INVITE", ONE, "outward");
    invite.start = format!("INVITE sip:x@{ALICE} SIP/2.0");
    let sent = pair.nodes[1].cluster.pass(&invite);
    assert_eq!((sent.to, check(&sent)), (address(ALICE), None));
}

#[test]
fn all_is_forgotten_in_the_end() {
    let mut pair = Pair::leaving(0.5);
    for number in 0..40 {
        let password = if number % 3 == 0 { "guess" } else { "secret" };
        let proven = pair.proven(&format!("call{number}"), password);
        let arrived = pair.send(&proven);
        if arrived[0].is_request() {
            pair.back(&arrived[0].respond(486));
        }
    }
    assert!(pair.asked[0] > 0 && pair.asked[1] > 0, "{:?}", pair.asked);
    for world in &mut pair.nodes {
        world.cluster.wait(s(181) + TRANSACTION_MAX * 3);
        let (total, held) = (world.cluster.total(), world.cluster.held());
        assert_eq!((total, held), ((0, 0, 0.0), 0));
    }
}
