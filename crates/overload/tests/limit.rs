//! What is learned of servers that hold up, slow down, stall, or are slow by nature. All on virtual time.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    time::Duration,
};

use overload::{Limit, Wait};

/// A server that serves so many at a time, each in so long, and those who send to it.
struct Server {
    limit: Limit,
    now: Duration,
    at_once: usize,
    service: Duration,
    waiting: VecDeque<(Duration, Wait)>,
    /// By when they are served, and by number.
    serving: BTreeMap<(Duration, u32), (Duration, Wait)>,
    number: u32,
    stalled_until: Duration,
    /// Who has waited for longer is refused.
    refuses_after: Duration,
    /// Time between two requests.
    every: Duration,
    next: Duration,
}

/// What a run has seen.
#[derive(Debug, Default)]
struct Seen {
    offered: u32,
    sent: u32,
    answered: u32,
    slowest: Duration,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn per_s(rate: f64) -> Duration {
    Duration::from_secs_f64(1.0 / rate)
}

impl Server {
    fn new(at_once: usize, service: Duration) -> Self {
        Self {
            limit: Limit::default(),
            now: Duration::ZERO,
            at_once,
            service,
            waiting: VecDeque::new(),
            serving: BTreeMap::new(),
            number: 0,
            stalled_until: Duration::ZERO,
            refuses_after: Duration::MAX,
            every: per_s(1.0),
            next: Duration::ZERO,
        }
    }

    fn run(&mut self, rate: f64, time: Duration) -> Seen {
        let (end, mut seen) = (self.now + time, Seen::default());
        self.every = per_s(rate);
        self.next = self.now;
        while self.now < end {
            let done = self.serving.first_key_value().map(|(&(at, _), _)| at);
            let done = done.map(|at| at.max(self.stalled_until));
            self.now = done.map_or(self.next, |done| done.min(self.next));
            if done == Some(self.now) {
                self.finish(&mut seen);
            } else {
                self.next += self.every;
                seen.offered += 1;
                if self.limit.has_room(self.now) {
                    let wait = self.limit.begin(self.now, false);
                    self.waiting.push_back((self.now, wait));
                    seen.sent += 1;
                }
            }
            while self.serving.len() < self.at_once
                && let Some(waiting) = self.waiting.pop_front()
            {
                let done = self.now.max(self.stalled_until) + self.service;
                self.number += 1;
                self.serving.insert((done, self.number), waiting);
            }
        }
        seen
    }

    fn finish(&mut self, seen: &mut Seen) {
        if let Some((_, (sent, wait))) = self.serving.pop_first() {
            let after = self.now - sent;
            match after > self.refuses_after {
                true => self.limit.refused(self.now, Duration::ZERO, wait),
                false => self.limit.answered(self.now, Duration::ZERO, wait),
            }
            seen.answered += 1;
            seen.slowest = seen.slowest.max(after);
        }
    }

