use report::Bars;

use super::summary::runs_of;
use crate::{
    balance::{Load, Run},
    range::Range,
    subject::Subject,
};

/// CPU per call of each subject, with the range over the rounds.
pub(super) fn cpu(runs: &[Run], load: Load) -> Bars {
    let title = format!("CPU microseconds per call, {}", load.title());
    Subject::ALL
        .into_iter()
        .fold(Bars::new(title), |bars, subject| {
            let costs = runs_of(runs, subject, load).map(|run| run.cpu_us_per_call);
            match Range::over(costs) {
                Some(Range { median, min, max }) => bars.with(subject.title(), median, (min, max)),
                None => bars,
            }
        })
}
