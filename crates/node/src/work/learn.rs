//! Costs and speeds learned from live traffic.
//!
//! A request that met a server with nothing else to do was answered in its service time. The time
//! to the first response past 100 counts: a 100 comes before the work, a 200 after the ringing. Of
//! such times, the longest left out for the sake of servers that stop now and then, follow what
//! each method costs and how fast each server is.

use std::time::Duration;

use crate::{
    context::Context, member::Member, service_times::LABELS, snapshot::PoolView, stats::MethodLabel,
};

/// Time between two looks at what was measured.
const PERIOD: Duration = Duration::from_secs(1);

/// What differs by less is chance: a cost, as a factor.
const COST_GRAIN: f64 = 1.1;
/// The same of a capacity: small differences would only spoil that equal servers look equal.
const CAPACITY_GRAIN: f64 = 1.2;

/// No cost is learned beyond this, or below its inverse.
const COST_MAX: f64 = 100.0;
/// No capacity is learned beyond so many times the pool's mean, or below that part of it.
const CAPACITY_MAX: f64 = 64.0;

/// The methods that each label stands for, where they have a cost.
const METHODS: [(MethodLabel, &[&str]); 7] = [
    (MethodLabel::Invite, &["INVITE"]),
    (MethodLabel::Bye, &["BYE"]),
    (MethodLabel::Register, &["REGISTER"]),
    (MethodLabel::Options, &["OPTIONS"]),
    (MethodLabel::Message, &["MESSAGE"]),
    (
        MethodLabel::Event,
        &["SUBSCRIBE", "NOTIFY", "PUBLISH", "REFER"],
    ),
    (MethodLabel::Other, &["INFO", "UPDATE", "PRACK"]),
];

/// Learns once a second from what all workers have measured.
#[derive(Debug)]
pub(crate) struct Learner {
    /// Only the first worker learns.
    is_learner: bool,
    due: Duration,
}

impl Learner {
    pub(crate) fn new(is_learner: bool, now: Duration) -> Self {
        Self {
            is_learner,
            due: now,
        }
    }

    /// Takes up what was learned, if it is time.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>) {
        if !self.is_learner || cx.now < self.due {
            return;
        }
        self.due = cx.now + PERIOD;
        for pool in cx.snapshot.pools() {
            if pool.config().learn_costs {
                learn_pool(cx, pool);
            }
        }
    }
}

fn learn_pool(cx: Context<'_>, pool: &PoolView) {
    let config = pool.config();
    let in_pool = |member: &&Member| member.pool == config.name && !member.server.is_removed();
    let members = cx.snapshot.members().iter().flatten().map(AsRef::as_ref);
    let members: Vec<&Member> = members.filter(in_pool).collect();
    let times: Vec<_> = members
        .iter()
        .map(|member| member.service.typical())
        .collect();
    let (works, speeds) = fit(&times);
    let known = config
        .servers
        .iter()
        .map(|server| server.capacity.ln())
        .sum::<f64>();
    let mean = (known / config.servers.len().max(1) as f64).exp();
    for (member, speed) in members.iter().zip(speeds) {
        if let Some(speed) = speed {
            let capacity = mean * speed.clamp(1.0 / CAPACITY_MAX, CAPACITY_MAX);
            let (low, high) = (balance::CAPACITY.start(), balance::CAPACITY.end());
            let is_news = differs(capacity, member.server.capacity(), CAPACITY_GRAIN);
            if is_news && !member.is_weighed() {
                member.server.set_capacity(capacity.clamp(*low, *high));
            }
        }
    }
    let costs = costs(&works, pool);
    let is_news =
        |(method, cost): &(String, f64)| differs(*cost, pool.known_cost(method), COST_GRAIN);
    if costs.iter().any(is_news) {
        cx.shared.set_costs(&config.name, costs);
    }
}

/// Whether the factor between two positive numbers is more than `grain`; zero differs from all.
fn differs(left: f64, right: f64, grain: f64) -> bool {
    let factor = left / right;
    !(factor < grain && factor > 1.0 / grain)
}

