//! A request as the node sees it: what it needs to know to route it, or why it won't.

use std::net::SocketAddr;

use sip::{CSeq, Fault, HeaderName, Host, Message, Method, NameAddr, Scheme, Uri, Via};
use transaction::{Flow, NextHop};

use super::{
    keys::{EdgeTag, SessionKey},
    nat::is_behind_nat,
    reply::{self, Reply},
    token::{self, Affinity, Client},
    way::{next_hop_of, transport_of},
};
use crate::{
    config, context::Context, io::Datagram, question::Name, routes::Traits, snapshot::Snapshot,
    stats::Event,
};

/// Allow in answers of the node's own, where it has no registrar and where it has. RFC 3261 §11.2
const ALLOW: [&str; 2] = ["OPTIONS", "OPTIONS, REGISTER"];

/// Bytes that a datagram may have on any path. RFC 3261 §18.1.1
const DATAGRAM_BYTES_MAX: usize = 1_300;

/// Bytes that the node adds to a request: its Via and its Record-Routes.
const ADDED_BYTES: usize = 250;

/// RFC 5393 §5.3.3: what a request without Max-Breadth gets, and the most that one may bring.
const BREADTH_MAX: u32 = 60;

/// A request as far as routing needs to know it.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) message: &'a Message<'a>,
    pub(crate) datagram: Datagram<'a>,
    pub(crate) via: Via<'a>,
    pub(crate) method: Method<'a>,
    pub(crate) cseq: CSeq<'a>,
    pub(crate) call_id: &'a [u8],
    pub(crate) from_tag: &'a [u8],
    pub(crate) to_tag: Option<&'a [u8]>,
    /// Max-Forwards as it came.
    hops: Option<u32>,
    pub(crate) key: SessionKey,
    /// Identifies its transaction.
    pub(crate) id: u64,
    pub(crate) path: Path<'a>,
    /// Where the next hop is, if that is a name and was asked for.
    pub(crate) located: Option<NextHop>,
    pub(crate) sender: Sender,
}

/// What is known of who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// Nobody asks.
    Unasked,
    /// A node before this one has checked it, or whoever sent it is believed.
    Known,
    /// The sender has proven here to be the user in the From.
    Proven,
    /// Nobody has checked it, and somebody must.
    Unchecked,
}

/// What Request-URI and Route say once our own values are off.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    /// The target, after the strict-route fix-up.
    pub(crate) uri: &'a [u8],
    pub(crate) target: Uri<'a>,
    /// A strict router sent it: the last Route is the target. RFC 3261 §16.4
    pub(crate) was_strict: bool,
    /// Topmost Route values that are ours.
    pub(crate) own_routes: usize,
    /// The Route value after ours.
    pub(crate) next: Option<NameAddr<'a>>,
    /// What our Route value says of the request's dialog.
    affinity: Result<Option<Affinity>, Forged>,
    /// The phone that our Route value leads to, as it is from a Path of ours. RFC 3327
    pub(crate) phone: Option<Flow>,
    /// The other edge that keeps the connection which it is to take, as the first token says.
    pub(crate) elsewhere: Option<EdgeTag>,
}

/// A token that isn't ours, or that is of another dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forged;

impl<'a> Request<'a> {
    /// Reads what routing needs: RFC 3261 §16.3 step 1 and §16.4.
    pub(crate) fn read(
        snapshot: &Snapshot,
        datagram: Datagram<'a>,
        message: &'a Message<'a>,
    ) -> Result<Self, Reply> {
        if datagram.truncated {
            return Err(refusal_of_cut(datagram.flow, message));
        }
        let sip::Essentials {
            via,
            from_tag,
            to_tag,
            call_id,
            cseq,
            ..
        } = message.essentials()?;
        let key = snapshot.keys().session(call_id);
        let hasher = snapshot.keys().branch(key);
        let id = transaction::identity(hasher, &via, from_tag, call_id, cseq.number);
        let id = key.identify(id);
        let from_tag = from_tag.unwrap_or_default();
        let open = |text: &[u8]| {
            let to_tag = to_tag.unwrap_or_default();
            token::read(snapshot.keys(), text, call_id, from_tag, to_tag)
        };
        let path = Path::read(snapshot, message, open)?;
        let hops = message.max_forwards()?;
        Ok(Self {
            message,
            datagram,
            via,
            method: cseq.method,
            cseq,
            call_id,
            from_tag,
            to_tag,
            hops,
            key,
            id,
            path,
            located: None,
            sender: Sender::Unasked,
        })
    }

