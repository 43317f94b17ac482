//! What workers leave to each other, and other threads to them.

use std::{sync::Arc, time::Duration};

use node::Input;
use socket::udp::BATCH;

use super::{READS, Worker};
use crate::streams::tell_unsent;

impl Worker {
    /// Writes what other workers have for this one's connections, at most a batch.
    pub(super) fn read_messages(&mut self, now: Duration) {
        let team = Arc::clone(&self.team);
        let mailbox = &team.seats[self.number].mailbox;
        if !mailbox.has_messages() {
            return;
        }
        self.on_streams(now, |streams, ground| {
            for _ in 0..BATCH {
                let Some((flow, message)) = mailbox.next_message() else {
                    break;
                };
                if !streams.send(now, flow, &message) {
                    tell_unsent(ground, flow, &message);
                }
            }
            streams.settle(ground);
        });
    }

    /// Deals with what other threads have left: handovers as many as may be read of a socket, of all else a batch.
    pub(super) fn read_mail(&mut self, now: Duration) {
        self.read_messages(now);
        let mut at = now;
        for _ in 0..READS {
            if !self.read_handovers(at) {
                break;
            }
            self.flush(at);
            at = self.clock.now();
        }
        let team = Arc::clone(&self.team);
        let mailbox = &team.seats[self.number].mailbox;
        for _ in 0..BATCH {
            let Some((question, answer)) = mailbox.next_answer() else {
                break;
            };
            let input = Input::Answer { question, answer };
            self.node.handle_input(now, input, &mut self.out);
        }
        for _ in 0..BATCH {
            let Some(command) = mailbox.next_command() else {
                break;
            };
            // It may take the tap away.
            self.show_news();
            command(&mut self.node, now, &mut self.out);
        }
    }

    /// Takes over a batch of messages; whether there may be more.
    fn read_handovers(&mut self, now: Duration) -> bool {
        let mailbox = &self.team.seats[self.number].mailbox;
        for _ in 0..BATCH {
            let Some((came, handover)) = mailbox.next_handover() else {
                return false;
            };
            self.node.handle_handover_delay(now.saturating_sub(came));
            self.shared.took_over(self.number, handover.bytes.len());
            self.node
                .handle_input(now, Input::Handover(handover), &mut self.out);
        }
        true
    }

