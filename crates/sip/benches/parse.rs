//! What routing needs of a 700-byte INVITE, read by this crate and by published ones.

use divan::{Bencher, black_box};
use sip::{Message, Uri};

const INVITE: &[u8] = include_bytes!("invite.sip");

fn main() {
    divan::main();
}

/// Finding the headers, and no more.
#[divan::bench(sample_size = 1000)]
fn parse(bencher: Bencher<'_, '_>) {
    bencher.bench(|| Message::parse(black_box(INVITE), 128));
}

/// Everything that routing reads.
#[divan::bench(sample_size = 1000)]
fn routing(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let message = Message::parse(black_box(INVITE), 128).expect("it is well formed");
        let via = message.top_via().expect("it is well formed");
        (
            message.method(),
            message.request_uri(),
            (via.host, via.port, via.branch, via.rport),
            message.call_id(),
            message.cseq(),
            message.from_tag(),
            message.to_tag(),
            message.routes().next(),
            message.max_forwards(),
        )
    });
}

#[divan::bench(sample_size = 1000)]
fn top_via(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| black_box(&message).top_via());
}
#[divan::bench(sample_size = 1000)]
fn from_tag(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| black_box(&message).from_tag());
}
#[divan::bench(sample_size = 1000)]
fn cseq(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| black_box(&message).cseq());
}
#[divan::bench(sample_size = 1000)]
fn route(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| black_box(&message).routes().next());
}
#[divan::bench(sample_size = 1000)]
fn uri(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| Uri::parse(black_box(&message).request_uri().unwrap()));
}

/// The checks before a request is routed.
#[divan::bench(sample_size = 1000)]
fn validate(bencher: Bencher<'_, '_>) {
    let message = Message::parse(INVITE, 128).expect("it is well formed");
    bencher.bench(|| black_box(&message).validate());
}
