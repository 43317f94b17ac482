//! Finds the servers that have the entries: one server, the one that sentinels name, or a cluster's
//! masters.

use std::{collections::HashMap, fmt, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, RedisError, Value, aio::MultiplexedConnection,
    cluster::ClusterClientBuilder, cluster_async::ClusterConnection, cmd,
};
use tokio::time::timeout;

use crate::RedisAddress;

/// Why there is no connection, for people.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) String);

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Host = (String, u16);

/// Where requests go.
pub(super) enum Servers {
    One(Host, MultiplexedConnection),
    Cluster,
}

impl RedisAddress {
    /// Asks the hosts, one after another, what kind of server they are.
    pub(super) async fn find(&self, patience: Duration) -> Result<Servers, Failure> {
        let mut failures = Vec::new();
        for host in &self.hosts {
            match timeout(2 * patience, self.ask(host, patience)).await {
                Ok(Ok(servers)) => return Ok(servers),
                Ok(Err(failure)) => failures.push(format!("{}:{}: {failure}", host.0, host.1)),
                Err(_) => failures.push(format!("{}:{}: it did not answer", host.0, host.1)),
            }
        }
        Err(Failure(failures.join("; ")))
    }

    async fn ask(&self, host: &Host, patience: Duration) -> Result<Servers, Failure> {
        let mut connection = self.connect(host, patience, plain).await?;
        let info: String = cmd("INFO")
            .arg("server")
            .query_async(&mut connection)
            .await?;
        let mode = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_mode:"));
        match mode {
            Some("cluster") => Ok(Servers::Cluster),
            Some("sentinel") => {
                let master = master_by_sentinel(&mut connection).await?;
                let connection = self.connect(&master, patience, plain).await?;
                require_master(master, connection).await
            }
            _ => require_master(host.clone(), connection).await,
        }
    }

    /// A connection to one server.
    pub(super) async fn connect(
        &self,
        host: &Host,
        patience: Duration,
        configure: impl FnOnce(AsyncConnectionConfig) -> AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, Failure> {
        let config = configure(
            AsyncConnectionConfig::new()
                .set_connection_timeout(Some(patience))
                .set_response_timeout(Some(patience)),
        );
        let client = Client::open(self.info(host)?)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        match timeout(patience, connecting).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(Failure("it did not answer".into())),
        }
    }

    /// A connection to the whole cluster, which follows its changes by itself.
    pub(super) async fn connect_cluster(
        &self,
        patience: Duration,
    ) -> Result<ClusterConnection, Failure> {
        let nodes: Result<Vec<_>, _> = self.hosts.iter().map(|host| self.info(host)).collect();
        let mut builder = ClusterClientBuilder::new(nodes?)
            .connection_timeout(patience)
            .response_timeout(patience);
        if let Some(password) = &self.password {
            builder = builder.password(password);
        }
        if let Some(user) = &self.user {
            builder = builder.username(user);
        }
        let client = builder.build()?;
        match timeout(2 * patience, client.get_async_connection()).await {
            Ok(connection) => Ok(connection?),
            Err(_) => Err(Failure("it did not answer".into())),
        }
    }

    /// A connection to each server that has entries.
    pub(super) async fn masters(
        &self,
        patience: Duration,
    ) -> Result<Vec<MultiplexedConnection>, Failure> {
        let mut cluster = match self.find(patience).await? {
            Servers::One(_, connection) => return Ok(vec![connection]),
            Servers::Cluster => self.connect_cluster(patience).await?,
        };
        let slots: Vec<Value> = cmd("CLUSTER")
            .arg("SLOTS")
            .query_async(&mut cluster)
            .await?;
        let mut hosts: Vec<Host> = slots.iter().filter_map(master_of_slots).collect();
        hosts.sort();
        hosts.dedup();
        let mut masters = Vec::new();
        for host in hosts {
            masters.push(self.connect(&host, patience, plain).await?);
        }
        Ok(masters)
    }

    fn info(&self, host: &Host) -> Result<ConnectionInfo, RedisError> {
        let mut redis = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        if let Some(user) = &self.user {
            redis = redis.set_username(user);
        }
        if let Some(password) = &self.password {
            redis = redis.set_password(password);
        }
        Ok(host
            .clone()
            .into_connection_info()?
            .set_redis_settings(redis))
    }
}

fn plain(config: AsyncConnectionConfig) -> AsyncConnectionConfig {
    config
}

async fn require_master(
    host: Host,
    mut connection: MultiplexedConnection,
) -> Result<Servers, Failure> {
    let role: Vec<Value> = cmd("ROLE").query_async(&mut connection).await?;
    match role.first().map(redis::from_redis_value_ref::<String>) {
        Some(Ok(role)) if role == "master" => Ok(Servers::One(host, connection)),
        _ => Err(Failure("it is a replica".into())),
    }
}

async fn master_by_sentinel(sentinel: &mut MultiplexedConnection) -> Result<Host, Failure> {
    let masters: Vec<HashMap<String, String>> =
        cmd("SENTINEL").arg("MASTERS").query_async(sentinel).await?;
    let [master] = &masters[..] else {
        let count = masters.len();
        return Err(Failure(format!(
            "it knows {count} masters, but must know exactly one"
        )));
    };
    let field = |name| master.get(name).cloned().unwrap_or_default();
    let port = field("port").parse();
    let port = port.map_err(|_| Failure("it does not tell the address of its master".into()))?;
    Ok((field("ip"), port))
}

/// The master in one reply of CLUSTER SLOTS: first slot, last slot, master, replicas.
fn master_of_slots(range: &Value) -> Option<Host> {
    let Value::Array(range) = range else {
        return None;
    };
    let (host, port, ..): (String, u16, Value, Value) =
        redis::from_redis_value_ref(range.get(2)?).ok()?;
    Some((host, port))
}
