//! The log: text or JSON lines on standard error, or entries of the systemd journal, and levels by subject that change while the node runs.

use std::{env, io};

use clap::ValueEnum;
use rustix::fs::fstat;
use tracing::{Level, level_filters::LevelFilter};
use tracing_journald::{Priority, PriorityMappings};
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
    /// Entries of the systemd journal, with priorities.
    Journal,
}

/// Changes the levels of the log.
pub(crate) type Levels = reload::Handle<Targets, Registry>;

/// The subject of the way of each message.
pub(crate) const MESSAGES: &str = "messages";

/// Begins to log; returns the latest lines, and what changes the levels.
/// No format: entries if standard error is the journal, else text.
pub(super) fn begin(levels: Targets, format: Option<Format>) -> (Lines, Levels) {
    let lines = Lines::default();
    let (filter, handle) = reload::Layer::new(levels);
    let text = fmt::layer().with_writer(io::stderr).with_target(false);
    let usual = || match is_journal() {
        true => Format::Journal,
        false => Format::Text,
    };
    let mut missing = None;
    let text = match format.unwrap_or_else(usual) {
        Format::Text => text.boxed(),
        Format::Json => text.json().flatten_event(true).with_target(true).boxed(),
        Format::Journal => match tracing_journald::layer() {
            Ok(journal) => in_journal(journal).boxed(),
            Err(error) => {
                missing = Some(error);
                text.boxed()
            }
        },
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(text)
        .with(lines.clone())
        .init();
    if let Some(error) = missing {
        tracing::warn!("the journal takes no entries, so the log is text: {error}");
    }
    (lines, handle)
}

/// Priorities as other services give them.
fn in_journal(journal: tracing_journald::Layer) -> tracing_journald::Layer {
    let priorities = PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        trace: Priority::Debug,
        ..PriorityMappings::new()
    };
    journal
        .with_priority_mappings(priorities)
        .with_syslog_identifier("sipyard".to_owned())
}

/// Whether standard error leads to the journal: systemd says which file that is.
fn is_journal() -> bool {
    let told = env::var("JOURNAL_STREAM").unwrap_or_default();
    let Ok(file) = fstat(io::stderr()) else {
        return false;
    };
    told == format!("{}:{}", file.st_dev, file.st_ino)
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
