//! The load steps from half of the capacity to ten times of it, and back.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    Effort,
    run::{Capacity, Scene, refused},
    subject::Subject,
};

/// Multiples of the capacity.
pub(super) const LOW: f64 = 0.5;
pub(super) const HIGH: f64 = 10.0;

/// The width of a bin.
const BIN: Duration = Duration::from_millis(100);

/// Bins over which what is carried is averaged: a second.
const SECOND: usize = 10;

/// How long the load goes on, so that calls of the last bins can end.
const TAIL: Duration = Duration::from_secs(2);

/// Of the capacity, while more than it is offered.
const NEARLY_ALL: f64 = 0.95;

/// Of the calls, while less than the capacity is offered.
const ALL: f64 = 0.999;

/// What happened in each tenth of a second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Bins before, in and after the time of [`HIGH`].
    lengths: [usize; 3],
    pub bins: Vec<Bin>,
    /// The capacity after the step up, per second.
    pub capacity_per_s: f64,
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Bin {
    /// Calls or REGISTERs that began in it.
    offered: u64,
    /// Those of them that were carried in the end.
    carried: u64,
    /// Those of them that got a 503.
    refused: u64,
    /// 2xx to INVITEs or REGISTERs that came in it, whenever they began.
    answered: u64,
}

/// Steps up and down before a new node.
pub(super) fn measure(
    subject: Subject,
    alone: Option<&Capacity>,
    effort: Effort,
) -> io::Result<Step> {
    let (mut scene, capacity) = Scene::compared(subject, alone, effort)?;
    let Scene { crowd, node, .. } = &mut scene;
    let lengths = effort.step_s.map(|seconds| seconds * SECOND);
    crowd.offer(node.address(), LOW * capacity.per_s);
    crowd.run(effort.warm_up);
    let mut beside_per_s = 0.0;
    let mut answers = Vec::new();
    let mut end = crowd.now();
    for (multiple, bins) in [LOW, HIGH, LOW].into_iter().zip(lengths) {
        crowd.change_rate(multiple * capacity.per_s);
        let (began, beside) = (crowd.now(), crowd.carried_beside());
        for _ in 0..bins {
            let before = crowd.answered();
            crowd.begin_cohort();
            end += BIN;
            crowd.run_to(end);
            answers.push(crowd.answered() - before);
        }
        if multiple == HIGH {
            let carried = crowd.carried_beside() - beside;
            beside_per_s = carried as f64 / (crowd.now() - began).as_secs_f64();
        }
    }
    crowd.begin_cohort();
    crowd.run(TAIL);
    let bin = |(cohort, answered): (&load::Cohort, u64)| Bin {
        offered: cohort.offered,
        carried: cohort.carried,
        refused: refused(cohort),
        answered,
    };
    Ok(Step {
        lengths,
        bins: crowd.cohorts().iter().zip(answers).map(bin).collect(),
        capacity_per_s: capacity.while_beside(beside_per_s),
    })
}

impl Step {
    fn high(&self) -> &[Bin] {
        let [before, high, _] = self.lengths;
        &self.bins[before..before + high]
    }

    fn after(&self) -> &[Bin] {
        let [before, high, _] = self.lengths;
        &self.bins[before + high..]
    }

    /// From the step up until the node carries nearly its capacity in a second.
    pub(super) fn rise_s(&self) -> Option<f64> {
        let nearly_all = NEARLY_ALL * self.capacity_per_s;
        let mut seconds = self.high().windows(SECOND);
        let place = seconds.position(|bins| carried_per_s(bins) >= nearly_all)?;
        Some(seconds_of(place))
    }

    /// What is carried from the second second after the step up on, of the capacity.
    pub(super) fn held(&self) -> f64 {
        carried_per_s(&self.high()[SECOND..]) / self.capacity_per_s
    }

    /// From the step down until all that begins is carried, for a second and to the end.
    pub(super) fn recovery_s(&self) -> Option<f64> {
        let after = self.after();
        let is_full = |place: &usize| {
            let rest = &after[*place..];
            let [offered, carried] = [|bin: &Bin| bin.offered, |bin: &Bin| bin.carried]
                .map(|figure| rest.iter().map(figure).sum::<u64>() as f64);
            carried >= ALL * offered
        };
        let last = after.len().saturating_sub(SECOND);
        (0..=last).find(is_full).map(seconds_of)
    }

    /// The figures in a line.
    pub(super) fn told(&self) -> String {
        let (rise, held, recovery) = (self.rise_s(), self.held(), self.recovery_s());
        format!("step: rise {rise:?} s, holds {held:.2} of the capacity, recovery {recovery:?} s")
    }

    /// Seconds from the step up, and what a bin's figure amounts to in a second.
    pub(super) fn curve(&self, figure: fn(&Bin) -> u64) -> impl Iterator<Item = (f64, f64)> {
        let before = seconds_of(self.lengths[0]);
        let per_s = move |bin| figure(bin) as f64 / BIN.as_secs_f64();
        let points = self.bins.iter().map(per_s).enumerate();
        points.map(move |(place, per_s)| (seconds_of(place) - before, per_s))
    }
}

impl Bin {
    pub(super) fn carried(&self) -> u64 {
        self.carried
    }

    pub(super) fn answered(&self) -> u64 {
        self.answered
    }
}

/// The less of the calls that began in these bins and were carried, and of the 2xx in them: a call whose BYE is lost is
/// not carried, and one that is answered when the load is gone is none of theirs.
fn carried_per_s(bins: &[Bin]) -> f64 {
    let sum = |figure: fn(&Bin) -> u64| bins.iter().map(figure).sum::<u64>();
    let carried = sum(|bin| bin.carried).min(sum(|bin| bin.answered));
    carried as f64 / seconds_of(bins.len())
}

fn seconds_of(bins: usize) -> f64 {
    bins as f64 / SECOND as f64
}
