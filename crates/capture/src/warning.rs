//! Warnings about captures, with their counts.

use std::{collections::BTreeMap, fmt};

/// A problem of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The kind of problem.
    pub kind: WarningKind,
    /// How often it occurred.
    pub count: u64,
    /// The capture point, if the problem belongs to one.
    pub point: Option<String>,
    /// The first packet with the problem.
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
    /// Bytes that are not a packet.
    DamagedFile "damaged_file" "the file is damaged: bytes that are no packet were skipped",
    /// The snap length has cut messages.
    SnapLength "snap_length" "packets are cut by the snap length: capture with tcpdump -s 0",
    /// Packets of a link layer that cannot be read.
    UnknownLink "unknown_link" "packets of an unknown link layer were skipped: capture on \
                                Ethernet, loopback or 'any'",
    /// Fragments that fit no datagram.
    BadFragment "bad_fragment" "IP fragments fit no datagram",
    /// TCP segments are missing.
    MissingSegments "missing_segments" "bytes of a TCP connection are missing: the model lacks the \
                                        messages in them",
    /// Bytes that look like SIP but are not.
    BadMessage "bad_message" "malformed SIP messages were skipped",
    /// Connections that may hide SIP.
    Encrypted "encrypted" "TLS connections to port 5061 can't be read: capture behind the point \
                           where TLS ends",
    /// TLS connections whose secrets are not known.
    Sealed "sealed" "parts of TLS connections can't be read: their secrets are not in the file, or the capture lacks \
                     their beginning",
    /// The capture has more messages than the limit.
    TooManyMessages "too_many_messages" "the capture has more messages than the limit: split it with editcap",
    /// Packets that were captured twice.
    CapturedTwice "captured_twice" "packets were captured twice (as with interface 'any'): the \
                                    second copy was left out",
    /// The clock went back.
    ClockBack "clock_back" "the clock went back between two packets: don't set the clock during \
                            the capture",
    /// The difference of two points' clocks changed.
    ClockStep "clock_step" "the travel time between two points changed by more than 10 ms from one \
                            message to the next: a clock was set, or packets waited",
    /// No message was seen at both points.
    NothingShared "nothing_shared" "no other point saw a message of this point: the network time \
                                    between them can't be measured",
    /// Only one end of the way saw a message.
    Lost "lost" "messages were seen at another point and not at this one: packets were lost, or the capture missed them",
    /// Messages were retransmitted.
    Retransmitted "retransmitted" "messages were retransmitted: the servers were overloaded or packets were lost",
    /// A node worked on several calls at once.
    Overlap "overlap" "messages came while the node was busy with another call: times include \
                       waiting, so capture fewer calls per second",
    /// The calls are few.
    FewCalls "few_calls" "there are few calls, so intervals are wide or unknown: capture at least \
                          10 (30 are better)",
    /// The intervals are wide.
    Wide "wide_interval" "service times are uncertain by more than 20 %: capture more calls",
    /// Work that takes hardly longer than a wake-up.
    Short "short" "the work on messages took less than 0.2 ms, which may be mostly the wake-up of \
                   an idle process: a busy node may carry several times as much (see \
                   --processor-ms)",
    /// The network time was not measured.
    NetworkUnknown "network_unknown" "only one end of a link was captured, so its network time is \
                                      part of the service times: capture at both ends",
    /// A time that the capture can't show.
    Estimated "estimated" "messages got no answer, so the work on them can't be seen: the model \
                           uses the node's smallest time (see --unseen-ms)",
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

/// Counts the warnings of one point, or of none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<WarningKind, (u64, Option<u64>)>);

impl Counts {
    /// Counts one more, at this packet.
    pub(crate) fn at(&mut self, kind: WarningKind, packet: u64) {
        let (count, first) = self.0.entry(kind).or_default();
        *count += 1;
        first.get_or_insert(packet);
    }

    /// Adds this many.
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
