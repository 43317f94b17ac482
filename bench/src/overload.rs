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
    run::{Point, Span, kept_busy, offered},
    subject::Work,
};
use self::{run::Capacity, step::Step, subject::Subject};

/// The node's share of its core.
const SHARE: f64 = 0.1;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    multiples: &'static [f64],
    /// Those that Kamailio is tried with.
    few: &'static [f64],
    registers: &'static [f64],
    /// How long the capacity is measured, at either end.
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
    /// Before everything else, and after it.
    capacities: [Capacity; 2],
    points: Vec<Point>,
    step: Step,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        multiples: &[0.8, 1.0, 2.0, 5.0, 10.0, 12.5],
        few: &[2.0, 5.0, 10.0],
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

impl Outcome {
    /// The mean of what was measured before and after, per second.
    fn capacity_per_s(&self) -> f64 {
        let [before, after] = &self.capacities;
        (before.per_s + after.per_s) / 2.0
    }
}

/// Measures the subjects whose names hold `only`.
pub(crate) fn measure(effort: Effort, only: Option<&str>) -> io::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for subject in Subject::ALL {
        if only.is_some_and(|only| !subject.title().contains(only)) {
            continue;
        }
        if let Some(reason) = subject.missing() {
            println!("{}: left out, {reason}", subject.title());
            continue;
        }
        outcomes.push(measure_subject(subject, effort)?);
    }
    Ok(outcomes)
}

fn measure_subject(subject: Subject, effort: Effort) -> io::Result<Outcome> {
    println!("{}", subject.title());
    let before = run::capacity(subject, effort)?;
    println!("  {before:?}");
    let mut points = Vec::new();
    let multiples = match subject {
        Subject::Stateless | Subject::Stateful | Subject::LookUp => effort.multiples,
        // More REGISTERs than that are too many for the load's core.
        Subject::Registrar => effort.registers,
        Subject::Kamailio | Subject::KamailioLimited => effort.few,
    };
    for &multiple in multiples {
        let point = run::point(subject, multiple, before.per_s, effort)?;
        println!("  {point:?}");
        points.push(point);
    }
    let step = step::measure(subject, before.per_s, effort)?;
    println!("  {}", step.told(before.per_s));
    let after = run::capacity(subject, effort)?;
    println!("  {after:?}");
    Ok(Outcome {
        subject,
        capacities: [before, after],
        points,
        step,
    })
}
