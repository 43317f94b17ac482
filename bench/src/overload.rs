//! What a node completes when callers offer it a multiple of what it can.
//!
//! A CFS quota holds the node to a tenth of a core, so that the load's core can offer 12.5 times of what it carries.
//! Callers and phones send again as RFC 3261 has it, and do not wait for one another.

mod cage;
mod crowd;
mod page;
mod run;
mod step;
mod subject;

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    cage::Cage,
    crowd::Crowd,
    page::page,
    run::{Capacity, Held, Span, kept_busy, offered, put_beside},
    subject::{Subject, Work},
};
use self::{run::Point, step::Step};
use crate::{process::keep_awake, subject::CORE};

/// The node's share of its core.
const SHARE: f64 = 0.1;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    multiples: &'static [f64],
    /// Those that Kamailio is tried with.
    few: &'static [f64],
    registers: &'static [f64],
    /// How long the capacity is measured, before and after each point.
    capacity: Duration,
    /// Load before the calls that count: after 5 s there are their fourth transmissions, too.
    warm_up: Duration,
    measured: Duration,
    /// Seconds before, in and after the time of [`step::HIGH`].
    step_s: [usize; 3],
}

/// All about one subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    subject: Subject,
    rounds: Vec<Round>,
}

/// Each point once, and the step.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    capacities: Vec<Capacity>,
    points: Vec<At>,
    step: Step,
}

/// A point, and the capacity at that time.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct At {
    point: Point,
    capacity_per_s: f64,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        multiples: &[0.8, 1.0, 2.0, 5.0, 10.0, 12.5],
        few: &[2.0, 5.0, 10.0, 12.5],
        registers: &[0.8, 2.0, 5.0],
        capacity: Duration::from_secs(3),
        warm_up: Duration::from_secs(5),
        measured: Duration::from_secs(10),
        step_s: [1, 10, 5],
    };
    pub(crate) const QUICK: Self = Self {
        multiples: &[0.8, 2.0, 10.0],
        few: &[2.0, 10.0],
        registers: &[2.0, 5.0],
        capacity: Duration::from_secs(2),
        warm_up: Duration::from_secs(2),
        measured: Duration::from_secs(3),
        step_s: [2, 4, 4],
    };
}

impl Round {
    fn new(subject: Subject, effort: Effort) -> io::Result<Self> {
        let multiples = match subject {
            Subject::Stateless | Subject::Stateful | Subject::LookUp => effort.multiples,
            // More REGISTERs than that are too many for the load's core.
            Subject::Registrar => effort.registers,
            Subject::Kamailio | Subject::KamailioLimited => effort.few,
        };
        let mut alone = match subject.is_compared() {
            true => None,
            false => Some(run::capacity(subject, effort)?),
        };
        let mut capacities = Vec::new();
        let mut points = Vec::new();
        for &multiple in multiples {
            let (point, before) = run::point(subject, multiple, alone.as_ref(), effort)?;
            let capacity_per_s = match &mut alone {
                None => before.while_beside(point.beside_per_s),
                Some(after) => {
                    *after = run::capacity(subject, effort)?;
                    f64::midpoint(before.per_s, after.per_s)
                }
            };
            println!("  {before:?}, then {capacity_per_s:.0}: {point:?}");
            capacities.push(before);
            points.push(At {
                point,
                capacity_per_s,
            });
        }
        let step = step::measure(subject, alone.as_ref(), effort)?;
        println!("  {}", step.told());
        Ok(Self {
            capacities,
            points,
            step,
        })
    }
}

/// Measures the subjects whose names hold `only`, so many times. The rounds of a subject are not in a row.
pub(crate) fn measure(effort: Effort, rounds: u32, only: Option<&str>) -> io::Result<Vec<Outcome>> {
    let mut outcomes = subjects(only);
    let _awake = keep_awake(CORE)?;
    for round in 1..=rounds {
        for outcome in &mut outcomes {
            println!("{}, round {round} of {rounds}", outcome.subject.title());
            outcome.rounds.push(Round::new(outcome.subject, effort)?);
        }
    }
    Ok(outcomes)
}

/// Those that can be measured here.
fn subjects(only: Option<&str>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for subject in Subject::ALL {
        if only.is_some_and(|only| !subject.title().contains(only)) {
            continue;
        }
        match subject.missing() {
            Some(reason) => println!("{}: left out, {reason}", subject.title()),
            None => outcomes.push(Outcome {
                subject,
                rounds: Vec::new(),
            }),
        }
    }
    outcomes
}
