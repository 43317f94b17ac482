//! What is limited, and what is counted.

use std::time::Duration;

use sip::{FrameFault, FrameLimits};

/// What the connections of a worker may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most connections. A sixteenth of them is for ours and for those of known hosts.
    pub total: usize,
    /// The most connections that one source opens: an IPv4 address, or an IPv6 network of 64 bits.
    pub per_source: usize,
    /// The most connections that we are opening.
    pub connecting: usize,
    /// The most connections of strangers that have not ended their handshake, and as many again of known hosts. A
    /// stranger's source may have a quarter of those that are free, and 4 at least.
    pub handshaking: usize,
    /// How long a connection may take to open, handshakes included.
    pub handshake: Duration,
    /// How long a connection may carry no message and no sign of life.
    pub idle: Duration,
    /// How long a message may take from its first byte to its last.
    pub message: Duration,
    /// How long a peer may read nothing of what waits for it.
    pub stall: Duration,
    /// How long a connection that is being closed may take to send what waits.
    pub linger: Duration,
    /// The most bytes that wait to be sent on one connection.
    pub queue_bytes: usize,
    /// The most memory of all bytes that wait, of messages that are incomplete or not sent yet.
    pub total_bytes: usize,
    /// What one message may take.
    pub frame: FrameLimits,
}

macro_rules! counted {
    ($(#[$doc:meta])* pub enum $name:ident {
        $($variant:ident = $label:literal, $help:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum $name {
            $(#[doc = $help] $variant,)*
        }

        impl $name {
            /// All of them, so that `name as usize` is the index.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name for programs.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }

            /// What it means.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $(Self::$variant => $help,)*
                }
            }
        }
    };
}

counted! {
    /// Why a connection was closed.
    pub enum Why {
        Ours = "ours", "We wanted it closed, as for a drain or a reload",
        Peer = "peer", "The peer closed it",
        Failed = "failed", "The socket failed, as when the peer resets it",
        NotConnected = "not_connected", "It could not be opened",
        ConnectTimeout = "connect_timeout", "The peer took too long to take it",
        HandshakeTimeout = "handshake_timeout", "The handshake took too long",
        Idle = "idle", "It carried no message for too long",
        SlowMessage = "slow_message", "A message took too long to arrive",
        Stalled = "stalled", "The peer read nothing for too long, and there was something to read",
        QueueFull = "queue_full", "Too many bytes waited for the peer to read them",
        MemoryFull = "memory_full", "All connections together kept too many bytes, and this one most",
        SourceFull = "source_full", "The source that a balancer told of has too many connections",
        NotSip = "not_sip", "What came was not SIP",
        HeadTooLong = "head_too_long", "The headers of a message were too long",
        MessageTooLong = "message_too_long", "A message was too long",
        NoLength = "no_length", "A message had no Content-Length",
        BadLength = "bad_length", "A message had a Content-Length that is not a number, or two that differ",
        Tls = "tls", "TLS failed, in the handshake or later",
        Certificate = "certificate", "A certificate was refused, by us or by the peer",
        WebSocket = "websocket", "The WebSocket's handshake or a frame was wrong",
        Subprotocol = "subprotocol", "The WebSocket was not for SIP",
        ProxyHeader = "proxy_header", "The balancer's PROXY header was missing or wrong",
    }
}

impl From<FrameFault> for Why {
    fn from(fault: FrameFault) -> Self {
        match fault {
            FrameFault::HeadTooLong => Self::HeadTooLong,
            FrameFault::MessageTooLong => Self::MessageTooLong,
            FrameFault::NoLength => Self::NoLength,
            FrameFault::BadLength | FrameFault::TwoLengths => Self::BadLength,
            _ => Self::NotSip,
        }
    }
}

counted! {
    /// Why there is no connection.
    pub enum Refused {
        Total = "total", "There are too many connections",
        Source = "source", "The source has too many connections",
        Connecting = "connecting", "Too many connections are being opened",
        Handshaking = "handshaking", "Too many peers have not ended their handshake",
    }
}

counted! {
    /// Why a message was not taken to be sent.
    pub enum NotSent {
        Gone = "gone", "There is no such connection",
        Closing = "closing", "The connection is being closed",
        QueueFull = "queue_full", "Too many bytes wait for the peer to read them, so the connection is closed",
    }
}

/// What has happened to the connections of a worker.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// Connections of peers.
    pub accepted: u64,
    /// Connections of ours.
    pub opened: u64,
    /// Connections that ended their handshake.
    pub established: u64,
    /// Messages that came in whole.
    pub messages_received: u64,
    /// Messages that were written to the last byte.
    pub messages_sent: u64,
    /// Messages that were queued, and could not be written.
    pub unsent: u64,
    /// Responses among them, and those whose connection was gone before they were queued: nobody tries another way
    /// for these.
    pub responses_unsent: u64,
    /// How often a peer did not read what it was sent, so that the rest had to wait.
    pub backed_up: u64,
    /// Keep-alives that were answered. RFC 5626 §4.4.1
    pub kept_alive: u64,
    refused: [u64; Refused::ALL.len()],
    closed: [u64; Why::ALL.len()],
}

impl Counters {
    /// How many connections were refused for this reason.
    #[must_use]
    pub const fn refused(&self, why: Refused) -> u64 {
        self.refused[why as usize]
    }

    /// How many connections were closed for this reason.
    #[must_use]
    pub const fn closed(&self, why: Why) -> u64 {
        self.closed[why as usize]
    }

    pub(crate) fn lose(&mut self, message: &[u8]) {
        self.unsent += 1;
        self.responses_unsent += u64::from(message.starts_with(b"SIP/2.0 "));
    }

    pub(crate) fn refuse(&mut self, why: Refused) -> Refused {
        self.refused[why as usize] += 1;
        why
    }

    pub(crate) fn close(&mut self, why: Why) {
        self.closed[why as usize] += 1;
    }
}
