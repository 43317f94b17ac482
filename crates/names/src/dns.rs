//! Asks the DNS: RFC 3263 §4 over RFC 3403, 2782 and 1035.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ProtocolConfig, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::rr::{
        Name, RData, RecordType,
        rdata::{NAPTR, SRV},
    },
};
use tokio::{task::JoinSet, time::timeout};

use crate::{Answer, Error, Limits, Question, Target, Transport};

/// The least and greatest lifetime of an answer. Within them, the records' time to live counts.
const GOOD_FOR: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 60 * 60)];
/// The same for an answer that there is no server (RFC 2308 §5).
const NONE_FOR: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15 * 60)];
/// The lifetime of an answer that there is no server, if the answer does not tell one.
const NONE_DEFAULT: Duration = Duration::from_secs(5);
/// How long the client does not ask again after the DNS failed (RFC 9520 §3.2).
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How often the client sends a question over UDP within its time limit.
const ATTEMPTS: usize = 3;
/// The most services of a domain that are asked for.
const SERVICES_MAX: usize = 8;
/// The most servers of a name. The rest is ignored, because each server needs a question of its
/// own.
const TARGETS_MAX: usize = 256;

/// The result of a question, and how long it is valid.
pub(crate) struct Outcome {
    pub(crate) answer: Result<Answer, Error>,
    pub(crate) good_for: Duration,
}

impl Outcome {
    pub(crate) fn failed(why: &str) -> Self {
        Self {
            answer: Err(Error::Unavailable(why.into())),
            good_for: RETRY_AFTER,
        }
    }
}

/// A resolver for these DNS servers, or for those of the machine.
pub(crate) fn resolver(servers: &[SocketAddr], limits: &Limits) -> io::Result<TokioResolver> {
    let runtime = TokioRuntimeProvider::default();
    let mut builder = if servers.is_empty() {
        TokioResolver::builder(runtime).map_err(|error| {
            io::Error::other(format!(
                "can't read the DNS servers from /etc/resolv.conf: {error}"
            ))
        })?
    } else {
        let servers = servers.iter().map(|server| name_server(*server)).collect();
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        TokioResolver::builder_with_config(config, runtime)
    };
    let options: &mut ResolverOpts = builder.options_mut();
    options.timeout = limits.wait_max / ATTEMPTS as u32;
    options.attempts = ATTEMPTS - 1;
    options.max_active_requests = limits.lookups;
    options.cache_size = 0;
    builder.build().map_err(io::Error::other)
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connection = |protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = address.port();
        connection
    };
    let connections = [ProtocolConfig::Udp, ProtocolConfig::Tcp].map(connection);
    NameServerConfig::new(address.ip(), true, connections.into())
}

/// Asks, for at most `wait_max`. If a part fails, the part of the `last` answer stays.
pub(crate) async fn look_up(
    resolver: &TokioResolver,
    question: &Question,
    last: Option<&Answer>,
    wait_max: Duration,
) -> Outcome {
    let asker = Asker { resolver, last };
    let asked = timeout(wait_max, asker.ask(question)).await;
    match asked.unwrap_or_else(|_| Err(Missing::failed(&"it did not answer in time"))) {
        Ok((targets, good_for)) => Outcome {
            answer: Ok(Answer {
                targets,
                stale: None,
            }),
            good_for: good_for.clamp(GOOD_FOR[0], GOOD_FOR[1]),
        },
        Err(Missing::None(good_for)) => Outcome {
            answer: Err(Error::NotFound),
            good_for: good_for.clamp(NONE_FOR[0], NONE_FOR[1]),
        },
        Err(Missing::Failed(error)) => {
            tracing::debug!("{question:?}: {error}");
            let stale = |last: &Answer| Answer {
                targets: last.targets.clone(),
                stale: Some(error.clone()),
            };
            Outcome {
                answer: last.map(stale).ok_or_else(|| error.clone()),
                good_for: RETRY_AFTER,
            }
        }
    }
}

/// Why there are no records.
enum Missing {
    /// The DNS says that there are none, for this long.
    None(Duration),
    /// The DNS fails.
    Failed(Error),
}

impl Missing {
    fn failed(why: &dyn std::fmt::Display) -> Self {
        Self::Failed(Error::Unavailable(why.to_string().into()))
    }
}

