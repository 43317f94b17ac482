//! Who registers, and who calls: RFC 3261 §22, RFC 7616, RFC 8760.

use std::net::IpAddr;

use abuse::{Failure, Login, Source};
use fastrand::Rng;
use location::{Aor, NONCE_LIFETIME, Subscriber, UsedNonce};
use sip::{
    HeaderName, Uri,
    digest::{Algorithm, Challenge, Credentials, Ha1, Nonce, Nonces, Verdict, Verifier},
};

use super::wish::Wish;
use crate::{
    config,
    context::Context,
    question::Record,
    stats::Event,
    strangers::phone_behind_edge,
    wire::{keys::Keys, reply::Reply, request::Request},
};

/// Nonces whose counts a worker follows; of older ones it says that they are stale.
const NONCES_MAX: usize = 65_536;

/// Bytes of a user's name that are told to the log and tell failed logins apart.
const USER_BYTES_MAX: usize = 64;

/// In which role the node asks for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// RFC 3261 §22.2
    Registrar,
    /// RFC 3261 §22.3
    Proxy,
}

/// Whom a request has to be from.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    pub(super) role: Role,
    pub(super) realm: &'a str,
    /// None: no user of the realm.
    pub(super) user: Option<&'a Aor>,
}

/// A claim to be somebody, and where it is written who they are.
pub(super) struct Proof<'a> {
    pub(super) subscriber: Box<[u8]>,
    user: Aor,
    credentials: Credentials<'a>,
}

impl Proof<'_> {
    /// Whether the credentials name whom the request calls, so that they are good at other nodes, too.
    pub(super) fn is_for_target(&self, request: &Request<'_>) -> bool {
        let target = &request.path.target;
        let shown = Uri::parse(self.credentials.uri);
        shown.is_ok_and(|uri| uri.user == target.user && uri.host.matches(&target.host))
    }

    /// What a node that gets the same credentials later must know to refuse them.
    pub(super) fn used_nonce(&self) -> Option<UsedNonce> {
        let Nonce { issued_s, random } = Nonce::read(self.credentials.nonce)?;
        Some(UsedNonce {
            issued_s,
            random,
            count: self.credentials.nc,
        })
    }
}

/// Challenges and checks those who register or call.
#[derive(Debug)]
pub(super) struct Authenticator {
    verifier: Verifier,
    rng: Rng,
}

impl Authenticator {
    pub(super) fn new(keys: &Keys, rng: Rng) -> Self {
        let nonces = Nonces::new(keys.nonce(), NONCE_LIFETIME);
        Self {
            verifier: Verifier::new(nonces, NONCES_MAX),
            rng,
        }
    }

    /// A Retry-After in seconds. Phones that were all refused at once shall not all come back at once.
    pub(super) fn retry_after_s(&mut self) -> u64 {
        self.rng.u64(5..=15)
    }

    /// What the sender of a request shows; none where nobody needs to. Without any, a challenge is the
    /// answer.
    pub(super) fn proof<'a>(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'a>,
        claim: &Claim<'_>,
    ) -> Result<Option<Proof<'a>>, Reply> {
        if config.algorithms.is_empty() {
            return Ok(None);
        }
        let shown = request.message.header_values(claim.role.credentials());
        let credentials = shown
            .filter_map(|value| Credentials::parse(value).ok())
            .find(|shown| is_for(cx, config, request, claim, shown));
        let user = credentials
            .and_then(|shown| Aor::new(str::from_utf8(shown.username).ok()?, claim.realm));
        match credentials.zip(user) {
            Some((credentials, user)) => Ok(Some(Proof {
                subscriber: Subscriber::key_of(&user).into(),
                user,
                credentials,
            })),
            None => Err(self.challenge(cx, config, request, claim, false)),
        }
    }

    /// Accepts a request if its credentials are valid and their user is whom it has to be from; for a
    /// REGISTER these are RFC 3261 §10.3 steps 3 and 4. Returns whether the same credentials were accepted before. An
    /// unknown user gets, after the same work, the answer of a wrong password.
    pub(super) fn check(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        claim: &Claim<'_>,
        proof: &Proof<'_>,
        record: Option<Record>,
    ) -> Result<bool, Reply> {
        let login = self.login(cx, request, proof);
        // Who has not even heard our challenge may be anybody: that is no guess to hold against the user.
        if !login.is_proven && !cx.snapshot.is_known(login.from) {
            return Err(self.challenge(cx, config, request, claim, true));
        }
        let (guard, rules) = (cx.shared.guard(), &cx.snapshot.config().abuse.rules);
        if !guard.may_log_in(cx.now, rules, &login) {
            cx.stats.count(Event::GuessRefused, 1);
            return Err(self.challenge(cx, config, request, claim, false));
        }
        let algorithm = proof.credentials.algorithm;
        let subscriber =
            record.and_then(|record| Subscriber::read(&proof.subscriber, &record.value).ok());
        let ha1 = subscriber.and_then(|subscriber| secret(&subscriber, algorithm));
        let verdict = self.verifier.verify(
            cx.wall(),
            &proof.credentials,
            request.method.as_bytes(),
            request.call_id,
            &ha1.unwrap_or_else(|| nobodys(algorithm)),
        );
        if ha1.is_none() || verdict == Verdict::Wrong {
            fail(cx, &login);
            return Err(self.challenge(cx, config, request, claim, false));
        }
        if verdict == Verdict::Stale {
            return Err(self.challenge(cx, config, request, claim, true));
        }
        if claim.user != Some(&proof.user) {
            fail(cx, &login);
            return Err(Reply::new(403));
        }
        if verdict == Verdict::Good {
            guard.logged_in(cx.now, &login);
        }
        Ok(verdict == Verdict::Replayed)
    }

    /// Who wants to log in, and whether they have shown that they receive what is sent to their address:
    /// the nonce was sent there, and contains a MAC of it.
    fn login<'p>(&self, cx: Context<'_>, request: &Request<'_>, proof: &'p Proof<'_>) -> Login<'p> {
        let from = sender(cx, request);
        let nonces = self.verifier.nonces();
        let random = nonces.random(cx.wall(), proof.credentials.nonce, request.call_id);
        let source = Source::from(from).octets();
        let is_sent_there =
            |random| cx.snapshot.keys().of_source(&source, (random >> 32) as u32) == random;
        let user = proof.user.user();
        Login {
            from,
            user: &user[..user.floor_char_boundary(USER_BYTES_MAX)],
            realm: proof.user.domain(),
            is_proven: random.is_some_and(is_sent_there) && !cx.snapshot.is_known(from),
        }
    }

    pub(super) fn challenge(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        claim: &Claim<'_>,
        stale: bool,
    ) -> Reply {
        let source = Source::from(sender(cx, request)).octets();
        let random = cx.snapshot.keys().of_source(&source, self.rng.u32(..));
        let nonces = self.verifier.nonces();
        let nonce = nonces.issue(cx.wall(), random, request.call_id);
        let challenge = Challenge {
            realm: claim.realm,
            nonce: &nonce,
            stale,
        };
        let algorithms = config.algorithms.iter();
        let (status, name) = claim.role.challenge();
        let header = |algorithm: &Algorithm| (name, challenge.value(*algorithm));
        Reply {
            headers: algorithms.map(header).collect(),
            ..Reply::new(status)
        }
    }
}

