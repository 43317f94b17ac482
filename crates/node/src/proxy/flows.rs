//! Flows of phones that are gone: RFC 5626 §5.3.1.

use sip::{Back, Message, Method};

use super::Proxy;
use crate::{
    context::Context,
    io::{Datagram, Outbox, Quotation},
    stats::Event,
    wire::response::Response,
};

/// Flow Failed. RFC 5626 §11.5
const FLOW_FAILED: u16 = 430;

impl Proxy {
    /// A request was passed on to a connection that is gone: whoever sent it is told, as if the phone had
    /// answered. `sent` is the request as it left. False: it was none, or is not to be answered.
    pub(crate) fn fail_flow(
        &mut self,
        cx: Context<'_>,
        Quotation { flow, bytes: sent }: Quotation<'_>,
        out: &mut Outbox,
    ) -> bool {
        let headers = cx.snapshot.config().limits.headers;
        let Ok(request) = Message::parse(sent, headers) else {
            return false;
        };
        let is_answered = request
            .method()
            .is_some_and(|method| !matches!(method, Method::Ack | Method::Cancel));
        let is_phones = flow.connection.is_some() && cx.snapshot.member_of(flow).is_none();
        if !is_phones || !is_answered {
            return false;
        }
        let mut bytes = Vec::new();
        let reason = sip::reason_phrase(FLOW_FAILED);
        let back = Back {
            from: flow.remote,
            terms: None,
        };
        sip::write_reply_with(
            &request,
            FLOW_FAILED,
            reason,
            Some("flow"),
            back,
            &[],
            &mut bytes,
        );
        let Ok(message) = Message::parse(&bytes, headers) else {
            return false;
        };
        let datagram = Datagram {
            flow,
            bytes: &bytes,
            truncated: false,
        };
        let Ok(response) = Response::read(cx.snapshot, datagram, &message) else {
            return false;
        };
        cx.stats.count(Event::FlowFailed, 1);
        self.on_response(cx, &response, out);
        true
    }
}
