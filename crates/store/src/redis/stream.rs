use std::{fmt, io, time::Duration};

use redis::{Cmd, aio::MultiplexedConnection, cluster_async::ClusterConnection, cmd};
use tokio::{runtime, time::timeout};

use super::{Failure, topology::Servers};
use crate::{Error, RedisAddress};

/// KEYS: the stream, the writer's place. ARGV: the place before and after, how long the stream may get, the entries.
/// Replies with the writer's place.
const APPEND: &str = "
    local place = redis.call('GET', KEYS[2]) or ''
    if place ~= ARGV[1] then return place end
    for entry = 4, #ARGV do
        redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'record', ARGV[entry])
    end
    redis.call('SET', KEYS[2], ARGV[2])
    return ARGV[2]";

/// One writer's way to a stream of Redis or Valkey: each of its entries gets there once.
///
/// The writer's place stands beside the stream, in a key of its own, and moves in the same step as the stream grows. So
/// a writer that did not hear whether its entries arrived asks for its place, and goes on from there.
///
/// Its calls block.
pub struct Stream {
    address: RedisAddress,
    key: String,
    place_key: String,
    entries_max: u64,
    wait_max: Duration,
    runtime: runtime::Runtime,
    connection: Option<Connection>,
}

enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.address, self.key)
    }
}

impl Stream {
    /// A writer of this name to the stream at `key`, which gets about `entries_max` entries long. It connects when it is
    /// used. A server may take `wait_max` for each answer.
    ///
    /// # Errors
    /// The system gives it nothing to wait with.
    pub fn new(
        address: &RedisAddress,
        key: &str,
        writer: &str,
        entries_max: u64,
        wait_max: Duration,
    ) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Self {
            address: address.clone(),
            key: key.to_owned(),
            // In a cluster it lies where the stream does.
            place_key: format!("{{{key}}}:{writer}"),
            entries_max,
            wait_max,
            runtime,
            connection: None,
        })
    }

    /// How far the writer has come; empty: it has never written.
    ///
    /// # Errors
    /// The server can't be asked.
    pub fn place(&mut self) -> Result<String, Error> {
        let mut get = cmd("GET");
        get.arg(&self.place_key);
        self.ask(&get)
    }

    /// Appends entries, each as the field `record`, and moves the writer's place. Replies with the place: another one than
    /// `to` says that the writer was not at `from`, and nothing was appended.
    ///
    /// # Errors
    /// The server can't be asked, or its answer was lost. The entries may have arrived all the same.
    pub fn append<'a>(
        &mut self,
        from: &str,
        to: &str,
        entries: impl Iterator<Item = &'a [u8]>,
    ) -> Result<String, Error> {
        let mut append = cmd("EVAL");
        append
            .arg(APPEND)
            .arg(2)
            .arg(&self.key)
            .arg(&self.place_key);
        append.arg(from).arg(to).arg(self.entries_max);
        for entry in entries {
            append.arg(entry);
        }
        self.ask(&append)
    }

    fn ask(&mut self, question: &Cmd) -> Result<String, Error> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let asked = async {
            timeout(self.wait_max, async {
                match &mut connection {
                    Connection::One(one) => question.query_async::<Option<String>>(one).await,
                    Connection::Cluster(cluster) => question.query_async(cluster).await,
                }
            })
            .await
        };
        match self.runtime.block_on(asked) {
            Ok(Ok(answer)) => {
                self.connection = Some(connection);
                Ok(answer.unwrap_or_default())
            }
            Ok(Err(error)) => Err(Error::unavailable(error.to_string())),
            Err(_) => Err(Error::unavailable("the server did not answer in time")),
        }
    }

    fn connect(&self) -> Result<Connection, Error> {
        let connecting = async {
            Ok::<_, Failure>(match self.address.find(self.wait_max).await? {
                Servers::One(_, connection) => Connection::One(connection),
                Servers::Cluster => {
                    Connection::Cluster(self.address.connect_cluster(self.wait_max).await?)
                }
            })
        };
        let connected = self.runtime.block_on(connecting);
        connected.map_err(|failure| Error::unavailable(failure.0))
    }
}
