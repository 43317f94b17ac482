//! How evenly calls are placed on equal servers, at light and at full load.

use std::{io, time::Duration};

use load::{Arrivals, Law};
use serde::{Deserialize, Serialize};

use crate::{
    balance::{WINDOW, start},
    generator::Generator,
    subject::Subject,
};

const TIME_MAX: Duration = Duration::from_secs(120);

/// Calls placed on each server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// Calls in progress at a time; one: all servers are idle when a call comes.
    pub window: usize,
    pub placed: Vec<u64>,
    pub failed: u64,
}

impl Spread {
    /// How far the farthest server is from the mean, as a share of the mean.
    pub(crate) fn deviation(&self) -> f64 {
        let mean = self.placed.iter().sum::<u64>() as f64 / self.placed.len() as f64;
        let distances = self
            .placed
            .iter()
            .map(|placed| (*placed as f64 - mean).abs());
        distances.fold(0.0, f64::max) / mean
    }
}

pub(crate) fn measure(calls: u64) -> io::Result<Vec<Spread>> {
    if let Some(missing) = Subject::Sipyard.missing() {
        println!("{}: left out, {missing}", Subject::Sipyard.title());
        return Ok(Vec::new());
    }
    let mut generator = Generator::new(1)?;
    let running = start(Subject::Sipyard, &mut generator)?;
    let mut spreads = Vec::new();
    for window in [1, WINDOW] {
        let before = generator.placed();
        generator.call(running.address, Arrivals::Window(window), Law::ZERO, calls);
        generator.run(TIME_MAX);
        let placed = generator
            .placed()
            .into_iter()
            .zip(before)
            .map(|(after, before)| after - before);
        let placed = placed.collect();
        let failed = calls - generator.caller().stats().carried;
        let spread = Spread {
            window,
            placed,
            failed,
        };
        println!(
            "{calls} calls, {window} at a time: {:?}, {failed} failed",
            spread.placed
        );
        spreads.push(spread);
    }
    Ok(spreads)
}