    /// Whether its sender has proven here to be the user in its From.
    pub(crate) fn is_proven(&self) -> bool {
        self.sender == Sender::Proven
    }

    /// Whether somebody still has to check who sent it.
    pub(crate) fn is_unchecked(&self) -> bool {
        self.sender == Sender::Unchecked
    }

    /// What routes look at.
    pub(crate) fn traits(&self) -> Traits<'a> {
        Traits {
            flow: self.datagram.flow,
            method: self.method,
            target: self.path.target,
        }
    }

    /// An OPTIONS to the node itself, or to a domain of its registrar: its answer. RFC 3261 §11.2
    pub(crate) fn answer_of_ours(&self, snapshot: &Snapshot) -> Option<Reply> {
        let target = &self.path.target;
        let is_for_us = self.path.next.is_none()
            && target.user.is_none()
            && self.method == Method::Options
            && (snapshot.is_our_uri(target) || self.registrar(snapshot).is_some());
        let register = || Traits {
            method: Method::Register,
            ..self.traits()
        };
        let has_registrar = || snapshot.registrar(&register()).is_some();
        is_for_us.then(|| {
            let allow = ALLOW[usize::from(has_registrar())];
            Reply::new(200).with("Allow", allow.to_owned())
        })
    }

    /// The registrar that its Request-URI names, if requests of its method lead there.
    fn registrar<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s config::Registrar> {
        let target = &self.path.target;
        let registrar = snapshot.registrar(&self.traits())?;
        (registrar.has(&target.host) || snapshot.is_our_uri(target)).then_some(registrar)
    }

    /// Whether it ends at the registrar: nothing is forwarded then.
    fn is_for_registrar(&self, snapshot: &Snapshot) -> bool {
        self.method == Method::Register
            && self.path.next.is_none()
            && self.registrar(snapshot).is_some()
    }

    /// What a proxy checks before it looks where a request goes. RFC 3261 §16.3
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), Reply> {
        if self.hops == Some(0) && !self.is_for_registrar(snapshot) {
            return Err(Reply::new(483));
        }
        if self.is_initial()
            && self.path.next.is_some()
            && !snapshot.is_trusted(self.datagram.flow)
            && !self.stays_inside(snapshot)
        {
            return Err(Reply::because(403, "Route Not Allowed"));
        }
        if self.is_sips() && !self.datagram.flow.transport.is_secure() {
            return Err(Reply::because(416, "SIPS Needs TLS"));
        }
        if self.breadth() == 0 && !matches!(self.method, Method::Ack | Method::Cancel) {
            return Err(Reply::new(440));
        }
        // RFC 3261 §16.3 step 5; ACK and CANCEL must not carry it, §8.2.2.3.
        if self.message.header(HeaderName::ProxyRequire).is_some()
            && !matches!(self.method, Method::Ack | Method::Cancel)
        {
            let required = self.message.header_values(HeaderName::ProxyRequire);
            let required: Vec<_> = required.map(String::from_utf8_lossy).collect();
            return Err(Reply::new(420).with("Unsupported", required.join(", ")));
        }
        Ok(())
    }

    /// Whether its Route leads a stranger's request only where it might go without one. Our servers would
    /// follow the others.
    fn stays_inside(&self, snapshot: &Snapshot) -> bool {
        let mut routes = self.message.routes().skip(self.path.own_routes);
        routes.all(|route| {
            let uri = route.ok().and_then(|route| Uri::parse(route.uri).ok());
            uri.is_some_and(|uri| snapshot.is_open_route(&uri))
        })
    }

    /// Whether each hop of its way must be secure. RFC 5630
    pub(crate) fn is_sips(&self) -> bool {
        self.path.target.scheme == Scheme::Sips
    }

    /// Refuses one whose next hop would not be as secure as it must. RFC 5630 §6.2
    pub(crate) fn check_way(&self, cx: Context<'_>, is_secure: bool) -> Result<(), Reply> {
        if is_secure || !self.is_sips() {
            return Ok(());
        }
        let us = &cx.snapshot.listener(self.datagram.flow.listener).advertise;
        let warning = format!("380 {us} \"SIPS Not Allowed\"");
        Err(Reply::new(480).with("Warning", warning))
    }

    /// Max-Forwards as it goes on: RFC 3261 §16.6 step 3.
    pub(crate) fn hops_left(&self) -> u32 {
        self.hops.map_or(70, |hops| hops.saturating_sub(1))
    }

    /// Max-Breadth, as much of it as the node lets pass: RFC 5393 §5.3.3.
    pub(crate) fn breadth(&self) -> u32 {
        let given = self.message.header(HeaderName::MaxBreadth);
        let given = given.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
        given.unwrap_or(BREADTH_MAX).min(BREADTH_MAX)
    }

    /// It starts no dialog and belongs to none, or starts one.
    pub(crate) fn is_initial(&self) -> bool {
        self.to_tag.is_none()
    }

    /// It starts a dialog if it is accepted. RFC 3261 §12, RFC 6665 §4.1
    pub(crate) fn forms_dialog(&self) -> bool {
        self.is_initial()
            && matches!(
                self.method,
                Method::Invite | Method::Subscribe | Method::Refer | Method::Notify
            )
    }

    /// Its dialog is over when it is answered.
    pub(crate) fn ends_dialog(&self) -> bool {
        match self.method {
            Method::Bye => true,
            Method::Notify => self
                .message
                .header(HeaderName::SubscriptionState)
                .is_some_and(|state| {
                    state.len() >= 10 && state[..10].eq_ignore_ascii_case(b"terminated")
                }),
            _ => false,
        }
    }

    /// The affinity that our Route value carries.
    ///
    /// # Errors
    /// It carries a token, but none of this dialog.
    pub(crate) fn affinity(&self) -> Result<Option<Affinity>, Forged> {
        self.path.affinity
    }

    /// The flow to a server. One that no listener reaches is as one that is silent.
    pub(crate) fn flow_to_server(&self, cx: Context<'_>, address: SocketAddr) -> Flow {
        let (snapshot, hit) = (cx.snapshot, self.datagram.flow.listener);
        let hop = snapshot.next_hop_at(address);
        let flow = snapshot.flow_to(hop, hit);
        let flow = flow.unwrap_or_else(|| Flow::to(hit, hop));
        if self.message.bytes().len() + ADDED_BYTES <= DATAGRAM_BYTES_MAX
            || !snapshot.config().connections.large_by_tcp
        {
            return flow;
        }
        let server = snapshot.member_at(address);
        let hop = server.map(|server| server.hop_of_large(cx.now));
        let large = hop.and_then(|hop| snapshot.twin_flow(flow, hop));
        let is_large = large.is_some_and(|large| large.transport != flow.transport);
        cx.stats.count(Event::LargeByTcp, usize::from(is_large));
        large.unwrap_or(flow)
    }

    /// The client's end of a dialog that it starts from outside. One that is trusted and not behind a
    /// NAT is reached by its route set.
    pub(crate) fn client(&self, snapshot: &Snapshot) -> Client {
        let sender = self.datagram.flow;
        let is_behind_nat = || is_behind_nat(&self.via, sender.remote.ip());
        Client {
            flow: reply::return_flow(Some(&self.via), sender),
            has_route_set: snapshot.is_trusted(sender) && !is_behind_nat(),
        }
    }

    /// The client's end of a dialog that it starts from a server's side.
    pub(crate) fn called_client(&self, flow: Flow) -> Client {
        Client {
            flow,
            has_route_set: self.path.phone.is_none(),
        }
    }

    /// Whether it goes on to a node with our secret: any other of them can stand in for that one.
    pub(crate) fn is_for_cluster(&self, snapshot: &Snapshot) -> bool {
        let next = self.path.next.as_ref();
        let token = next.and_then(|next| Uri::parse(next.uri).ok()?.user);
        let to_tag = self.to_tag.unwrap_or_default();
        token.is_some_and(|text| {
            token::read(snapshot.keys(), text, self.call_id, self.from_tag, to_tag).is_some()
        })
    }

    /// What hashing policies hash: the user for `user-hash`, else the Call-ID. A REGISTER is of
    /// the address-of-record in its To. RFC 3261 §10.2
    pub(crate) fn placement_key(&self, by_user: bool) -> &'a [u8] {
        if !by_user {
            return self.call_id;
        }
        let user = match self.method {
            Method::Register => self
                .message
                .to()
                .ok()
                .and_then(|to| Uri::parse(to.uri).ok()?.user),
            _ => self.path.target.user,
        };
        user.unwrap_or(self.path.uri)
    }

    /// Has it go to a phone over the edge that keeps the phone's connection: with the Route that leads there, and
    /// as if the edge were the phone.
    pub(crate) fn lead_to_edge(&mut self, flow: Flow) {
        self.path.phone = Some(flow);
        self.path.own_routes = 0;
    }

    /// Where Route and Request-URI send it, if no name has to be resolved for that.
    pub(crate) fn next_hop(&self) -> Option<NextHop> {
        self.located.or_else(|| next_hop_of(&self.next_uri()?))
    }

    /// Whether its next hop is a name that is not resolved.
    pub(crate) fn leads_to_name(&self) -> bool {
        let is_name = |uri: Uri<'_>| matches!(uri.destination(), Some(Host::Name(_)));
        self.located.is_none() && self.next_uri().is_some_and(is_name)
    }

    /// The name of its next hop, if it can be resolved.
    pub(crate) fn next_name(&self) -> Option<Name> {
        Name::of(&self.next_uri()?)
    }

    fn next_uri(&self) -> Option<Uri<'a>> {
        match &self.path.next {
            Some(route) => Uri::parse(route.uri).ok(),
            None => Some(self.path.target),
        }
    }
}

