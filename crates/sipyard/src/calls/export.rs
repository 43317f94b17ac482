//! Sends what passes to a collector such as Homer, from the thread that records.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use node::{Snapshot, tap::Tap};
use recorder::{Feed, Settings};

/// The way to the collector. Nobody waits for it: what the socket does not take is lost, and counted.
#[derive(Debug, Default)]
pub(super) struct Exporter {
    way: Mutex<Option<(UdpSocket, Feed)>>,
    sent: AtomicU64,
    lost: AtomicU64,
}

impl Exporter {
    /// Sends to the collector of these settings from now on, if they have one.
    pub(super) fn set(&self, settings: Option<&Settings>, mask_key: [u8; 16]) {
        let collector = settings.and_then(|settings| settings.collector.as_ref());
        let socket = collector.and_then(|collector| {
            let opened = open(collector.address);
            if let Err(error) = &opened {
                tracing::warn!(
                    "no messages go to the collector {}: {error}",
                    collector.address
                );
            }
            opened.ok()
        });
        let feed = settings.and_then(|settings| Feed::new(settings, mask_key));
        *self.way.lock().unwrap_or_else(PoisonError::into_inner) = socket.zip(feed);
    }

    /// Whether there is a collector.
    pub(super) fn is_on(&self) -> bool {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        way.is_some()
    }

    pub(super) fn send(&self, taps: &[Tap], snapshot: &Snapshot, zero: Duration) {
        let way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((socket, feed)) = &*way else {
            return;
        };
        for tap in taps {
            feed.tell(tap, snapshot, zero, |packet| {
                let counter = if socket.send(packet).is_ok() {
                    &self.sent
                } else {
                    &self.lost
                };
                counter.fetch_add(1, Relaxed);
            });
        }
    }

    /// Messages sent, and lost.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.lost.load(Relaxed))
    }
}

fn open(collector: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match collector {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.set_nonblocking(true)?;
    socket.connect(collector)?;
    Ok(socket)
}