impl From<NetError> for Missing {
    fn from(error: NetError) -> Self {
        match error {
            NetError::Dns(DnsError::NoRecordsFound(none)) => {
                let seconds = none.negative_ttl.map(u64::from);
                Self::None(seconds.map_or(NONE_DEFAULT, Duration::from_secs))
            }
            error => Self::failed(&error),
        }
    }
}

/// The records, and how long they are valid.
type Found<T> = Result<(T, Duration), Missing>;

struct Asker<'a> {
    resolver: &'a TokioResolver,
    last: Option<&'a Answer>,
}

impl Asker<'_> {
    async fn ask(&self, question: &Question) -> Found<Vec<Target>> {
        match question {
            Question::Service(name) => self.service(name).await,
            Question::Host(name, port) => self.host(name, *port).await,
            Question::Domain(name, transport) => self.domain(name, *transport).await,
        }
    }

    /// RFC 3263 §4.1, §4.2.
    async fn domain(&self, name: &str, wanted: Option<Transport>) -> Found<Vec<Target>> {
        if let Some(transport) = wanted {
            let service = (transport, format!("{}.{name}", transport.in_srv()));
            return match self.services(&[service]).await {
                Err(Missing::None(_)) => self.host_by(name, transport).await,
                found => found,
            };
        }
        match self.naptr(name).await {
            Ok((services, naptr_for)) => {
                let (targets, good_for) = self.services(&services).await?;
                Ok((targets, good_for.min(naptr_for)))
            }
            Err(Missing::None(_)) => {
                let service = |of: Transport| (of, format!("{}.{name}", of.in_srv()));
                match self.services(&Transport::ALL.map(service)).await {
                    Err(Missing::None(_)) => self.host_by(name, Transport::Udp).await,
                    found => found,
                }
            }
            Err(failed) => Err(failed),
        }
    }

    /// The services of the records for SIP, in the order in which they are to be tried. A domain that has records
    /// for other services alone can't be reached.
    async fn naptr(&self, name: &str) -> Found<Vec<(Transport, String)>> {
        let (records, good_for) = records(self.resolver, name, RecordType::NAPTR).await?;
        let naptr = |data: &RData| match data {
            RData::NAPTR(naptr) => Some(naptr.clone()),
            _ => None,
        };
        let mut records: Vec<NAPTR> = records.iter().filter_map(naptr).collect();
        if records.is_empty() {
            return Err(Missing::None(good_for));
        }
        records.sort_by_key(|naptr| (naptr.order, naptr.preference));
        let known = |naptr: &NAPTR| {
            let is_it = |of: &Transport| {
                naptr
                    .services
                    .eq_ignore_ascii_case(of.in_naptr().as_bytes())
            };
            let transport = Transport::ALL.into_iter().find(is_it)?;
            let is_service = naptr.flags.eq_ignore_ascii_case(b"s");
            is_service.then(|| (transport, naptr.replacement.to_string()))
        };
        let mut services: Vec<_> = records.iter().filter_map(known).collect();
        services.truncate(SERVICES_MAX);
        if services.is_empty() {
            return Err(Missing::failed(
                &"the domain takes no SIP over UDP, TCP or TLS",
            ));
        }
        Ok((services, good_for))
    }

    /// The servers of several services, one after the other. If one of them fails, those of the others are there.
    async fn services(&self, services: &[(Transport, String)]) -> Found<Vec<Target>> {
        let mut all = Vec::new();
        let (mut good_for, mut missing) = (Duration::MAX, None);
        for (transport, name) in services {
            match self.service(name).await {
                Ok((targets, found_for)) => {
                    good_for = good_for.min(found_for);
                    let of_service = |target: Target| Target {
                        transport: Some(*transport),
                        ..target
                    };
                    all.extend(targets.into_iter().map(of_service));
                }
                Err(Missing::None(none_for)) => {
                    good_for = good_for.min(none_for.max(GOOD_FOR[0]));
                    missing = missing.or(Some(Missing::None(none_for)));
                }
                Err(failed) => {
                    good_for = good_for.min(RETRY_AFTER);
                    missing = Some(failed);
                }
            }
        }
        match missing {
            Some(missing) if all.is_empty() => Err(missing),
            _ => Ok((all, good_for)),
        }
    }

    async fn host_by(&self, name: &str, transport: Transport) -> Found<Vec<Target>> {
        let (mut targets, good_for) = self.host(name, transport.default_port()).await?;
        for target in &mut targets {
            target.transport = Some(transport);
        }
        Ok((targets, good_for))
    }

    /// The servers of SRV records. If the look-up of a server's addresses fails, its last known
    /// addresses stay.
    async fn service(&self, name: &str) -> Found<Vec<Target>> {
        let (records, mut good_for) = records(self.resolver, name, RecordType::SRV).await?;
        let srv = |data: &RData| match data {
            RData::SRV(srv) if !srv.target.is_root() => Some(srv.clone()),
            _ => None,
        };
        let services: Vec<SRV> = records.iter().filter_map(srv).take(TARGETS_MAX).collect();
        let mut asked = JoinSet::new();
        for (place, srv) in services.into_iter().enumerate() {
            let resolver = self.resolver.clone();
            asked.spawn(async move {
                let found = addresses(&resolver, &srv.target.to_string()).await;
                (place, srv, found)
            });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(place, ..)| *place);
        let mut targets = Vec::new();
        let mut failed = None;
        for (_, srv, found) in answers {
            let mut target = target_of(&srv);
            let (found, found_for) = match found {
                Ok(found) => found,
                Err(Missing::None(none_for)) => (Vec::new(), none_for),
                Err(Missing::Failed(error)) => {
                    failed = Some(error);
                    (self.last_addresses(&target), RETRY_AFTER)
                }
            };
            good_for = good_for.min(found_for);
            target.addresses = found;
            targets.extend(Some(target).filter(|target| !target.addresses.is_empty()));
        }
        match (targets.is_empty(), failed) {
            (false, _) => Ok((targets, good_for)),
            (true, Some(error)) => Err(Missing::Failed(error)),
            (true, None) => Err(Missing::None(good_for)),
        }
    }

    fn last_addresses(&self, target: &Target) -> Vec<IpAddr> {
        let is_it = |last: &&Target| last.name == target.name && last.port == target.port;
        let last = self.last.and_then(|last| last.targets.iter().find(is_it));
        last.map_or_else(Vec::new, |last| last.addresses.clone())
    }

    async fn host(&self, name: &str, port: u16) -> Found<Vec<Target>> {
        let (addresses, good_for) = addresses(self.resolver, name).await?;
        let target = Target {
            name: name.into(),
            transport: None,
            priority: 0,
            weight: 0,
            port,
            addresses,
        };
        Ok((vec![target], good_for))
    }
}