impl<'a> Path<'a> {
    /// `open` reads the tokens of the request's dialog, whichever node made them.
    fn read(
        snapshot: &Snapshot,
        message: &'a Message<'a>,
        open: impl Fn(&[u8]) -> Option<Affinity>,
    ) -> Result<Self, Reply> {
        let target = message.target()?;
        let uri = message.request_uri().unwrap_or_default();
        let mut path = Self {
            uri,
            target,
            was_strict: false,
            own_routes: 0,
            next: None,
            affinity: Ok(None),
            phone: None,
            elsewhere: None,
        };
        if let Some(user) = target.user.filter(|user| token::looks_like(user))
            && snapshot.is_our_uri(&target)
        {
            path.affinity = open(user).map(Some).ok_or(Forged);
            path.undo_strict_route(message)?;
        }
        path.skip_own_routes(snapshot, message, open)?;
        if let Ok(Some(affinity)) = path.affinity {
            path.elsewhere = affinity.elsewhere;
        }
        Ok(path)
    }

    fn undo_strict_route(&mut self, message: &Message<'a>) -> Result<(), Fault> {
        let Some(last) = message.routes().last() else {
            return Ok(());
        };
        self.uri = last?.uri;
        self.target = Uri::parse(self.uri).map_err(|_| Fault::Route)?;
        self.was_strict = true;
        Ok(())
    }

