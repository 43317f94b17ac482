//! How evenly calls are placed on equal servers, at light and at full load.

use std::{io, time::Duration};

use load::{Arrivals, Law, Service};
use serde::{Deserialize, Serialize};

use crate::{
    balance::{WINDOW, start},
    generator::Generator,
    subject::Subject,
};

/// Callees that are slower than the balancer, so that a window of calls keeps all of them busy. The
/// times relate as those of INVITE and BYE in a Java application server do.
const BUSY: Service = Service {
    invite: Law::Exponential(Duration::from_micros(290)),
    bye: Law::Exponential(Duration::from_micros(166)),
    other: Law::ZERO,
};
const TIME_MAX: Duration = Duration::from_secs(120);

/// Calls placed on each server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Spread {
    /// Calls in progress at a time. With one, all servers are idle when it comes.
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
    let light = place(calls, 1, Service::NONE)?;
    let full = place(calls, WINDOW, BUSY)?;
    Ok(vec![light, full])
}

/// Makes calls through Sipyard, `window` at a time.
fn place(calls: u64, window: usize, service: Service) -> io::Result<Spread> {
    let mut generator = Generator::new(1, service)?;
    let running = start(Subject::Sipyard, &mut generator)?;
    let before = generator.placed();
    generator.call(running.address, Arrivals::Window(window), calls);
    generator.run(TIME_MAX);
    let placed = generator.placed().into_iter().zip(before);
    let spread = Spread {
        window,
        placed: placed.map(|(after, before)| after - before).collect(),
        failed: calls - generator.caller().stats().carried,
    };
    println!(
        "{calls} calls, {window} at a time: {:?}, {} failed",
        spread.placed, spread.failed
    );
    Ok(spread)
}