    /// What it can serve in a second.
    fn capacity(&self) -> f64 {
        self.at_once as f64 / self.service.as_secs_f64()
    }
}

#[test]
fn below_its_capacity_a_server_has_no_limit() {
    for (at_once, service) in [
        (1, 1),
        (1, 10),
        (4, 50),
        (64, 300),
        (2_000, 2_000),
        (1, 400),
    ] {
        let mut server = Server::new(at_once, ms(service));
        for share in [0.1, 0.5, 0.9, 0.2, 0.95] {
            let seen = server.run(share * server.capacity(), ms(20_000));
            assert_eq!(seen.sent, seen.offered, "{at_once} x {service} ms, {share}");
        }
        assert_eq!(server.limit.get(server.now), None);
    }
}

/// It carries what comes, however much that is.
#[test]
fn a_server_that_is_slow_by_nature_is_not_limited() {
    let mut server = Server::new(usize::MAX, ms(2_000));
    for rate in [10.0, 1_000.0, 50.0, 3_000.0] {
        let seen = server.run(rate, ms(20_000));
        assert_eq!(
            (seen.sent, server.limit.get(server.now)),
            (seen.offered, None),
            "{rate}"
        );
    }
}

#[test]
fn a_full_server_is_kept_busy_and_prompt() {
    for (at_once, service) in [(1, 1), (1, 10), (4, 50), (64, 300), (1, 100)] {
        for times in [1.2, 2.0, 5.0, 20.0] {
            let mut server = Server::new(at_once, ms(service));
            let capacity = server.capacity();
            server.run(0.5 * capacity, ms(5_000));
            // What is sent until the first slow answers come has to be served, too.
            server.run(times * capacity, ms(service * 400).max(ms(10_000)));
            let seen = server.run(times * capacity, ms(20_000));
            let goodput = f64::from(seen.answered) / 20.0 / capacity;
            let name = format!("{at_once} x {service} ms, {times}: {goodput} {seen:?}");
            assert!(goodput > 0.97, "{name}");
            assert!(seen.slowest < ms(250).max(4 * ms(service)), "{name}");
        }
    }
}

/// A least time that is taken while a server is full makes others take that for its nature, for ever.
#[test]
fn who_first_meets_a_full_server_learns_what_it_can() {
    let mut server = Server::new(1, ms(10));
    let now = Duration::ZERO;
    server
        .waiting
        .extend((0..300).map(|_| (now, server.limit.begin(now, false))));
    server.run(200.0, ms(20_000));
    let seen = server.run(200.0, ms(10_000));
    assert!(seen.slowest < ms(300) && seen.answered > 970, "{seen:?}");
}

#[test]
fn the_limit_follows_a_capacity_that_halves_and_doubles() {
    let mut server = Server::new(1, ms(4));
    server.run(500.0, ms(10_000));
    for (service, name) in [
        (8, "halved"),
        (4, "doubled"),
        (16, "a quarter"),
        (2, "eight times"),
    ] {
        server.service = ms(service);
        server.run(1_000.0, ms(1_000));
        let seen = server.run(1_000.0, ms(5_000));
        let goodput = f64::from(seen.answered) / 5.0 / server.capacity();
        assert!(
            goodput > 0.95 && seen.slowest < ms(300),
            "{name}: {goodput} {seen:?}"
        );
    }
    // The overload is over.
    server.run(100.0, ms(2_000));
    assert_eq!(server.limit.get(server.now), None);
}

#[test]
fn a_stalled_server_gets_next_to_nothing_and_is_back_within_a_second() {
    let mut server = Server::new(1, ms(2));
    server.run(250.0, ms(10_000));
    server.stalled_until = server.now + ms(5_000);
    server.run(250.0, ms(1_000));
    assert!(server.limit.get(server.now).is_some(), "{:?}", server.limit);
    let seen = server.run(250.0, ms(4_000));
    assert!(seen.sent < 50, "{seen:?}");
    server.run(250.0, ms(1_000));
    let seen = server.run(250.0, ms(5_000));
    assert_eq!(seen.sent, seen.offered);
}

/// Answers of an overload were looked at when the next call came, half an hour later: a server that had been well since then was
/// taken for full, and its third call at a time was refused.
#[test]
fn what_was_slow_long_ago_limits_nobody() {
    let mut server = Server::new(1, ms(30));
    server.run(100.0, ms(2_050));
    assert!(server.limit.get(server.now).is_some());
    let serving = mem::take(&mut server.serving).into_values();
    for (_, wait) in serving.chain(server.waiting.drain(..)) {
        server.now += ms(30);
        server.limit.answered(server.now, Duration::ZERO, wait);
    }
    server.now += Duration::from_secs(1_800);
    assert!(server.limit.has_room(server.now));
    assert_eq!(server.limit.get(server.now), None);
}

/// Refusals told nothing, so a server that let requests wait and refused them late got too many for longer.
#[test]
fn who_refuses_late_is_limited_as_who_answers_late() {
    let mut limits = Vec::new();
    for refuses_after in [Duration::MAX, ms(200)] {
        let mut server = Server::new(1, ms(10));
        server.refuses_after = refuses_after;
        server.run(50.0, ms(5_000));
        server.run(500.0, ms(800));
        limits.push(server.limit.get(server.now));
    }
    assert!(limits[0].is_some() && limits[0] == limits[1], "{limits:?}");
}

/// What waited over a stream for half a second was taken for lost, so others were sent to a server that was full: of 500
/// senders it carried 62 % of what it can.
#[test]
fn what_a_stream_has_taken_keeps_its_place() {
    for (is_reliable, left) in [(false, 1), (true, 11)] {
        let limit = Limit::default();
        let early: Vec<_> = (0..10).map(|_| limit.begin(ms(0), is_reliable)).collect();
        let [later, last] = [800, 810].map(|at| limit.begin(ms(at), is_reliable));
        assert_eq!(limit.waiting(), 12);
        limit.answered(ms(820), Duration::ZERO, later);
        assert_eq!(limit.waiting(), left);
        early.into_iter().chain([last]).for_each(|it| limit.end(it));
        assert_eq!(limit.waiting(), 0);
    }
}
