//! Reports of changes by other nodes, as they publish them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{PushInfo, PushKind, Value, cmd};
use tokio::time::{interval, sleep, timeout};

use super::{cache::Cache, topology::Failure};
use crate::{RedisAddress, request::Now};

/// The channel of all reports. The script of a change publishes who made it, and the key.
pub(super) const CHANNEL: &str = "sipyard:changed";
/// A connection that is silent for longer than an interval and a timeout is closed, so no entry
/// that is older than both is used.
const INTERVAL: Duration = Duration::from_secs(1);

/// The number under which this process makes changes. The cache already has these changes when
/// their reports come, so it ignores the reports.
pub(super) struct Writer(AtomicU64);

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    pub(super) fn number(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Takes another number. A change under the last one may still be made later; its report then
    /// counts.
    pub(super) fn renew(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The message that reports a change.
pub(super) fn message(writer: u64, key: &[u8]) -> Vec<u8> {
    [&writer.to_be_bytes(), key].concat()
}

/// Listens at one of the hosts, forever.
pub(super) async fn listen(
    address: RedisAddress,
    patience: Duration,
    cache: Arc<Cache>,
    writer: Arc<Writer>,
) {
    loop {
        for host in &address.hosts {
            // Why it ended shows in the requests, which fare alike.
            let _ = follow(&address, host, patience, &cache, &writer).await;
            cache.stop();
        }
        sleep(INTERVAL).await;
    }
}

async fn follow(
    address: &RedisAddress,
    host: &(String, u16),
    patience: Duration,
    cache: &Arc<Cache>,
    writer: &Arc<Writer>,
) -> Result<(), Failure> {
    let (heard_by, known) = (Arc::clone(cache), Arc::clone(writer));
    let hear = move |push: PushInfo| {
        take(&push, &heard_by, &known);
        Ok::<_, ()>(())
    };
    let mut connection = address
        .connect(host, patience, |config| config.set_push_sender(hear))
        .await?;
    connection.subscribe(CHANNEL).await?;
    cache.hear(Now::read());
    let mut tick = interval(INTERVAL);
    loop {
        tick.tick().await;
        let ping = cmd("PING");
        match timeout(patience, ping.query_async::<Value>(&mut connection)).await {
            Ok(pong) => drop(pong?),
            Err(_) => return Err(Failure("it did not answer".into())),
        }
    }
}

fn take(push: &PushInfo, cache: &Cache, writer: &Writer) {
    match (&push.kind, &push.data[..]) {
        (PushKind::Message, [_, Value::BulkString(message)]) => {
            if let Some((number, key)) = message.split_first_chunk()
                && u64::from_be_bytes(*number) != writer.number()
            {
                cache.forget(key);
            }
        }
        (PushKind::Disconnection, _) => cache.stop(),
        _ => (),
    }
}
