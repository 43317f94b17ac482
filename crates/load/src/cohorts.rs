use std::{collections::BTreeMap, time::Duration};

use crate::stats::Failure;

/// The calls or registrations that began in one interval, and what has become of them so far.
#[derive(Clone, Debug, Default)]
pub struct Cohort {
    /// Those that began.
    pub offered: u64,
    /// From each one's scheduled time to the 2xx of its INVITE or REGISTER, in the order of the answers.
    pub answers: Vec<Duration>,
    /// Calls that were answered and ended as planned; registrations that were granted.
    pub carried: u64,
    /// Failures by reason.
    pub failed: BTreeMap<Failure, u64>,
}

/// All intervals, in their order.
#[derive(Debug, Default)]
pub(crate) struct Cohorts(Vec<Cohort>);

/// Which cohort a call belongs to. Those that begin before the first belong to none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Member(u32);

impl Cohorts {
    /// Who begins from here on belongs to a new cohort.
    pub(crate) fn begin(&mut self) {
        self.0.push(Cohort::default());
    }

    pub(crate) fn all(&self) -> &[Cohort] {
        &self.0
    }

    /// Counts one that begins.
    pub(crate) fn join(&mut self) -> Member {
        if let Some(last) = self.0.last_mut() {
            last.offered += 1;
        }
        Member(u32::try_from(self.0.len()).expect("fewer than 2^32 cohorts begin"))
    }

    pub(crate) fn answer(&mut self, member: Member, elapsed: Duration) {
        if let Some(cohort) = self.of(member) {
            cohort.answers.push(elapsed);
        }
    }

    pub(crate) fn carry(&mut self, member: Member) {
        if let Some(cohort) = self.of(member) {
            cohort.carried += 1;
        }
    }

    pub(crate) fn fail(&mut self, member: Member, failure: Failure) {
        if let Some(cohort) = self.of(member) {
            *cohort.failed.entry(failure).or_default() += 1;
        }
    }

    fn of(&mut self, member: Member) -> Option<&mut Cohort> {
        self.0.get_mut((member.0 as usize).checked_sub(1)?)
    }
}