fn target_of(srv: &SRV) -> Target {
    Target {
        name: srv.target.to_string().to_ascii_lowercase().into(),
        transport: None,
        priority: srv.priority,
        weight: srv.weight,
        port: srv.port,
        addresses: Vec::new(),
    }
}

async fn records(resolver: &TokioResolver, name: &str, kind: RecordType) -> Found<Vec<RData>> {
    let Ok(name) = Name::from_utf8(name) else {
        return Err(Missing::None(NONE_DEFAULT));
    };
    let lookup = resolver.lookup(name, kind).await?;
    let ttl_s = lookup.answers().iter().map(|record| record.ttl).min();
    let records = lookup.answers().iter().map(|record| record.data.clone());
    Ok((
        records.collect(),
        Duration::from_secs(ttl_s.map_or(0, u64::from)),
    ))
}

/// The IPv4 and IPv6 addresses of a host. One kind is enough if the other fails.
async fn addresses(resolver: &TokioResolver, name: &str) -> Found<Vec<IpAddr>> {
    let (v4, v6) = tokio::join!(
        records(resolver, name, RecordType::A),
        records(resolver, name, RecordType::AAAA)
    );
    let mut addresses = Vec::new();
    let mut good_for = Duration::MAX;
    let mut missing = None;
    for found in [v4, v6] {
        match found {
            Ok((records, found_for)) => {
                addresses.extend(records.iter().filter_map(RData::ip_addr));
                good_for = good_for.min(found_for);
            }
            Err(failed @ Missing::Failed(_)) => missing = Some(failed),
            Err(none) => missing = missing.or(Some(none)),
        }
    }
    match missing {
        Some(missing) if addresses.is_empty() => Err(missing),
        _ => Ok((addresses, good_for)),
    }
}
