//! Long requests that a server did not take by TCP: they go by UDP after all. RFC 3261 §18.1.1

use sip::{Edits, Message, Uri};
use transaction::{Flow, Transport};

use super::Proxy;
use crate::{
    context::Context,
    io::{Outbox, Quotation},
    member::Member,
    snapshot::Snapshot,
    stats::Event,
    wire::{branch::Purpose, quote::Quote, relay::write_via},
};

impl Proxy {
    /// A message was not written to a connection. If its server is one of UDP, it gets long requests by UDP from now
    /// on, and this one, too. False: it is none such.
    pub(crate) fn fall_back(
        &mut self,
        cx: Context<'_>,
        quote: &Quote<'_>,
        Quotation { flow, bytes }: Quotation<'_>,
        out: &mut Outbox,
    ) -> bool {
        let Some(server) = server_of_large(cx.snapshot, flow) else {
            return false;
        };
        server.refuse_tcp(cx.now);
        cx.stats.count(Event::LargeByUdp, 1);
        let number = match quote.branch.purpose {
            Purpose::Held { number, .. } | Purpose::Relay(number) => number,
            Purpose::Probe | Purpose::Recheck | Purpose::KeepAlive => return false,
        };
        let (stateful, _, mut step) = self.split(cx, out);
        if !stateful.on_unreachable(&mut step, number, quote, flow)
            && let Some(again) = cx.snapshot.flow_to(server.next_hop(), flow.listener)
            && let Ok(sent) = Message::parse(bytes, cx.snapshot.config().limits.headers)
        {
            send_again(cx.snapshot, &sent, quote, again, out);
        }
        true
    }
}

/// The server of UDP at the other end of a TCP flow.
pub(super) fn server_of_large(snapshot: &Snapshot, flow: Flow) -> Option<&Member> {
    let server = snapshot.member_at(flow.remote)?;
    let is_large = flow.transport == Transport::Tcp && server.transport == Transport::Udp;
    is_large.then_some(&**server)
}

/// Sends a request as it was sent before, but from another listener: by its Via and its Record-Route.
fn send_again(
    snapshot: &Snapshot,
    sent: &Message<'_>,
    quote: &Quote<'_>,
    again: Flow,
    out: &mut Outbox,
) {
    let Ok(via) = sent.top_via() else {
        return;
    };
    let mut edits = Edits::default();
    let (start, end) = (via.span.start, via.span.end);
    let text = &sent.bytes()[start..end];
    let rest = text.windows(8).position(|part| part == b";branch=");
    let rest = rest.map_or(&[][..], |at| &text[at + 8..]);
    let behind = rest.iter().position(|&byte| byte == b';');
    let behind = behind.map_or(&[][..], |at| &rest[at..]);
    edits.replace(via.span, |out| {
        write_via(snapshot, again.listener, quote.branch, out);
        out.extend_from_slice(behind);
    });
    let top = sent.record_routes().next().and_then(Result::ok);
    let user = top.and_then(|top| {
        let uri = Uri::parse(top.uri).ok()?;
        snapshot.is_our_uri(&uri).then_some(uri.user?)
    });
    if let (Some(top), Some(user)) = (top, user) {
        edits.replace(top.span, |out| {
            out.extend_from_slice(b"<sip:");
            out.extend_from_slice(user);
            out.push(b'@');
            snapshot.listener(again.listener).write_at(out);
            out.push(b'>');
        });
    }
    out.send(again, |out| edits.apply(sent.bytes(), out));
}
