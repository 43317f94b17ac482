//! Sources that are not heard for a time.

use std::{collections::BTreeMap, time::Duration};

use crate::Source;

/// Bans at a time. If there are more, a further source is not banned.
pub const BANS_MAX: usize = 8_192;

/// A source that is not heard for a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// Who is banned.
    pub source: Source,
    /// Since when.
    pub since: Duration,
    /// When the ban ends.
    pub until: Duration,
    /// The user as whom the source tried to log in last.
    pub last_user: Box<str>,
}

/// All bans, for listing; the look-up for each message has its own table.
#[derive(Debug, Default)]
pub(crate) struct Bans(BTreeMap<Source, Ban>);

impl Bans {
    /// Whether a source can be banned. Bans that have ended go when their room is needed.
    pub(crate) fn has_room(&mut self, now: Duration, source: Source) -> bool {
        if self.0.len() >= BANS_MAX {
            self.0.retain(|_, ban| ban.until > now);
        }
        self.0.len() < BANS_MAX || self.0.contains_key(&source)
    }

    /// Adds a ban, or prolongs it.
    pub(crate) fn add(&mut self, ban: Ban) {
        self.0.insert(ban.source, ban);
    }

    pub(crate) fn remove(&mut self, source: Source) -> Option<Ban> {
        self.0.remove(&source)
    }

    /// Those that have not ended, by source.
    pub(crate) fn list(&self, now: Duration) -> impl Iterator<Item = &Ban> {
        self.0.values().filter(move |ban| ban.until > now)
    }
}
