//! The sections `[node]`, `[[listen]]`, `[limits]`, `[timers]` and `[dns]`.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use ::store::check_private;
use node::config::{Exchange, Limits, Listener, Timers};
use settings::{
    Read, Section,
    value::{duration, integer, list, name, text},
};

use super::address::address;

const SECRET_BYTES_MIN: usize = 32;
/// The most peers. Each node reports to each peer, so the work of all grows with the square of
/// their number.
const PEERS_MAX: usize = 63;

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// The settings of `[node]`.
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) secret: Vec<u8>,
    pub(crate) accepted_secret: Option<Vec<u8>>,
    pub(crate) workers: usize,
    pub(crate) drain_calls: Duration,
    pub(crate) exchange: Exchange,
}

/// Reads `[node]`; none if it has no secret.
pub(crate) fn identity(mut section: Section<'_>, listeners: &[Listener]) -> Option<Identity> {
    let name = section.get_or("name", "sipyard", name).to_owned();
    let file = section.file();
    let is_local = listeners.iter().all(|it| it.address.ip().is_loopback());
    let secret = section.require(
        "secret",
        "write secret = \"file:PATH\"; `(umask 077; openssl rand -hex 32 > PATH)` writes one",
        |value| secret_of(file, is_local, text(value)?),
    );
    let accepted = section.get("accept_secret", |value| {
        secret_of(file, is_local, text(value)?)
    });
    // A listener's sockets and the session table are split by worker; more threads than this
    // share no machine that exists.
    let workers = section.get_or("workers", 0, integer(0..=256));
    // Other edges with the secret carry on with the calls of one that ends; a lone node has nobody.
    let drain_calls = section.get_or("drain_calls", ms(0), duration(ms(0)..=minutes(1_440)));
    let exchange = exchange(&mut section, listeners);
    section.finish();
    Some(Identity {
        name,
        secret: secret?.value,
        accepted_secret: accepted.map(|found| found.value),
        workers,
        drain_calls,
        exchange,
    })
}

fn exchange(section: &mut Section<'_>, listeners: &[Listener]) -> Exchange {
    let peers = section.get("peers", |value| {
        let peers = list(address)(value)?;
        match peers.iter().find_map(|peer| unreachable(*peer, listeners)) {
            Some(problem) => Err(problem),
            None if peers.len() > PEERS_MAX => Err(format!(
                "the list has more than {PEERS_MAX} peers: remove some"
            )),
            None => Ok(peers),
        }
    });
    let alone = Exchange::default();
    Exchange {
        peers: peers.map_or(alone.peers, |found| found.value),
        // Faster than the ledgers are looked at would tell nothing new; slower, a dead peer's share
        // would count for longer than a second.
        interval: section.get_or("peer_interval", alone.interval, duration(ms(20)..=ms(200))),
    }
}

/// Why this node can't report to a peer at this address.
fn unreachable(peer: SocketAddr, listeners: &[Listener]) -> Option<String> {
    let mut addresses = listeners.iter().map(|listener| listener.address);
    if addresses.clone().any(|address| address == peer) {
        Some(format!(
            "{peer} is this node's own listener: list only the other edges"
        ))
    } else if listeners.is_empty() || addresses.any(|own| own.is_ipv4() == peer.is_ipv4()) {
        None
    } else {
        Some(format!(
            "no listener can send to {peer}: add one of the same kind, IPv4 or IPv6"
        ))
    }
}

/// The secret, as the text of the file or in a file of its own. A file with it must be private. A
/// node that only this machine reaches may have one in the open, to try things out.
fn secret_of(file: &Path, is_local: bool, text: &str) -> Read<Vec<u8>> {
    let named = text.split_once(':');
    let secret = match named {
        Some(("file", path)) => read_secret(&file.with_file_name(path))?,
        Some(("env", name)) => match std::env::var(name) {
            Ok(secret) => secret.trim().as_bytes().to_vec(),
            Err(_) => return Err(format!("the environment has no variable {name} of text")),
        },
        _ if is_local => text.as_bytes().to_vec(),
        _ => {
            check_private(file).map_err(|error| error.to_string())?;
            text.as_bytes().to_vec()
        }
    };
    if secret.len() >= SECRET_BYTES_MIN {
        return Ok(secret);
    }
    Err(format!(
        "the secret has {} bytes, but needs at least {SECRET_BYTES_MIN}; `openssl rand -hex 32` \
         prints a good one",
        secret.len()
    ))
}

fn read_secret(path: &Path) -> Read<Vec<u8>> {
    let bytes = fs::read(path).map_err(|error| {
        format!(
            "cannot read {}: {error}; the user who runs sipyard must be able to read this file",
            path.display()
        )
    })?;
    check_private(path).map_err(|error| error.to_string())?;
    Ok(bytes.trim_ascii_end().to_vec())
}

/// Reads `[limits]`.
pub(crate) fn limits(mut section: Section<'_>) -> Limits {
    let limits = Limits {
        sessions: section.get_or("sessions", 1_000_000, integer(1..=100_000_000)),
        transactions: section.get_or("transactions", 262_144, integer(1..=4_000_000)),
        // About 100 entries for each call a second: what is over lingers for 32 s.
        held_transactions: section.get_or("held_transactions", 1_048_576, integer(2..=16_000_000)),
        registrations: section.get_or("registrations", 65_536, integer(1..=4_000_000)),
        retained_requests: section.get_or("retained_requests", 32_768, integer(0..=1_048_576)),
        // RFC 3261 §18.1.1: an implementation must take 65,535 bytes; an operator may take fewer,
        // but not fewer than fit a path's MTU.
        message_bytes: section.get_or("message_bytes", 16_384, integer(1_500..=65_535)),
        headers: section.get_or("headers", 128, integer(16..=4_096)),
        handover_queue: section.get_or("handover_queue", 4_096, integer(16..=1_048_576)),
        strangers: section.get_or("strangers", 65_536, integer(1_024..=16_777_216)),
    };
    section.finish();
    limits
}

/// Reads `[timers]`.
pub(crate) fn timers(mut section: Section<'_>) -> Timers {
    let timers = Timers {
        t1: section.get_or("t1", ms(500), duration(ms(10)..=ms(5_000))),
        // RFC 3261 §16.6 step 11: larger than 3 minutes.
        timer_c: section.get_or("timer_c", ms(181_000), duration(ms(181_000)..=minutes(60))),
        call_max: section.get_or(
            "call_max",
            minutes(720),
            duration(minutes(1)..=minutes(10_080)),
        ),
        drain: section.get_or("drain", ms(10_000), duration(ms(0)..=minutes(60))),
    };
    section.finish();
    timers
}

/// The settings of `[dns]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dns {
    /// The DNS servers; if empty, those of `/etc/resolv.conf`.
    pub(crate) servers: Vec<SocketAddr>,
    /// How long to wait for an answer.
    pub(crate) timeout: Duration,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: ms(3_000),
        }
    }
}

/// Reads `[dns]`.
pub(crate) fn dns(mut section: Section<'_>) -> Dns {
    let default = Dns::default();
    let dns = Dns {
        servers: section.get_or("servers", default.servers, list(address)),
        timeout: section.get_or("timeout", default.timeout, duration(ms(100)..=ms(30_000))),
    };
    section.finish();
    dns
}
