//! Outages that others have had, replayed. experiments/outages/README.md tells of them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod site;

use std::{collections::VecDeque, time::Duration};

use common::s;
use load::Arrivals;
use sim::{Death, Pace};
use site::Site;

/// A node carries so many calls per second, of six messages each.
const CAPACITY: f64 = 200.0;
const SERVE: Duration = Duration::from_micros(833);
/// Phones of all users: their logins are ten seconds of work.
const PHONES: u32 = 6_000;
/// What happens happens from here on, for so long.
const BEGIN: u64 = 20;
const LASTS: u64 = 40;
/// When nothing may be left of it.
const END: u64 = 240;
const STEP: Duration = Duration::from_millis(100);
/// Users whose call fails try again after so many steps, four in five of them.
const REDIAL_AFTER: usize = 50;
const REDIALS: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outage {
    /// A host slows down, and its users flee to the second site.
    SlowHost,
    /// The store locks up.
    LockedStore,
    /// The node dies; when it is back, all phones register.
    Storm,
    /// All phones are made to register anew.
    Reregistration,
}

const ALL: [Outage; 4] = [
    Outage::SlowHost,
    Outage::LockedStore,
    Outage::Storm,
    Outage::Reregistration,
];

/// What an outage has cost.
#[derive(Debug)]
struct Report {
    /// The least that was carried in ten seconds while the cause lasted, of the calls that began.
    least: f64,
    /// The mean of it.
    mean: f64,
    /// Seconds from the end of the cause until all that is offered is carried, for good; none: never.
    healed: Option<u64>,
    /// Seconds from the end of the cause until all phones had registered; none: never.
    registered: Option<u64>,
}

struct Replay {
    outage: Outage,
    site: Site,
    /// Callers who try again, by node.
    again: Vec<usize>,
    /// How many will try again, step by step, by node.
    redials: VecDeque<[f64; 2]>,
    /// What was carried, second by second, and how many calls began. Who tries again is not counted anew.
    carried: Vec<(f64, f64)>,
    registered: Option<u64>,
}

impl Replay {
    fn new(outage: Outage, is_controlled: bool, seed: u64) -> Self {
        let nodes = if outage == Outage::SlowHost { 2 } else { 1 };
        let pace = Pace {
            tells_overload: is_controlled,
            ..Pace::of(SERVE)
        };
        let mut site = Site::of(nodes, pace, seed, PHONES);
        for node in 0..nodes {
            site.call_at(node, Arrivals::poisson(0.5 * CAPACITY), u64::MAX);
        }
        let again = (0..nodes).map(|node| site.call_at(node, Arrivals::Window(0), u64::MAX));
        let again = again.collect();
        if outage == Outage::LockedStore {
            site.register(20.0);
        }
        Self {
            outage,
            site,
            again,
            redials: VecDeque::from([[0.0; 2]; REDIAL_AFTER]),
            carried: Vec::new(),
            registered: None,
        }
    }

    fn run(mut self) -> Report {
        for second in 0..END {
            if second == BEGIN {
                self.begin();
            }
            if second == BEGIN + LASTS {
                self.end();
            }
            let steps: Vec<(f64, f64)> = (0..10).map(|_| self.step()).collect();
            let carried = steps.iter().map(|step| step.0).sum();
            let began: f64 = steps.iter().map(|step| step.1).sum();
            let is_dead = self.outage == Outage::Storm && (BEGIN..BEGIN + LASTS).contains(&second);
            self.carried
                .push((carried, if is_dead { 0.0 } else { began }));
            if self.registered.is_none() && self.site.registered() == PHONES as usize {
                self.registered = Some(second.saturating_sub(BEGIN + LASTS));
            }
        }
        self.report()
    }

    fn begin(&mut self) {
        let (now, node) = (self.site.world.now(), self.site.nodes[0]);
        match self.outage {
            Outage::SlowHost => self.site.world.edge_mut(node).set_speed(0.2),
            Outage::LockedStore => self.site.store.lock(now + s(LASTS)),
            Outage::Storm => self.site.world.crash(node, Death::Machine, &mut ()),
            Outage::Reregistration => self.site.register(f64::from(PHONES) / 5.0),
        }
    }

    fn end(&mut self) {
        let node = self.site.nodes[0];
        match self.outage {
            Outage::SlowHost => self.site.world.edge_mut(node).set_speed(1.0),
            Outage::LockedStore => self.site.register(f64::from(PHONES) / 5.0),
            Outage::Storm => {
                self.site.world.restart(node, &mut ()).unwrap();
                self.site.register(f64::from(PHONES) / 5.0);
            }
            Outage::Reregistration => {}
        }
    }

