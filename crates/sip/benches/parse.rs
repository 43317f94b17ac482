//! What routing needs of a 700-byte INVITE, read by this crate and by published ones.

use divan::{Bencher, black_box};
use sip::Message;

const INVITE: &[u8] = include_bytes!("invite.sip");

fn main() {
    divan::main();
}

/// All that routing reads, checked: method, Request-URI, top Via, Call-ID, CSeq, tags, first Route, Max-Forwards.
#[divan::bench(sample_size = 1000)]
fn sipyard_routing(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let message = Message::parse(black_box(INVITE), 128).expect("it is well formed");
        let essentials = message.essentials();
        let target = message.target();
        let route = message.routes().next();
        black_box((&essentials, &target, &route));
        (message.method(), message.max_forwards())
    });
}

/// Where the headers are, and nothing of what is in them.
#[divan::bench(sample_size = 1000)]
fn sipyard_parse(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Message::parse(black_box(INVITE), 128));
}

/// The least rsip can do: its headers hold text that isn't taken apart.
#[divan::bench(sample_size = 100)]
fn rsip_parse(bencher: Bencher<'_, '_>) {
    bencher.bench(|| rsip::Request::try_from(black_box(INVITE)));
}

/// The same through rsip, but for Route, which it doesn't take apart.
#[divan::bench(sample_size = 100)]
fn rsip_routing(bencher: Bencher<'_, '_>) {
    use rsip::prelude::{HeadersExt, ToTypedHeader, UntypedHeader};
    bencher.bench(|| {
        let request = rsip::Request::try_from(black_box(INVITE)).expect("it is well formed");
        let via = request.via_header().expect("it has one").typed();
        (
            via.map(|via| (via.branch().cloned(), via.uri)),
            request
                .call_id_header()
                .map(|call_id| call_id.value().to_owned()),
            request.cseq_header().map(|cseq| cseq.clone().typed()),
            request.from_header().map(|from| from.tag()),
            request.to_header().map(|to| to.tag()),
            request.max_forwards_header().map(|hops| hops.num()),
            request.method,
            request.uri,
        )
    });
}
