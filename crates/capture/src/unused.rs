//! The calls of a capture that the model does not use, and why.

use std::fmt;

/// A call that the model does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Its Call-ID.
    pub call_id: String,
    /// Why.
    pub reason: Reason,
}

/// Why a call is not used. A call has the first reason that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It has too many messages.
    Long,
    /// Its first message is in a dialog, a response, or belongs to an earlier request.
    BeginningMissing,
    /// A request has no final response when the capture ends.
    EndMissing,
    /// A request has no final response although the capture goes on for long.
    Unanswered,
    /// It has retransmissions.
    Retransmitted,
    /// Its messages don't keep to the way of its first request.
    OffItsWay,
    /// A node's capture point did not see all of the node's messages.
    MessagesLost,
    /// A reply comes back sooner at one end of a link than it was sent at the other.
    ClocksDisagree,
    /// It has the flow of this number, and another one is modelled.
    OtherFlow(usize),
}

impl Reason {
    /// A short name for programs.
    #[must_use]
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::BeginningMissing => "beginning_missing",
            Self::EndMissing => "end_missing",
            Self::Unanswered => "unanswered",
            Self::Retransmitted => "retransmitted",
            Self::OffItsWay => "off_its_way",
            Self::MessagesLost => "messages_lost",
            Self::ClocksDisagree => "clocks_disagree",
            Self::OtherFlow(_) => "other_flow",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Long => "it has more than 1,000 messages",
            Self::BeginningMissing => "its beginning is missing: it began before the capture",
            Self::EndMissing => "its end is missing: the capture ended before a final response",
            Self::Unanswered => "a request got no final response within 32 s",
            Self::Retransmitted => "messages were retransmitted, so its times are not those of work",
            Self::OffItsWay => {
                "messages passed between nodes that are no neighbours on the way of its first request"
            }
            Self::MessagesLost => "a node's capture point did not see all of the node's messages",
            Self::ClocksDisagree => {
                "clocks disagree: by them a reply arrived before it was sent"
            }
            Self::OtherFlow(number) => {
                return write!(f, "it has flow {number}, and another one is modelled (see --flow)");
            }
        })
    }
}
