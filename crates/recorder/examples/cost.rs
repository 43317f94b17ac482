//! What recording costs, for docs/results/operator.md.
//!
//!   cost plain|tapped|recorded CALLS    passes calls through a node; count it with callgrind
//!   cost search CALLS                   keeps calls in taps, then times the sorting, searches, and prints the memory

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it is a measurement"
)]
#![allow(clippy::disallowed_methods, reason = "it reads the clock")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::{env, hint::black_box, time::Instant};

use common::{World, settings};
use node::tap::Tap;
use recorder::{Backlog, Search, Settings};

fn main() {
    let arguments: Vec<String> = env::args().collect();
    let calls: u64 = arguments[2].parse().unwrap();
    let mut world = World::new(Settings {
        bytes_max: 4 << 30,
        ..settings()
    });
    let what = arguments[1].as_str();
    if what == "plain" {
        world.out.tap = None;
    }
    let mut backlog = Backlog::default();
    for call in 0..calls {
        world.call(&format!("{call:016x}-8a71-4b@127.0.0.1"));
        match what {
            "recorded" if call % 256 == 255 => world.record(),
            "tapped" if call % 256 == 255 => world.out.tap.as_mut().unwrap().clear(),
            "search" if call % 1024 == 1023 => {
                backlog.put(world.out.tap.replace(Tap::new(16 << 20)).unwrap());
            }
            _ => {}
        }
    }
    if what == "search" {
        backlog.put(world.out.tap.replace(Tap::new(16 << 20)).unwrap());
        sort(&mut world, &mut backlog);
        search(&world);
    }
}

fn sort(world: &mut World, backlog: &mut Backlog) {
    let snapshot = world.shared.snapshot();
    let began = Instant::now();
    while let Some(tap) = backlog.take() {
        world.recorder.take(tap, &snapshot);
    }
    println!("sorted in {:?}", began.elapsed());
}

fn search(world: &World) {
    println!("{:?}", world.counts());
    for words in [
        "",
        "alice",
        "00001234-8a71",
        "10.0.0.2:5060",
        "486",
        "nothing-has-this",
    ] {
        let search = Search {
            words: words.split_whitespace().map(str::to_owned).collect(),
            ..Search::default()
        };
        let began = Instant::now();
        let (found, matching) = black_box(world.recorder.find(&search, world.now, 100));
        let took = began.elapsed();
        println!("{words:>20}: {} of {matching} in {took:?}", found.len());
    }
    let key = world
        .shared
        .snapshot()
        .session_of(b"0000000000001234-8a71-4b@127.0.0.1");
    let began = Instant::now();
    let ladder = black_box(world.recorder.call(key, world.now));
    println!("one ladder: {} in {:?}", ladder.is_some(), began.elapsed());
}