/// What each measured method costs. The scale is that of the BYE, or of the first that is known.
fn costs(works: &[Option<f64>; LABELS], pool: &PoolView) -> Vec<(String, f64)> {
    let work = |label: MethodLabel| works[label as usize];
    let mut by_scale = METHODS.iter().filter(|(label, _)| work(*label).is_some());
    let bye = by_scale
        .clone()
        .find(|(label, _)| *label == MethodLabel::Bye);
    let Some((scale, methods)) = bye.or_else(|| by_scale.next()) else {
        return Vec::new();
    };
    let unit = pool.known_cost(methods[0]) / work(*scale).unwrap_or(1.0);
    let cost = |(label, methods): &(MethodLabel, &'static [&'static str])| {
        let cost = (work(*label)? * unit).clamp(1.0 / COST_MAX, COST_MAX);
        Some(
            methods
                .iter()
                .map(move |method| ((*method).to_owned(), cost)),
        )
    };
    METHODS.iter().filter_map(cost).flatten().collect()
}

/// The work of each method and the speed of each server, by which their times are told best: time is
/// work over speed, so their logarithms are fitted in turn until nothing changes. The geometric mean
/// of the speeds is 1; what was not measured is unknown.
fn fit(times: &[[Option<f64>; LABELS]]) -> ([Option<f64>; LABELS], Vec<Option<f64>>) {
    const ROUNDS: usize = 50;
    let mut works = [None; LABELS];
    let mut speeds = vec![None; times.len()];
    for _ in 0..ROUNDS {
        for (label, work) in works.iter_mut().enumerate() {
            let rows = times.iter().zip(&speeds);
            *work =
                mean(rows.filter_map(|(row, speed)| Some(row[label]?.ln() + speed.unwrap_or(0.0))));
        }
        for (speed, row) in speeds.iter_mut().zip(times) {
            let cells = row.iter().zip(&works);
            *speed = mean(cells.filter_map(|(time, work)| Some((*work)? - (*time)?.ln())));
        }
    }
    let centre = mean(speeds.iter().copied().flatten()).unwrap_or(0.0);
    (
        works.map(|work| work.map(|work: f64| (work - centre).exp())),
        speeds
            .iter()
            .map(|speed| speed.map(|speed: f64| (speed - centre).exp()))
            .collect(),
    )
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = numbers.fold((0_u32, 0.0), |(count, sum), n| (count + 1, sum + n));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Option<f64>; LABELS] = [None; LABELS];

    fn row(invite: Option<f64>, bye: Option<f64>) -> [Option<f64>; LABELS] {
        let mut row = NONE;
        row[MethodLabel::Invite as usize] = invite;
        row[MethodLabel::Bye as usize] = bye;
        row
    }

    #[test]
    fn works_and_speeds_are_told_apart() {
        let check = |rows: &[[Option<f64>; LABELS]], ratio: f64, expected: &[Option<f64>]| {
            let (works, speeds) = fit(rows);
            let [invite, bye, ..] = works;
            let found = invite.unwrap() / bye.unwrap();
            assert!((found / ratio - 1.0).abs() < 1e-3, "{found}");
            for (found, expected) in speeds.iter().zip(expected) {
                let off = found.unwrap_or(0.0) - expected.unwrap_or(0.0);
                assert!(off.abs() < 1e-3, "{speeds:?}");
            }
        };
        check(
            &[row(Some(14.5), Some(8.3)); 3],
            14.5 / 8.3,
            &[Some(1.0); 3],
        );
        // One is four times as fast as the other.
        let rows = [row(Some(40.0), Some(10.0)), row(Some(10.0), Some(2.5))];
        check(&rows, 4.0, &[Some(0.5), Some(2.0)]);
        // Nothing is known of one, little of another.
        let rows = [row(Some(40.0), Some(10.0)), NONE, row(Some(40.0), None)];
        check(&rows, 4.0, &[Some(1.0), None, Some(1.0)]);
        assert_eq!(fit(&[NONE, NONE]), (NONE, vec![None, None]));
        assert_eq!(fit(&[]), (NONE, Vec::new()));
    }

    #[test]
    fn zero_differs_from_all() {
        assert!(differs(0.0, 1.0, 1.1) && differs(1.0, 0.0, 1.1) && differs(0.0, 0.0, 1.1));
        assert!(differs(1.2, 1.0, 1.1) && differs(1.0, 1.2, 1.1));
        assert!(!differs(1.05, 1.0, 1.1) && !differs(1.0, 1.05, 1.1));
    }
}
