//! What is worth a line in the log.

use std::{mem, net::IpAddr};

use crate::{Ban, Source};

/// Notices that wait for whoever logs them. More are counted and left out.
pub const NOTICES_MAX: usize = 1_024;

/// Something that whoever runs the node wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Somebody showed wrong credentials.
    LoginFailed {
        /// The address that the datagram has.
        from: IpAddr,
        /// The user whom they claimed to be: hostile text, of a bounded length.
        user: Box<str>,
        /// The realm.
        realm: Box<str>,
        /// It counts towards a ban: the address has shown that it receives what we send to it, and no
        /// user has logged in from there lately.
        is_held_against: bool,
    },
    /// A source is banned.
    Banned(Ban),
    /// An operator has lifted the ban of a source.
    Unbanned(Source),
}

/// Notices in their order.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    waiting: Vec<Notice>,
    missed: u64,
}

impl Notices {
    pub(crate) fn push(&mut self, notice: Notice) {
        if self.waiting.len() < NOTICES_MAX {
            self.waiting.push(notice);
        } else {
            self.missed += 1;
        }
    }

    /// What waits, and how many were left out since it was taken last.
    pub(crate) fn take(&mut self) -> (Vec<Notice>, u64) {
        (mem::take(&mut self.waiting), mem::take(&mut self.missed))
    }
}
