//! What stands in a capture's way, counted.

use std::{collections::BTreeMap, fmt};

/// Something that a capture lacks, or that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is.
    pub kind: WarningKind,
    /// How often it came up.
    pub count: u64,
    /// The capture point, if it concerns one.
    pub point: Option<String>,
    /// The packet where it came up first.
    pub packet: Option<u64>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $slug:literal $text:literal,)+) => {
        /// The kinds of warnings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum WarningKind {
            $($(#[$doc])* $kind,)+
        }

        impl WarningKind {
            /// A short name for programs.
            #[must_use]
            pub const fn slug(self) -> &'static str {
                match self {
                    $(Self::$kind => $slug,)+
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)+
                }
            }
        }
    };
}

kinds! {
    /// The file ends within a packet.
    CutFile "cut_file" "the file ends within a packet: the capture was cut off there",
    /// Bytes that are no packet.
    DamagedFile "damaged_file" "the file is damaged: bytes that are no packet were skipped",
    /// The snap length has cut messages.
    SnapLength "snap_length" "packets are cut by the snap length: capture with tcpdump -s 0",
    /// Packets of a link layer that cannot be read.
    UnknownLink "unknown_link" "packets of a link layer that can't be read were skipped: capture on Ethernet, loopback or 'any'",
    /// Fragments that make no datagram.
    BadFragment "bad_fragment" "IP fragments fit no datagram",
    /// TCP segments are missing.
    MissingSegments "missing_segments" "bytes of a TCP connection are missing: messages in them are lost to the model",
    /// Bytes that look like SIP and are not.
    BadMessage "bad_message" "malformed SIP messages were skipped",
    /// Connections that may hide SIP.
    Encrypted "encrypted" "TLS connections to port 5061 can't be read: capture behind the TLS end",
    /// The capture holds more messages than are kept.
    TooManyMessages "too_many_messages" "the capture has more messages than are read: cut it with editcap",
    /// Packets that were captured twice.
    CapturedTwice "captured_twice" "packets were captured twice (as with interface 'any'): the second was left out",
    /// The clock went back.
    ClockBack "clock_back" "the clock went back between two packets: stop its setting while capturing",
    /// Two points' clocks moved apart.
    ClockStep "clock_step" "the way between two points changed by more than 10 ms from one message to the next: a clock was set, or packets waited",
    /// No message was seen at both points.
    NothingShared "nothing_shared" "no message of this point was seen at another: the network between them can't be measured",
    /// A message was seen at one end of its way only.
    Lost "lost" "messages were seen at another point and not at this one: packets were lost, or the capture missed them",
    /// Messages were repeated.
    Retransmitted "retransmitted" "messages were retransmitted: the servers were overloaded or packets were lost",
    /// Requests without a final response.
    Unanswered "unanswered" "requests have no final response in the capture: their calls were left out",
    /// The call's beginning or end is not in the capture.
    PartOfCall "part_of_call" "calls begin before the capture or hold messages of unknown parties: they were left out",
    /// Calls that hold too much.
    LongCall "long_call" "calls of more than 1,000 messages were left out",
    /// Calls of other shapes.
    OtherFlow "other_flow" "calls and other exchanges, such as OPTIONS, have another flow of messages than the model's (see the table of flows): they were left out",
    /// A node worked on several calls at once.
    Overlap "overlap" "messages came while the node was busy with another call: times hold waiting, so capture fewer calls per second",
    /// Few calls.
    FewCalls "few_calls" "calls are few: the intervals are wide or unknown, so capture at least 10 (30 are better)",
    /// Intervals are wide.
    Wide "wide_interval" "service times are known to no better than 20 %: capture more calls",
    /// Work that takes hardly longer than waking up.
    Short "short" "messages were worked on for less than 0.2 ms, of which the waking up of an idle process may be the most: a busy node may carry several times as much (see --processor-ms)",
    /// The network is not measured.
    NetworkUnknown "network_unknown" "ways between nodes were seen from one end only: their network time is part of the service times; capture at both ends",
    /// A time that the capture cannot show.
    Estimated "estimated" "messages got no answer, so the work on them can't be seen: it was taken as the node's smallest time (see --unseen-ms)",
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(point) = &self.point {
            write!(f, "{point}: ")?;
        }
        write!(f, "{} ({}", self.kind, self.count)?;
        match self.packet {
            Some(packet) => write!(f, ", first at packet {packet})"),
            None => write!(f, ")"),
        }
    }
}

/// Warnings of one point, or of none, while they are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<WarningKind, (u64, Option<u64>)>);

impl Counts {
    /// Counts one more, at that packet.
    pub(crate) fn at(&mut self, kind: WarningKind, packet: u64) {
        let (count, first) = self.0.entry(kind).or_default();
        *count += 1;
        first.get_or_insert(packet);
    }

    /// Counts so many more.
    pub(crate) fn add(&mut self, kind: WarningKind, more: usize) {
        if more > 0 {
            self.0.entry(kind).or_default().0 += more as u64;
        }
    }

    pub(crate) fn warnings(&self, point: Option<&str>) -> impl Iterator<Item = Warning> {
        self.0.iter().map(move |(&kind, &(count, packet))| Warning {
            kind,
            count,
            point: point.map(str::to_owned),
            packet,
        })
    }
}
