//! The address of a store, as configurations write it.

use std::{fmt, path::PathBuf, str::FromStr};

const REDIS_PORT: u16 = 6379;

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// `memory`: in this process; the entries are lost when it ends.
    Memory,
    /// `file:PATH`: in a file, on one machine.
    File(PathBuf),
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]`: a Redis or Valkey server, the
    /// sentinels that know it, or nodes of a cluster.
    Redis(RedisAddress),
}

/// The address of Redis or Valkey.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisAddress {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: Vec<(String, u16)>,
}

impl fmt::Debug for RedisAddress {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|(host, port)| format!("{host}:{port}"))
            .collect();
        write!(f, "redis://{}", hosts.join(","))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Redis(redis) => write!(f, "{redis:?}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "memory" {
            return Ok(Self::Memory);
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        match text.strip_prefix("redis://") {
            Some(rest) => redis(rest).map(Self::Redis),
            // The text may have a password in it.
            None => Err("this is not a store: write \"memory\", \"file:PATH\" or \
                         \"redis://HOST:PORT[,HOST:PORT...]\""
                .into()),
        }
    }
}

fn redis(text: &str) -> Result<RedisAddress, String> {
    let (who, hosts) = match text.rsplit_once('@') {
        Some((who, hosts)) => (Some(who), hosts),
        None => (None, text),
    };
    let (user, password) = match who {
        None => (None, None),
        Some(who) => {
            let (user, password) = who.split_once(':').ok_or(
                "write USER:PASSWORD between redis:// and @, or :PASSWORD for the default user",
            )?;
            (
                (!user.is_empty()).then(|| user.to_owned()),
                Some(password.to_owned()),
            )
        }
    };
    let hosts: Result<Vec<_>, String> = hosts.split(',').map(host_and_port).collect();
    Ok(RedisAddress {
        user,
        password,
        hosts: hosts?,
    })
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let bad = || {
        format!("\"{text}\" is not HOST:PORT, such as \"10.0.0.5:6379\" or \"[2001:db8::5]:6379\"")
    };
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
        _ => (text, REDIS_PORT),
    };
    let plain = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(bad)?,
        None if host.contains(':') => return Err(bad()),
        None => host,
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    if plain.is_empty() || port == 0 || !plain.chars().all(is_host) {
        return Err(bad());
    }
    Ok((plain.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, String> {
        text.parse::<Address>().map(|address| match address {
            Address::Redis(redis) => {
                format!("{:?} {:?} {:?}", redis.hosts, redis.user, redis.password)
            }
            address => address.to_string(),
        })
    }

    #[test]
    fn addresses_are_read() {
        let cases = [
            ("memory", Some("memory")),
            ("file:/var/lib/x.db", Some("file:/var/lib/x.db")),
            ("redis://h", Some("[(\"h\", 6379)] None None")),
            (
                "redis://10.0.0.5:7000,[2001:db8::5]:7001,[::1]",
                Some("[(\"10.0.0.5\", 7000), (\"2001:db8::5\", 7001), (\"::1\", 6379)] None None"),
            ),
            ("redis://:p@w@h:1", Some("[(\"h\", 1)] None Some(\"p@w\")")),
            (
                "redis://u:p@h:1",
                Some("[(\"h\", 1)] Some(\"u\") Some(\"p\")"),
            ),
            ("redis://u@h:1", None),
            ("redis://", None),
            ("redis://h:0", None),
            ("redis://h:65536", None),
            ("redis://h,", None),
            ("redis://h/1", None),
            ("redis://2001:db8::5", None),
            ("file:", None),
            ("mysql://h", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text).ok().as_deref(), expected, "{text}");
        }
        let shown = "redis://u:secret@h:1".parse::<Address>().unwrap();
        assert_eq!(
            format!("{shown} {shown:?}"),
            "redis://h:1 Redis(redis://h:1)"
        );
    }
}
