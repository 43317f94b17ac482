//! Which requests a route is for.

use sip::{Host, Method, Uri};
use transaction::Flow;

use crate::config::Route;

/// What routes look at in a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traits<'a> {
    /// Who sent it, and the listener that was hit.
    pub(crate) flow: Flow,
    pub(crate) method: Method<'a>,
    /// The Request-URI, after the strict-route fix-up.
    pub(crate) target: Uri<'a>,
}

/// Why no route takes a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    /// None is for its sender and its target: 404.
    Target,
    /// None of those is for its method: 405.
    Method,
}

impl Route {
    /// Whether it is for a request, whichever its method. `is_trusted` says whether its sender is believed.
    pub(crate) fn is_for(&self, traits: &Traits<'_>, is_trusted: impl Fn() -> bool) -> bool {
        let Traits { flow, target, .. } = traits;
        let ip = flow.remote.ip();
        any(&self.hosts, |host| is_host(host, &target.host))
            && any(&self.users, |text| target.user_begins_with(text.as_bytes()))
            && any(&self.listeners, |listener| *listener == flow.listener)
            && any(&self.from, |source| source.has(ip, &is_trusted))
    }

    /// Whether it is for requests of a method.
    pub(crate) fn allows(&self, method: Method<'_>) -> bool {
        let method = method.as_bytes();
        any(&self.methods, |listed| listed.as_bytes() == method)
    }
}

/// Whether one of a list will do; an empty list lets everything through.
fn any<T>(list: &[T], is_it: impl Fn(&T) -> bool) -> bool {
    list.is_empty() || list.iter().any(is_it)
}

/// Whether a host is the one that a configuration lists.
pub(crate) fn is_host(listed: &str, host: &Host<'_>) -> bool {
    match host {
        Host::Name(name) => listed.as_bytes().eq_ignore_ascii_case(name),
        Host::Ip(ip) => listed.trim_matches(['[', ']']).parse() == Ok(*ip),
    }
}
