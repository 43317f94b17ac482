//! What becomes of requests that nobody was there to take.

use sip::{Message, Method};

use crate::{
    admission::{NotNow, refuse},
    context::Context,
    health,
    io::{Datagram, Outbox, Quotation},
    node::{Desks, hand_over},
    proxy::Unsent,
    stats::{Dropped, Event},
    wire::{branch::Purpose, keys::worker_of, quote::Quote, reply},
};

impl Desks {
    /// An ICMP error is believed when it quotes what is open, by a branch that nobody can guess.
    pub(crate) fn on_unreachable(
        &mut self,
        cx: Context<'_>,
        quotation: Quotation<'_>,
        out: &mut Outbox,
    ) {
        let Quotation { flow, bytes } = quotation;
        let Some(quote) = Quote::read(bytes) else {
            return cx.stats.drop_one(Dropped::UnmatchedQuote);
        };
        let is_probe = quote.branch.purpose == Purpose::Probe;
        let owner = if is_probe {
            0
        } else {
            worker_of(quote.branch.id, cx.shared.workers().len())
        };
        if owner != self.worker {
            return hand_over(cx, flow, bytes, owner, None, out);
        }
        if self.proxy.fall_back(cx, &quote, quotation, out) {
            return;
        }
        let id = quote.branch.id;
        let unsent = match quote.branch.purpose {
            Purpose::Probe => {
                let is_ours = self.probes.on_unreachable(cx, id, flow);
                is_ours.then_some(Unsent::Settled)
            }
            Purpose::KeepAlive => {
                let keep_alives = &mut self.registrar.keep_alives;
                let is_ours = keep_alives.on_unreachable(cx, id, flow, out);
                is_ours.then_some(Unsent::Settled)
            }
            Purpose::Relay(_) | Purpose::Held { .. } | Purpose::Recheck => {
                self.proxy.on_unreachable(cx, &quote, flow, out)
            }
        };
        let is_relayed = matches!(quote.branch.purpose, Purpose::Relay(_));
        let is_stuck = unsent != Some(Unsent::Settled) && is_relayed && flow.transport.is_stream();
        let has_failed = is_stuck && self.proxy.fail_flow(cx, quotation, out);
        if is_stuck && !has_failed {
            self.answer_unsent(cx, quotation, out);
        }
        if unsent.is_none() && !has_failed {
            return cx.stats.drop_one(Dropped::UnmatchedQuote);
        }
        cx.stats.count(Event::Unreachable, 1);
        health::on_unreachable(cx, flow);
        self.probes.on_timers(cx, out);
    }

    /// A request that stood on a connection is as good as answered by 503. RFC 3261 §16.9
    fn answer_unsent(&mut self, cx: Context<'_>, unsent: Quotation<'_>, out: &mut Outbox) {
        let headers = cx.snapshot.config().limits.headers;
        let Ok(request) = Message::parse(unsent.bytes, headers) else {
            return;
        };
        if !request.is_request() || request.method() == Some(Method::Ack) {
            return;
        }
        let mut bytes = Vec::new();
        let reply = refuse(cx, NotNow::Unreachable);
        reply::write(cx, unsent.flow, &request, &reply, &mut bytes);
        if let Ok(answer) = Message::parse(&bytes, headers) {
            let datagram = Datagram {
                flow: unsent.flow,
                bytes: &bytes,
                truncated: false,
            };
            self.on_response(cx, datagram, &answer, out);
        }
    }
}
