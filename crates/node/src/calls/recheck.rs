//! Asks a server whether a dialog lives.

use crate::{
    calls::dialogs::DialogId,
    context::Context,
    io::Outbox,
    wire::{
        branch::{Branch, Purpose},
        relay::write_via,
    },
};

/// Sends an OPTIONS within the dialog, with a CSeq that is out of date, for the `number`th time. A
/// server that knows the dialog refuses it without touching the dialog (RFC 3261 §12.2.2), one that
/// doesn't answers 481.
pub(super) fn ask(cx: Context<'_>, dialog: DialogId<'_>, number: u8, out: &mut Outbox) {
    let Some(member) = cx.snapshot.member(dialog.server) else {
        return;
    };
    let Some(flow) = cx.snapshot.flow_to(member.next_hop(), 0) else {
        return;
    };
    let branch = Branch {
        purpose: Purpose::Recheck,
        listener: flow.listener,
        id: number.into(),
    };
    out.send(flow, |out| {
        let request = format!("OPTIONS sip:{} SIP/2.0\r\nVia: ", member.address);
        out.extend_from_slice(request.as_bytes());
        write_via(cx.snapshot, flow.listener, branch, out);
        out.extend_from_slice(b"\r\nMax-Forwards: 1\r\nFrom: <sip:sipyard.invalid>;tag=");
        out.extend_from_slice(dialog.client_tag);
        out.extend_from_slice(b"\r\nTo: <sip:sipyard.invalid>;tag=");
        out.extend_from_slice(dialog.server_tag);
        out.extend_from_slice(b"\r\nCall-ID: ");
        out.extend_from_slice(dialog.call_id);
        out.extend_from_slice(b"\r\nCSeq: 0 OPTIONS\r\nContent-Length: 0\r\n\r\n");
    });
}
