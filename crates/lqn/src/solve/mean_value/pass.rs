//! One pass over all servers: from the requests that others meet there, to the waiting times, to
//! the rates.

use super::{
    flow::Network,
    loads::{Loads, relax},
    meeting::Meeting,
    threads::Split,
};

impl Loads {
    /// Goes over everything once, and says by how much it changed, relatively.
    pub(super) fn pass(
        &mut self,
        network: &Network<'_>,
        fewer: Option<&Self>,
        splits: &[Option<Split>],
        relaxation: f64,
    ) -> f64 {
        let before = self.clone();
        let meeting = Meeting::new(network, &before, fewer, splits);
        for (place, load) in self.visits.iter_mut().enumerate() {
            for (old, new) in load.residence.iter_mut().zip(meeting.residence(place)) {
                relax(old, new, relaxation);
            }
            relax(&mut load.wait, meeting.thread_wait(place), relaxation);
        }
        self.hold(network);
        self.flow(network, relaxation);
        self.change_since(&before)
    }

    /// By how much the rates and the times of threads differ, relatively.
    fn change_since(&self, before: &Self) -> f64 {
        let rates = self.rates.iter().zip(&before.rates);
        let rates = rates.map(|(new, old)| relative_change(*old, *new));
        let times = self.visits.iter().zip(&before.visits);
        let times =
            times.map(|(new, old)| relative_change(old.wait + old.whole(), new.wait + new.whole()));
        rates.chain(times).fold(0.0, f64::max)
    }
}

fn relative_change(old: f64, new: f64) -> f64 {
    let scale = new.abs().max(old.abs());
    if scale > 1e-9 {
        (new - old).abs() / scale
    } else {
        0.0
    }
}
