//! What it costs to ask if a source is heard: `cargo bench -p abuse`.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use abuse::{Guard, Hearing, Rules};
use divan::{Bencher, black_box, counter::ItemsCount};

const NOW: Duration = Duration::from_secs(3_600);
const SOURCES: u32 = 65_536;

/// Messages in a round.
const ROUND: u32 = 4_096;

fn main() {
    divan::main();
}

fn address(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xcb00_0000 + number).into()
}

/// Asks for a round of messages from these addresses. The guard follows as many sources as it can, and
/// the first has no token left.
fn hear(bencher: Bencher<'_, '_>, from: impl Fn(u32) -> IpAddr + Sync) {
    let rules = Rules::default();
    let guard = Guard::new(&[7; 16], SOURCES as usize);
    for number in 0..SOURCES {
        guard.charge(NOW, &rules, address(number));
    }
    for _ in 0..=rules.burst {
        guard.charge(NOW, &rules, address(0));
    }
    let ask = |message| guard.hear(NOW, &rules, black_box(from(message)));
    bencher.counter(ItemsCount::new(ROUND)).bench(|| {
        (0..ROUND)
            .map(ask)
            .filter(|hearing| *hearing == Hearing::Heard)
            .count()
    });
}

/// From one that has tokens.
#[divan::bench]
fn known(bencher: Bencher<'_, '_>) {
    hear(bencher, |_| address(7));
}

/// From another each time, all over the tables.
#[divan::bench]
fn any(bencher: Bencher<'_, '_>) {
    hear(bencher, |message| {
        address(message.wrapping_mul(40_503) % (4 * SOURCES))
    });
}

/// From the one that has no token, as in a flood.
#[divan::bench]
fn limited(bencher: Bencher<'_, '_>) {
    hear(bencher, |_| address(0));
}
