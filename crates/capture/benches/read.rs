//! Reading captures of calls with 700-byte messages; the bar is 100 MB/s.

#![allow(clippy::unwrap_used)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::{net::SocketAddr, time::Duration};

use capture::{Options, Study, Trace};
use common::{Dialog, File, Link, PCAP, message, tcp};
use divan::{Bencher, counter::BytesCount};

const CALLS: u32 = 2_000;

fn main() {
    divan::main();
}

/// INVITE, 180, 200, ACK, BYE, 200 each, of 700 bytes or so; twelve calls a second.
fn capture(is_tcp: bool) -> Vec<u8> {
    let ends: [SocketAddr; 2] =
        ["192.0.2.1:5060", "192.0.2.2:5060"].map(|end| end.parse().unwrap());
    let steps = [
        (0, true, "INVITE", "1 INVITE"),
        (1, false, "180 Ringing", "1 INVITE"),
        (3, false, "200 OK", "1 INVITE"),
        (4, true, "ACK", "1 ACK"),
        (60, true, "BYE", "2 BYE"),
        (61, false, "200 OK", "2 BYE"),
    ];
    let body = "a=rtpmap:8 PCMA/8000\r\n".repeat(20);
    let mut file = File::new(PCAP, Link::Ethernet);
    let mut sequences = [0_u32; 2];
    for call in 0..CALLS {
        let call_id = format!("{call}-4711@192.0.2.1");
        let dialog = Dialog {
            call_id: &call_id,
            from_tag: "a",
        };
        for (ms, is_up, start, cseq) in steps {
            let time = Duration::from_millis(u64::from(80 * call + ms));
            let text = String::from_utf8(message(start, dialog, cseq, cseq)).unwrap();
            let text = text.replace("Length: 0", &format!("Length: {}", body.len())) + &body;
            let [source, destination] = if is_up { ends } else { [ends[1], ends[0]] };
            if is_tcp {
                let sequence = &mut sequences[usize::from(is_up)];
                file.ip(time, &tcp(source, destination, *sequence, text.as_bytes()));
                *sequence = sequence.wrapping_add(text.len() as u32);
            } else {
                file.udp(time, source, destination, text.as_bytes());
            }
        }
    }
    file.bytes
}

fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace::default();
    trace.read("bench", bytes, |_| {}).unwrap();
    trace
}

/// From bytes to messages.
#[divan::bench(args = [false, true], sample_count = 20)]
fn read_over_tcp(bencher: Bencher<'_, '_>, is_tcp: bool) {
    let bytes = capture(is_tcp);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| read(&bytes));
}

/// From bytes to service times.
#[divan::bench(sample_count = 20)]
fn read_and_study(bencher: Bencher<'_, '_>) {
    let bytes = capture(false);
    bencher
        .counter(BytesCount::of_slice(&bytes))
        .bench(|| Study::new(&read(&bytes), &Options::default()).unwrap());
}