impl Role {
    /// The status of a challenge, and the field that it stands in.
    fn challenge(self) -> (u16, &'static str) {
        match self {
            Self::Registrar => (401, "WWW-Authenticate"),
            Self::Proxy => (407, "Proxy-Authenticate"),
        }
    }

    fn credentials(self) -> HeaderName {
        match self {
            Self::Registrar => HeaderName::Authorization,
            Self::Proxy => HeaderName::ProxyAuthorization,
        }
    }
}

impl<'a> Claim<'a> {
    /// A REGISTER is to be from the user whose bindings it changes.
    pub(super) fn of(wish: &'a Wish<'_>) -> Self {
        Self {
            role: Role::Registrar,
            realm: wish.aor.domain(),
            user: Some(&wish.aor),
        }
    }
}

/// Whether credentials answer a challenge for this realm. RFC 7616 §3.4.6: for this resource, too. For a
/// REGISTER, proxies on the way may have changed all of its URI but the domain. Credentials for a call
/// are good for whom it calls, or for this node.
fn is_for(
    cx: Context<'_>,
    config: &config::Registrar,
    request: &Request<'_>,
    claim: &Claim<'_>,
    shown: &Credentials<'_>,
) -> bool {
    let target = &request.path.target;
    let is_resource = |uri: Uri<'_>| match claim.role {
        Role::Registrar => config.has(&uri.host) || cx.snapshot.is_our_uri(&uri),
        Role::Proxy if uri.user.is_none() && cx.snapshot.is_our_uri(&uri) => true,
        Role::Proxy => uri.user == target.user && uri.host.matches(&target.host),
    };
    shown.realm == claim.realm.as_bytes()
        && config.algorithms.contains(&shown.algorithm)
        && Uri::parse(shown.uri).is_ok_and(is_resource)
}

/// Who sent a request: the phone, also behind an edge of the cluster.
fn sender(cx: Context<'_>, request: &Request<'_>) -> IpAddr {
    let flow = request.datagram.flow;
    let phone = phone_behind_edge(cx.snapshot, flow, request.message);
    phone.unwrap_or_else(|| flow.remote.ip())
}

/// Counts wrong credentials, and holds them against their source as far as they prove anything.
fn fail(cx: Context<'_>, login: &Login<'_>) {
    cx.stats.count(Event::WrongCredentials, 1);
    let rules = &cx.snapshot.config().abuse.rules;
    match cx.shared.guard().login_failed(cx.now, rules, login) {
        Failure::Counted => {}
        Failure::Banned => cx.stats.count(Event::SourceBanned, 1),
        Failure::BansFull => cx.stats.count(Event::BansFull, 1),
    }
}

fn secret(subscriber: &Subscriber, algorithm: Algorithm) -> Option<Ha1> {
    match algorithm {
        Algorithm::Sha256 => subscriber.ha1_sha256.map(Ha1::Sha256),
        Algorithm::Md5 => subscriber.ha1_md5.map(Ha1::Md5),
    }
}

/// A secret that nobody has the password of.
fn nobodys(algorithm: Algorithm) -> Ha1 {
    match algorithm {
        Algorithm::Sha256 => Ha1::Sha256([0; 32]),
        Algorithm::Md5 => Ha1::Md5([0; 16]),
    }
}
