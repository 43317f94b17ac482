//! Workers that each have a socket and the calls of their share: the product's own.

use std::{convert::Infallible, io, sync::Arc, thread};

use net::{Security, Workers};
use node::{Config, Shared};
use socket::Clock;

use crate::locations::Locations;

pub(crate) fn run(config: Config, workers: usize, locations: Locations) -> io::Result<Infallible> {
    let shared = Shared::new(config, workers).map_err(io::Error::other)?;
    let answerer = Some(Arc::new(locations) as _);
    let _workers = Workers::start(
        &Arc::new(shared),
        Clock::start(),
        answerer,
        Security::default(),
    )
    .map_err(io::Error::other)?;
    loop {
        thread::park();
    }
}
