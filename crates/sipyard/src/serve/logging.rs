//! The log: text or JSON lines on standard error, and levels by subject that change while the node runs.

use std::io;

use clap::ValueEnum;
use tracing::{Level, level_filters::LevelFilter};
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt,
};

use crate::dashboard::log::Lines;

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Words for people and for fail2ban.
    Text,
    /// A JSON object a line.
    Json,
}

/// Changes the levels of the log.
pub(crate) type Levels = reload::Handle<Targets, Registry>;

/// The subject of the way of each message.
pub(crate) const MESSAGES: &str = "messages";

/// Begins to log; returns the latest lines, and what changes the levels.
pub(super) fn begin(levels: Targets, format: Format) -> (Lines, Levels) {
    let lines = Lines::default();
    let (filter, handle) = reload::Layer::new(levels);
    let text = fmt::layer().with_writer(io::stderr).with_target(false);
    let text = match format {
        Format::Text => text.boxed(),
        Format::Json => text.json().flatten_event(true).with_target(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(text)
        .with(lines.clone())
        .init();
    (lines, handle)
}

/// Levels from their text: a level, or some SUBJECT=LEVEL with commas between.
pub(crate) fn levels(text: &str) -> Result<Targets, String> {
    let is_known = |part: &str| part.contains('=') || part.parse::<LevelFilter>().is_ok();
    let wrong = || format!("\"{text}\" is no level: write info, or info,messages=debug");
    if !text.split(',').all(|part| is_known(part.trim())) {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Whether the way of each message is wanted in the log.
pub(crate) fn tells_messages() -> bool {
    tracing::enabled!(target: MESSAGES, Level::DEBUG)
}
