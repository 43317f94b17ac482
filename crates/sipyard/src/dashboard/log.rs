//! The latest lines of the log, for the dashboard.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use socket::wall;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// Lines that are kept.
const LINES_MAX: usize = 1_000;
/// Bytes of a line that are kept.
const LINE_BYTES_MAX: usize = 2_000;

/// A line of the log.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// Counts from 1, without gaps.
    pub(crate) number: u64,
    /// Seconds since the UNIX epoch.
    pub(crate) at: f64,
    pub(crate) level: &'static str,
    pub(crate) text: String,
}

/// The latest lines. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Arc<Mutex<VecDeque<Line>>>);

impl Lines {
    fn locked(&self) -> MutexGuard<'_, VecDeque<Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the latest line; 0: there is none.
    pub(crate) fn latest(&self) -> u64 {
        self.locked().back().map_or(0, |line| line.number)
    }

    /// The lines after this number, oldest first.
    pub(crate) fn after(&self, number: u64) -> Vec<Line> {
        let lines = self.locked();
        let later = lines.iter().filter(|line| line.number > number);
        later.cloned().collect()
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let mut lines = self.locked();
        let line = Line {
            number: lines.back().map_or(0, |line| line.number) + 1,
            at: wall().as_secs_f64(),
            level: event.metadata().level().as_str(),
            text: text.0.chars().take(LINE_BYTES_MAX).collect(),
        };
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// The words of an event, then its other fields.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string can't fail.
        let _ = if field.name() == "message" {
            write!(self.0, "{value:?}")
        } else {
            write!(self.0, " {field}={value:?}")
        };
    }
}
