//! A client of a node's admin API: HTTP on a Unix socket or on TCP, HTTPS on TCP.
//!
//! [`Client::ask`] sends one request and returns the whole [`Answer`]. The client does not
//! interpret paths and bodies.

mod authorities;
mod socket;

use std::{env, error, fmt, path::Path, time::Duration};

use ureq::{Agent, http::Request, unversioned::resolver::DefaultResolver};

pub use socket::default_socket;

use authorities::security;
use socket::SocketConnector;

/// How long a nearby node may take to answer a short question.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The environment variable with the token that a client shows on TCP. An argument would stand in
/// the list of processes.
pub const TOKEN: &str = "SIPYARD_TOKEN";

/// The environment variable with the file of the authorities that a client believes.
pub const CA: &str = "SIPYARD_CA";

/// What stands for a Unix socket in a URL.
const LOCAL: &str = "http://127.0.0.1";

/// A node's admin API.
#[derive(Debug)]
pub struct Client {
    address: String,
    url: String,
    authorization: Option<String>,
    /// None: why the authorities can't be read.
    agent: Result<Agent, String>,
}

/// The answer of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether the node carried out the request.
    pub is_success: bool,
    /// The whole body.
    pub body: Vec<u8>,
}

/// No answer arrived, or only a part of it.
#[derive(Debug)]
pub struct Unanswered(Cause);

#[derive(Debug)]
enum Cause {
    Http(ureq::Error),
    Authorities(String),
}

impl Client {
    /// Creates a client for the API at `address`: a URL such as `http://127.0.0.1:8060`, or the path
    /// of a Unix socket. It waits at most `patience` for an answer. [`CA`] names whom it believes.
    #[must_use]
    pub fn new(address: &str, patience: Duration) -> Self {
        let authorities = env::var_os(CA).filter(|file| !file.is_empty());
        Self::believing(address, patience, authorities.as_ref().map(Path::new))
    }

    /// The same with a file of the authorities that `https` believes; without one, the system's.
    #[must_use]
    pub fn believing(address: &str, patience: Duration, authorities: Option<&Path>) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // Nodes are on this machine or near it: never behind a proxy.
            .proxy(None)
            // Nodes lead nowhere else. What does is told the token.
            .max_redirects(0)
            .timeout_global(Some(patience));
        let url = url_of(address);
        if let Some(url) = url {
            let is_secure = url.starts_with("https:");
            let agent = match is_secure.then(|| security(authorities)).transpose() {
                Ok(None) => Ok(agent.build().into()),
                Ok(Some(security)) => Ok(agent.tls_config(security).build().into()),
                Err(problem) => Err(problem),
            };
            Self {
                address: address.to_owned(),
                url: url.trim_end_matches('/').to_owned(),
                authorization: env::var(TOKEN).ok().map(|token| format!("Bearer {token}")),
                agent,
            }
        } else {
            let connector = SocketConnector(address.into());
            let resolver = DefaultResolver::default();
            Self {
                address: address.to_owned(),
                url: LOCAL.to_owned(),
                authorization: None,
                agent: Ok(Agent::with_parts(agent.build(), connector, resolver)),
            }
        }
    }

    /// Creates a client for the API at a Unix socket.
    #[must_use]
    pub fn of_socket(path: &Path, patience: Duration) -> Self {
        Self::new(&path.display().to_string(), patience)
    }

    /// Returns the API's address, as it was given.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request for `path`, such as `/metrics`, and waits for the answer.
    ///
    /// # Errors
    /// If the node can't be reached or believed, takes too long, or the URL is wrong.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Answer, Unanswered> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        let own = self.authorization.iter();
        let own = own.map(|value| ("Authorization", value.as_str()));
        for (name, value) in own.chain(headers.iter().copied()) {
            request = request.header(name, value);
        }
        let request = request.body(body).map_err(ureq::Error::from)?;
        let agent = self.agent.as_ref();
        let agent = agent.map_err(|problem| Unanswered(Cause::Authorities(problem.clone())))?;
        let mut response = agent.run(request)?;
        let is_success = response.status().is_success();
        let body = response.body_mut().with_config().limit(u64::MAX);
        let body = body.read_to_vec()?;
        Ok(Answer { is_success, body })
    }
}

impl Answer {
    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The URL of an address on TCP: a URL, or HOST:PORT as other tools take it; none: it is a path.
fn url_of(address: &str) -> Option<String> {
    if address.contains("://") {
        return Some(address.to_owned());
    }
    let (host, port) = address.rsplit_once(':')?;
    let is_host = !host.is_empty() && !host.contains('/');
    (is_host && port.parse::<u16>().is_ok()).then(|| format!("http://{address}"))
}

impl From<ureq::Error> for Unanswered {
    fn from(error: ureq::Error) -> Self {
        Self(Cause::Http(error))
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Http(error) => {
                error.fmt(f)?;
                f.write_str(authorities::advice(&error.to_string()))
            }
            Cause::Authorities(problem) => f.write_str(problem),
        }
    }
}

impl error::Error for Unanswered {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match &self.0 {
            Cause::Http(error) => error.source(),
            Cause::Authorities(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--admin 10.0.0.2:8060` was taken for a path.
    #[test]
    fn an_address_is_a_url_a_host_with_a_port_or_a_path() {
        for (address, url) in [
            ("http://10.0.0.2:8060", Some("http://10.0.0.2:8060")),
            ("https://edge", Some("https://edge")),
            ("10.0.0.2:8060", Some("http://10.0.0.2:8060")),
            ("[::1]:8060", Some("http://[::1]:8060")),
            (
                "edge.example.com:8060",
                Some("http://edge.example.com:8060"),
            ),
            ("/run/sipyard/8060.sock", None),
            ("admin.sock", None),
            ("./a:1", None),
            ("a:sock", None),
        ] {
            assert_eq!(url_of(address).as_deref(), url, "{address}");
        }
    }
}
