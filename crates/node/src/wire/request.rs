//! A request as the node sees it: what it needs to know to route it, or why it won't.

use std::net::SocketAddr;

use sip::{CSeq, Fault, HeaderName, Host, Message, Method, NameAddr, Scheme, Uri, Via};
use transaction::Flow;

use super::{
    keys::SessionKey,
    nat::is_behind_nat,
    reply::{self, Reply},
    token::{self, Affinity, Client},
};
use crate::{io::Datagram, question::Name, snapshot::Snapshot};

/// Allow in answers of the node's own. RFC 3261 §11.2
const ALLOW: &str = "OPTIONS";

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
    pub(crate) located: Option<SocketAddr>,
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
            return Err(Reply::new(513));
        }
        let essentials = message.essentials()?;
        let sip::Essentials {
            via,
            from_tag,
            to_tag,
            call_id,
            cseq,
            ..
        } = essentials;
        let key = snapshot.keys().session(call_id);
        let id = transaction::identity(snapshot.keys().branch(key), message, &essentials);
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
        })
    }

    /// An OPTIONS to the node itself: its answer. RFC 3261 §11.2
    pub(crate) fn answer_of_ours(&self, snapshot: &Snapshot) -> Option<Reply> {
        let is_for_us = self.path.next.is_none()
            && self.path.target.user.is_none()
            && self.method == Method::Options
            && snapshot.is_our_uri(&self.path.target);
        is_for_us.then(|| Reply::new(200).with("Allow", ALLOW.to_owned()))
    }

    /// What a proxy checks before it looks where a request goes. RFC 3261 §16.3
    pub(crate) fn check(&self) -> Result<(), Reply> {
        if self.hops == Some(0) {
            return Err(Reply::new(483));
        }
        if self.path.target.scheme == Scheme::Sips {
            return Err(Reply::because(416, "SIPS Not Supported"));
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

    /// Max-Forwards as it goes on: RFC 3261 §16.6 step 3.
    pub(crate) fn hops_left(&self) -> u32 {
        self.hops.map_or(70, |hops| hops.saturating_sub(1))
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
    pub(crate) fn flow_to_server(&self, snapshot: &Snapshot, address: SocketAddr) -> Flow {
        let hit = self.datagram.flow.listener;
        let flow = snapshot.flow_to(address, hit);
        flow.unwrap_or_else(|| Flow::udp(hit, address))
    }

    /// The client's end of a dialog that it starts from outside. One that is trusted and not behind a
    /// NAT is reached by its route set.
    pub(crate) fn client(&self, snapshot: &Snapshot) -> Client {
        let sender = self.datagram.flow;
        let is_behind_nat = is_behind_nat(&self.via, sender.remote.ip());
        Client {
            flow: reply::return_flow(Some(&self.via), sender),
            has_route_set: !is_behind_nat && snapshot.is_trusted(sender),
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

    /// Where Route and Request-URI send it, if no name has to be resolved for that.
    pub(crate) fn next_hop(&self) -> Option<SocketAddr> {
        self.located.or_else(|| self.next_uri()?.address())
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
        };
        if let Some(user) = target.user.filter(|user| token::looks_like(user))
            && snapshot.is_our_uri(&target)
        {
            path.affinity = open(user).map(Some).ok_or(Forged);
            path.undo_strict_route(message)?;
        }
        path.skip_own_routes(snapshot, message, open)?;
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
                1 => snapshot.is_our_uri(&uri) && uri.user == first,
                _ => false,
            };
            if !is_ours {
                self.next = Some(route);
                break;
            }
            self.own_routes += 1;
            first = uri.user;
            if let (Ok(None), Some(user)) = (self.affinity, uri.user) {
                self.phone = self.phone.or_else(|| phone(snapshot, &uri, user));
                self.affinity = match affinity {
                    None if self.phone.is_none() => Err(Forged),
                    affinity => Ok(affinity),
                };
            }
        }
        Ok(())
    }
}

/// The phone whose flow the token in a URI of ours names.
fn phone(snapshot: &Snapshot, uri: &Uri<'_>, token: &[u8]) -> Option<Flow> {
    let at = snapshot.advertised_as(uri)?;
    let flow = token::read_flow(snapshot.keys(), token, at.as_bytes())?;
    snapshot.has_listener(flow.listener).then_some(flow)
}
