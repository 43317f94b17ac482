//! Phones on connections of their own, before a registrar that grants everything.

#![allow(clippy::unwrap_used)]

use std::{net::SocketAddr, time::Duration};

use load::{Accounts, Phones, PhonesConfig, Rate, Retransmission, Stream, Transport, Turns};
use sip::{Frame, FrameLimits, Framer, Message, write_reply};
use socket::{Clock, tcp};
use traffic::{Endpoint, Group, LOOPBACK, Streams, To};

const PHONES: u32 = 50;

/// Longer than anything takes here, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers REGISTERs on the connections that they come on.
struct Registrar {
    listener: tcp::Listener,
    connections: Vec<(tcp::Stream, SocketAddr, Framer, Vec<u8>)>,
    /// How many REGISTERs came on each connection, in the order of their opening.
    heard: Vec<u32>,
}

impl Registrar {
    fn turn(&mut self) {
        let limits = FrameLimits {
            head_bytes: 4_096,
            message_bytes: 4_096,
        };
        while let Ok((stream, peer)) = self.listener.accept() {
            let framer = Framer::new(limits);
            self.connections.push((stream, peer, framer, Vec::new()));
            self.heard.push(0);
        }
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let (stream, peer, framer, bytes) = connection;
            let mut buffer = [0; 4_096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                bytes.extend_from_slice(&buffer[..length]);
            }
            while let Frame::Message(text) = framer.next(bytes) {
                let request = Message::parse(text, 100).unwrap();
                assert_eq!(request.validate(), Ok(()));
                let via = format!("SIP/2.0/TCP {peer};rport;");
                let top = request.header(sip::HeaderName::Via).unwrap();
                assert!(
                    top.starts_with(via.as_bytes()),
                    "{}",
                    String::from_utf8_lossy(top)
                );
                let contact = request.contacts().next().unwrap().unwrap();
                assert!(
                    contact
                        .uri
                        .ends_with(format!("@{peer};transport=tcp").as_bytes())
                );
                let mut reply = Vec::new();
                write_reply(&request, 200, "OK", Some("t"), *peer, &[], &mut reply);
                assert_eq!(stream.write(&reply).unwrap(), reply.len());
                self.heard[place] += 1;
                let length = text.len();
                bytes.drain(..length);
            }
        }
    }
}

#[test]
fn each_phone_registers_on_a_connection_of_its_own() {
    let listener = tcp::Listener::bind_group(LOOPBACK, 1).unwrap().remove(0);
    let to = To {
        transport: Transport::Tcp,
        address: listener.local_addr(),
        name: "localhost".to_owned(),
        client: None,
    };
    let mut registrar = Registrar {
        listener,
        connections: Vec::new(),
        heard: Vec::new(),
    };
    let streams = Streams::new(&[LOOPBACK; PHONES as usize], to.clone()).unwrap();
    let config = PhonesConfig {
        sockets: streams.addresses(),
        transport: Transport::Tcp,
        contacts: streams.addresses(),
        registrar: to.address,
        domain: "example.com".to_owned(),
        accounts: Accounts::open(PHONES),
        turns: Turns::Once,
        rate: Rate::Constant(1_000.0),
        stream: Stream::Even,
        expires: Duration::from_secs(3_600),
        refresh: 0.9,
        retransmission: Retransmission::Never,
    };
    let clock = Clock::start();
    let phones = Phones::new(config, fastrand::Rng::with_seed(1), clock.now());
    let mut group = Group::new(vec![Endpoint::on_streams(phones, streams)]);
    let mut is_leaving = false;
    while !group.endpoints[0].agent().is_done() {
        assert!(clock.now() < PATIENCE, "{:?}", registrar.heard);
        group.turn(clock, clock.now() + Duration::from_millis(1));
        registrar.turn();
        let agent = group.endpoints[0].agent_mut();
        if !is_leaving && agent.turned() == PHONES && agent.in_progress() == 0 {
            agent.leave(clock.now());
            is_leaving = true;
        }
    }
    let endpoint = &group.endpoints[0];
    assert_eq!(registrar.heard, [2; PHONES as usize]);
    assert_eq!(
        (endpoint.agent().stats().failures(), endpoint.lost()),
        (0, 0)
    );
    let streams = endpoint.streams().unwrap();
    assert_eq!(streams.counters().established, u64::from(PHONES));
    assert_eq!(streams.closed().map(|(_, count)| count).sum::<u64>(), 0);
}