    /// Runs a step, and has those try again whose calls have failed. From a host that is slow they flee.
    /// Returns what was carried, and how many calls began.
    fn step(&mut self) -> (f64, f64) {
        let due = self.redials.pop_front().unwrap_or_default();
        let now = self.site.world.now();
        for (&again, calls) in self.again.iter().zip(due) {
            let caller = self.site.callers[again];
            let rate = calls / STEP.as_secs_f64();
            let arrivals = if rate > 0.0 {
                Arrivals::poisson(rate)
            } else {
                Arrivals::Window(0)
            };
            self.site
                .world
                .caller_mut(caller)
                .set_arrivals(now, arrivals);
        }
        self.site.world.run_until(now + STEP, &mut ());
        let nodes = self.site.nodes.len();
        let (mut carried, mut began, mut failed) = (0.0, 0.0, [0.0; 2]);
        for (index, &caller) in self.site.callers.iter().enumerate() {
            let stats = self.site.world.caller_mut(caller).stats_mut().take();
            carried += stats.carried as f64;
            if index < nodes {
                began += stats.offered as f64;
            }
            failed[nodes - 1 - index % nodes] += stats.failures() as f64 * REDIALS;
        }
        self.redials.push_back(failed);
        (carried, began)
    }

    fn report(self) -> Report {
        let share = |seconds: &[(f64, f64)]| {
            let [carried, could] = [0, 1].map(|part| {
                let parts = seconds
                    .iter()
                    .map(|both| if part == 0 { both.0 } else { both.1 });
                parts.sum::<f64>()
            });
            if could > 0.0 { carried / could } else { 1.0 }
        };
        let [begin, end] = [BEGIN, BEGIN + LASTS].map(|second| second as usize);
        let during = &self.carried[begin..end];
        let shares = during.windows(10).map(share);
        // A call that begins at the end of a second may be carried in the next.
        let is_bad = |window: &[(f64, f64)]| share(window) < 0.95;
        let after = &self.carried[end..];
        let last_bad = after.windows(2).rposition(is_bad);
        let healed = match last_bad {
            None => Some(0),
            Some(last) if last + 10 < after.len() => Some(last as u64 + 1),
            Some(_) => None,
        };
        Report {
            least: shares.fold(1.0, f64::min),
            mean: share(during),
            healed,
            registered: self.registered,
        }
    }
}

#[test]
fn full_service_is_back_after_each_outage() {
    for outage in ALL {
        let report = Replay::new(outage, true, 1).run();
        assert!(report.healed.is_some(), "{outage:?}: {report:?}");
        let is_phones = outage != Outage::SlowHost;
        assert!(
            !is_phones || report.registered.is_some(),
            "{outage:?}: {report:?}"
        );
        let least = if outage == Outage::SlowHost {
            0.6
        } else {
            0.92
        };
        assert!(report.least > least, "{outage:?}: {report:?}");
    }
}

/// Seeds of the replays without control.
const UNCONTROLLED: u64 = 20;

/// `SEEDS=30 cargo test --release -p sim --test outages -- --ignored --nocapture`
#[test]
#[ignore = "it prints what outages cost"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn costs() {
    let seeds: u64 = std::env::var("SEEDS").map_or(2, |seeds| seeds.parse().unwrap());
    println!(
        "outage, controlled: least and mean share carried; seconds until healed and until all have registered: median, \
         worst"
    );
    std::thread::scope(|scope| {
        for outage in ALL {
            for is_controlled in [true, false] {
                let seeds = if is_controlled {
                    seeds
                } else {
                    seeds.min(UNCONTROLLED)
                };
                scope.spawn(move || println!("{}", costs_of(outage, is_controlled, seeds)));
            }
        }
    });
}

fn costs_of(outage: Outage, is_controlled: bool, seeds: u64) -> String {
    let replays = (1..=seeds).map(|seed| Replay::new(outage, is_controlled, seed));
    let reports: Vec<Report> = replays.map(Replay::run).collect();
    let shares = reports.iter().map(|report| report.least);
    let least = shares.fold(1.0, f64::min);
    let mean = reports.iter().map(|report| report.mean).sum::<f64>() / seeds as f64;
    let took = |of: fn(&Report) -> Option<u64>| {
        let mut seconds: Vec<u64> = reports.iter().filter_map(of).collect();
        seconds.sort_unstable();
        let never = reports.len() - seconds.len();
        let median = seconds.get(seconds.len() / 2);
        format!("{median:?}, {:?}, never {never}", seconds.last())
    };
    format!(
        "{outage:?}, {is_controlled}, {seeds} seeds: {least:.3} {mean:.3}; healed {}; registered {}",
        took(|report| report.healed),
        took(|report| report.registered)
    )
}