    /// A node that bridges two listeners is in the route set twice with one token, RFC 5658; with two, a call
    /// passes it twice. What the topmost route gives to another node of the cluster is ours too: whoever
    /// sent it here did not get through there.
    fn skip_own_routes(
        &mut self,
        snapshot: &Snapshot,
        message: &Message<'a>,
        open: impl Fn(&[u8]) -> Option<Affinity>,
    ) -> Result<(), Fault> {
        let mut routes = message.routes().peekable();
        let mut first = None;
        while let Some(route) = routes.next() {
            let route = route?;
            let is_target = self.was_strict && routes.peek().is_none();
            if is_target {
                break;
            }
            let uri = Uri::parse(route.uri).map_err(|_| Fault::Route)?;
            let affinity = uri
                .user
                .filter(|_| self.affinity == Ok(None))
                .and_then(&open);
            let is_ours = match self.own_routes {
                0 => snapshot.is_our_uri(&uri) || affinity.is_some(),
                1 => uri.user == first && (first.is_some() || snapshot.is_our_uri(&uri)),
                _ => false,
            };
            if !is_ours {
                self.next = Some(route);
                break;
            }
            self.own_routes += 1;
            first = uri.user;
            if let (Ok(None), Some(_)) = (self.affinity, uri.user) {
                if affinity.is_none()
                    && let Some((flow, elsewhere)) = phone(snapshot, &uri)
                {
                    (self.phone, self.elsewhere) = (Some(flow), elsewhere);
                }
                self.affinity = match affinity {
                    None if self.phone.is_none() => Err(Forged),
                    affinity => Ok(affinity),
                };
            }
        }
        Ok(())
    }
}