    /// Leaves to other workers what is theirs. They learn since when it has waited.
    pub(super) fn hand_over(&mut self, now: Duration) {
        let came = self.came.min(now);
        let mut known = None;
        for handover in self.out.handovers.drain(..) {
            let (owner, bytes) = (handover.worker, handover.bytes.len());
            let mailbox = &self.team.seats[owner].mailbox;
            // The upper half is for known hosts: strangers' messages leave room to theirs, however many there are.
            let is_half_full = mailbox.is_half_full() || self.shared.is_half_handed_over(owner);
            let may_wait = !is_half_full || {
                let known = known.get_or_insert_with(|| self.shared.snapshot());
                known.is_known(handover.flow.remote.ip())
            };
            if !may_wait || !self.shared.may_hand_over(owner, bytes) {
                self.shared.count_handover_dropped(self.number, now);
            } else if !mailbox.hand_over(came, handover) {
                self.shared.took_over(owner, bytes);
                self.shared.count_handover_dropped(self.number, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use node::{
        Answer, Ask, Flow, Handover, Named, Shared, Transport,
        config::{Destination, Listener, Mode, Registrar, Route, WhenFull},
        stats::Dropped,
    };
    use socket::Clock;

    use super::*;
    use crate::{
        answerer::{Answerer, Reply},
        fixtures::config_of,
        seat::{Seat, Team},
        streams::Security,
    };

    const QUEUE: usize = 1_000;
    const STRANGER: [u8; 4] = [192, 0, 2, 1];
    const PEER: [u8; 4] = [198, 51, 100, 1];
    const HOUR: Duration = Duration::from_secs(3600);

    const REGISTER: &str = "REGISTER sip:test SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nMax-Forwards: 70\r\n\
        From: <sip:a@test>;tag=1\r\nTo: <sip:a@test>\r\nCall-ID: 4\r\nCSeq: 1 REGISTER\r\nContact: <sip:a@192.0.2.1>\r\n\
        Content-Length: 0\r\n\r\n";

    /// Counts what it is asked.
    #[derive(Default)]
    struct Silent(AtomicUsize);

    impl Answerer for Silent {
        fn answer(&self, _: Ask, _: Reply) -> Option<Answer> {
            self.0.fetch_add(1, Relaxed);
            None
        }

        fn is_often_later(&self) -> bool {
            true
        }
    }

    /// The first of two workers, who have no sockets.
    fn worker() -> Worker {
        worker_with(Arc::default())
    }

    fn worker_with(answerer: Arc<Silent>) -> Worker {
        let mut config = config_of(vec![Listener {
            transport: Transport::Udp,
            address: ([127, 0, 0, 1], 5060).into(),
            advertise: "127.0.0.1:5060".to_owned(),
        }]);
        config.limits.handover_queue = QUEUE;
        let peer = std::net::IpAddr::from(PEER);
        config.trust.peers = vec![peer.into()];
        config.registrar = Some(Registrar {
            domains: vec!["test".to_owned()],
            expires_min: HOUR,
            expires_default: HOUR,
            expires_max: HOUR,
            contacts_max: 1,
            when_full: WhenFull::Refuse,
            algorithms: Vec::new(),
            service_route: Vec::new(),
            removes_dead: false,
            keep_alive: None,
        });
        config.routes = vec![Route::of_all(Destination::Registrar, Mode::Stateful)];
        let shared = Arc::new(Shared::new(config, 2).expect("it is valid"));
        let seat = || Seat::new(Vec::new(), Vec::new(), QUEUE, true);
        let team = Team {
            seats: vec![seat().expect("a seat"), seat().expect("a seat")],
            stopping: Default::default(),
            left: Default::default(),
            addresses: Vec::new(),
            security: Mutex::new(Arc::new(Security::default())),
            connections: Arc::default(),
            answerer: Some(answerer),
            witness: None,
            lanes: Default::default(),
        };
        Worker::new(0, Arc::new(team), shared, Clock::start(), 1, None)
    }

    /// Leaves so many messages of a host to the second worker; how many were dropped.
    fn leave(worker: &mut Worker, host: [u8; 4], count: usize, bytes: usize) -> u64 {
        let dropped = |worker: &Worker| worker.shared.workers()[0].dropped(Dropped::HandoverFull);
        let before = dropped(worker);
        let handover = || Handover {
            worker: 1,
            flow: Flow::udp(0, (host, 5060).into()),
            bytes: vec![b'x'; bytes].into(),
            named: None,
        };
        worker.out.handovers.extend((0..count).map(|_| handover()));
        worker.hand_over(Duration::ZERO);
        dropped(worker) - before
    }

    /// Strangers' messages filled the queue to a worker, and those of servers and peers were dropped.
    #[test]
    fn strangers_leave_half_of_the_queue_to_known_hosts() {
        let mut short = worker();
        assert_eq!(leave(&mut short, STRANGER, 2 * QUEUE, 100), 1_500);
        assert_eq!(leave(&mut short, PEER, QUEUE / 2, 100), 0);
        assert_eq!(leave(&mut short, PEER, 1, 100), 1);
        // The bytes of the queue have a limit, too.
        let mut long = worker();
        let strangers = QUEUE - leave(&mut long, STRANGER, QUEUE, 16_000) as usize;
        let peers = QUEUE - leave(&mut long, PEER, QUEUE, 16_000) as usize;
        assert!((125..=130).contains(&strangers), "{strangers}");
        assert!((125..=130).contains(&peers), "{peers}");
    }

    /// A worker read up to 512 messages of a socket in a turn, but took 64 of what others had read for it.
    #[test]
    fn a_turn_takes_over_as_much_as_it_reads_of_a_socket() {
        let mut worker = worker();
        leave(&mut worker, PEER, QUEUE, 100);
        worker.number = 1;
        worker.read_mail(Duration::ZERO);
        let left = std::iter::from_fn(|| worker.team.seats[1].mailbox.next_handover());
        assert_eq!(left.count(), QUEUE - READS * BATCH);
    }

    /// What a busy worker had to send went out between two batches, and what it had to ask the store was forgotten then. So phones
    /// that registered had no answer for three seconds, and the store was taken for one that stands still.
    #[test]
    fn what_is_to_be_asked_is_asked_after_each_batch() {
        let answerer = Arc::<Silent>::default();
        let mut worker = worker_with(Arc::clone(&answerer));
        worker.out.handovers.extend((0..2 * BATCH).map(|port| {
            Handover {
                worker: 0,
                flow: Flow::udp(0, (PEER, 5060).into()),
                bytes: REGISTER
                    .replace("z9hG4bK1", &format!("z9hG4bK{port}"))
                    .into_bytes()
                    .into(),
                named: Some(Named::Unasked),
            }
        }));
        worker.hand_over(Duration::ZERO);
        worker.read_mail(Duration::ZERO);
        worker.flush(Duration::ZERO);
        assert_eq!(answerer.0.load(Relaxed), 2 * BATCH);
    }
}
