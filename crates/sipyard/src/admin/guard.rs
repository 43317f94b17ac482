//! Guards the admin API on TCP: against clients without a token, and against web pages. A browser on
//! this machine sends requests to a loopback address for any page that it shows, without the
//! operator's knowledge.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{AUTHORIZATION, HOST, ORIGIN, WWW_AUTHENTICATE},
        uri::Authority,
    },
    middleware::Next,
    response::Response,
};

use super::refusal::refused;
use crate::{config::Admin, serve::Control, token::Role};

/// What a client on TCP must show.
#[derive(Clone, Copy, Debug)]
pub(super) enum Access {
    /// A token with the role; nothing on a loopback address.
    OpenOnLoopback(Role),
    /// A token with the role, wherever the client is.
    Token(Role),
}

/// Refuses a client whose token does not have the role.
pub(super) async fn require(
    State((control, access)): State<(Arc<Control>, Access)>,
    request: Request,
    next: Next,
) -> Response {
    let Err((status, problem)) = check_token(&control.admin(), access, request.headers()) else {
        return next.run(request).await;
    };
    let mut response = refused(status, vec![problem]);
    if status == StatusCode::UNAUTHORIZED {
        let challenge = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Logs what operators change: who, what, and how it ended. Nothing that only reads is logged. Records are read and
/// changed at one path, so they have their own line.
pub(super) async fn audit(
    State(control): State<Arc<Control>>,
    request: Request,
    next: Next,
) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let is_change = method != Method::GET && uri.path() != crate::store::PATH;
    let who = who(&control.admin(), request.headers());
    let response = next.run(request).await;
    if is_change {
        let path = uri.path_and_query().map_or("", |path| path.as_str());
        let status = response.status().as_u16();
        tracing::info!("audit: {who}: {method} {path}: {status}");
    }
    response
}

/// Who sends: a token by the beginning of its hash, or whoever may open the socket.
pub(super) fn who(admin: &Admin, headers: &HeaderMap) -> String {
    let shown = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let shown = shown.and_then(|shown| shown.strip_prefix(b"Bearer "));
    let known = shown.and_then(|shown| admin.tokens.iter().find(|token| token.is(shown)));
    known.map_or_else(
        || "the Unix socket".to_owned(),
        |token| format!("the token {}", token.beginning()),
    )
}

/// Whether a client may do what needs this access.
fn check_token(
    admin: &Admin,
    access: Access,
    headers: &HeaderMap,
) -> Result<(), (StatusCode, String)> {
    let (role, is_open) = match access {
        Access::OpenOnLoopback(role) => (role, admin.address.ip().is_loopback()),
        Access::Token(role) => (role, false),
    };
    let shown = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let Some(shown) = shown.and_then(|shown| shown.strip_prefix(b"Bearer ")) else {
        if is_open {
            return Ok(());
        }
        let problem = format!(
            "this needs a token with the role {}, which `sipyard token` makes, or on the node's \
             machine the Unix socket {}",
            role.as_str(),
            admin.socket.display()
        );
        return Err((StatusCode::UNAUTHORIZED, problem));
    };
    match admin.tokens.iter().find(|token| token.is(shown)) {
        Some(token) if token.role >= role => Ok(()),
        Some(token) => {
            let (has, needs) = (token.role.as_str(), role.as_str());
            let problem = format!("the token has the role {has}, and this needs {needs}");
            Err((StatusCode::FORBIDDEN, problem))
        }
        None => {
            let problem = "the token is none of admin.tokens".to_owned();
            Err((StatusCode::UNAUTHORIZED, problem))
        }
    }
}

/// Refuses requests of web pages of other sites.
pub(super) async fn guard(
    State(control): State<Arc<Control>>,
    request: Request,
    next: Next,
) -> Response {
    let admin = control.admin();
    match check(admin.address, admin.scheme(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => refused(StatusCode::FORBIDDEN, vec![problem]),
    }
}

/// Against cross-site requests: the Origin header, if there is one, must name the API itself.
/// Against DNS rebinding: the Host header must be an address or `localhost`, because another site
/// can lead its own name to a loopback address. By TLS it can't, as the certificate is not of that
/// name. Programs send no Origin.
fn check(listener: SocketAddr, scheme: &str, headers: &HeaderMap) -> Result<(), String> {
    let host = text(headers, HOST).unwrap_or_default();
    if let Some(origin) = text(headers, ORIGIN)
        && !origin.eq_ignore_ascii_case(&format!("{scheme}://{host}"))
    {
        return Err(format!(
            "Origin {origin} is not {scheme}://{host}: web pages of other sites can't use the admin \
             API; use sipyard ctl, or send no Origin header"
        ));
    }
    if scheme == "http" && listener.ip().is_loopback() && is_foreign(&host) {
        return Err(format!(
            "Host {host} is a name that another site could lead here: use http://{listener} or \
             http://localhost:{}",
            listener.port()
        ));
    }
    Ok(())
}

/// Whether the host is a name other than `localhost`.
fn is_foreign(host: &str) -> bool {
    let authority = host.parse::<Authority>();
    let name = authority.as_ref().map_or(host, Authority::host);
    let is_ip = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    !(name.is_empty() || is_ip || name.eq_ignore_ascii_case("localhost"))
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(listener: &str, host: Option<&str>, origin: Option<&str>) -> bool {
        answer_by("http", listener, host, origin)
    }

    fn answer_by(scheme: &str, listener: &str, host: Option<&str>, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in [(HOST, host), (ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        check(listener.parse().unwrap(), scheme, &headers).is_ok()
    }

    #[test]
    fn a_loopback_address_goes_by_no_foreign_name() {
        for (host, is_good) in [
            (None, true),
            (Some("127.0.0.1:8060"), true),
            (Some("127.0.0.1"), true),
            (Some("[::1]:8060"), true),
            (Some("localhost:8060"), true),
            (Some("LocalHost"), true),
            (Some("rebound.example:8060"), false),
            (Some("localhost.example:8060"), false),
            (Some("127.0.0.1.example"), false),
            (Some("2130706433:8060"), false),
            (Some("a b"), false),
        ] {
            assert_eq!(answer("127.0.0.1:8060", host, None), is_good, "{host:?}");
            assert_eq!(answer("[::1]:8060", host, None), is_good, "{host:?}");
            assert!(answer("10.0.0.2:8060", host, None), "{host:?}");
        }
    }

    #[test]
    fn a_certificate_tells_foreign_names() {
        let by_tls =
            |origin| answer_by("https", "127.0.0.1:8060", Some("edge.example:8060"), origin);
        assert!(by_tls(None));
        assert!(by_tls(Some("https://edge.example:8060")));
        assert!(!by_tls(Some("http://edge.example:8060")));
        assert!(!by_tls(Some("https://other.example:8060")));
    }

    #[test]
    fn an_origin_is_the_apis_own() {
        for (origin, is_good) in [
            ("http://10.0.0.2:8060", true),
            ("https://10.0.0.2:8060", false),
            ("http://10.0.0.2", false),
            ("http://evil.example", false),
            ("null", false),
            ("", false),
        ] {
            let host = Some("10.0.0.2:8060");
            let good = answer("10.0.0.2:8060", host, Some(origin));
            assert_eq!(good, is_good, "{origin}");
        }
        assert!(!answer("10.0.0.2:8060", None, Some("http://10.0.0.2:8060")));
    }
}