/// What is said of a request whose end is missing: it is too long, or on a stream has no length. RFC 3261 §18.3
fn refusal_of_cut(flow: Flow, message: &Message<'_>) -> Reply {
    let is_missing = message.header(HeaderName::ContentLength).is_none();
    if flow.transport.is_stream() && is_missing {
        return Reply::because(400, "Missing Content-Length");
    }
    match message.essentials() {
        Err(fault @ Fault::ContentLength) => fault.into(),
        _ => Reply::new(513),
    }
}

/// The phone whose flow the token in a URI of ours names, and the other edge that keeps its connection.
pub(crate) fn phone(snapshot: &Snapshot, uri: &Uri<'_>) -> Option<(Flow, Option<EdgeTag>)> {
    let at = snapshot.advertised_as(uri)?;
    let found = token::read_flow(snapshot.keys(), uri.user?, at.as_bytes())?;
    let (flow, elsewhere) = found;
    (elsewhere.is_some() || snapshot.has_listener(flow.listener)).then_some(found)
}

/// A request anew without the maddr of its Request-URI that names this node, and without what goes with
/// that. None: there is no such maddr. RFC 3261 §16.4
pub(crate) fn without_our_maddr(snapshot: &Snapshot, message: &Message<'_>) -> Option<Vec<u8>> {
    let text = message.request_uri().filter(|uri| uri.contains(&b';'))?;
    let mut named = Uri::parse(text).ok()?;
    let (params, port) = (named.params, named.port);
    let is_spoken = transport_of(&named).is_some_and(|transport| snapshot.speaks(transport));
    named.host = Host::parse(named.param(b"maddr").value()?)?;
    if named.scheme != Scheme::Sip
        || !named.headers.is_empty()
        || !is_spoken
        || !snapshot.is_our_uri(&named)
    {
        return None;
    }
    let mut head = &text[..text.len() - params.len() - 1];
    if port.is_some() {
        head = &head[..head.iter().rposition(|&byte| byte == b':')?];
    }
    let mut uri = head.to_vec();
    for param in params.split(|&byte| byte == b';') {
        let name = param.split(|&byte| byte == b'=').next().unwrap_or(param);
        let goes = [&b"maddr"[..], b"transport"];
        if !goes.iter().any(|gone| gone.eq_ignore_ascii_case(name)) {
            uri.push(b';');
            uri.extend_from_slice(param);
        }
    }
    let (mut edits, mut out) = (sip::Edits::default(), Vec::new());
    edits.set_request_uri(message, &uri);
    edits.apply(message.bytes(), &mut out);
    Some(out)
}
