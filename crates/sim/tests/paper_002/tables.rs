//! Figures of docs/results/paper-002.md.

use std::time::Duration;

use load::{Arrivals, Failure, Rate, Stats, Stream};
use node::Transport;
use sim::{Event, PartyId, Quota, Watch, What};

use crate::{CAPACITY, Control, NODE, OFF, SMART, Scene, common::s};

/// Each control by its name.
fn controls() -> [(&'static str, Control); 8] {
    let asks = |control| Control {
        asks: true,
        admits: true,
        ..control
    };
    let room = Control {
        learns_room: true,
        ..OFF
    };
    let smart = Control {
        forwards_smartly: true,
        ..OFF
    };
    let by_loss = Control {
        by_loss: true,
        ..asks(NODE)
    };
    [
        ("off", OFF),
        ("paper", SMART),
        ("room", room),
        ("smart", smart),
        ("node", NODE),
        ("7339", asks(OFF)),
        ("node+7339", asks(NODE)),
        ("node+loss", by_loss),
    ]
}

fn list(name: &str, usual: &str) -> Vec<f64> {
    let list = std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    list.split(',').map(|it| it.parse().unwrap()).collect()
}

fn chosen() -> Vec<(&'static str, Control)> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let is_chosen = |name: &str| only.is_empty() || only.split('/').any(|it| it == name);
    let controls = controls().into_iter();
    let chosen = controls.filter(|(name, _)| is_chosen(name));
    let (quota, link) = (quota(), s(1).mul_f64(list("LINK", "1")[0] / 1e3));
    let transport = match std::env::var("TRANSPORT").as_deref() {
        Ok("udp") => Transport::Udp,
        _ => Transport::Tcp,
    };
    let held = |control| Control {
        quota,
        link,
        transport,
        ..control
    };
    chosen
        .map(|(name, control)| (name, held(control)))
        .collect()
}

/// `QUOTA=1,10`: 1 ms in each 10 ms.
fn quota() -> Option<Quota> {
    match list("QUOTA", "0,0")[..] {
        [run, period] if run > 0.0 => Some(Quota {
            run: s(1).mul_f64(run / 1e3),
            period: s(1).mul_f64(period / 1e3),
        }),
        _ => None,
    }
}

#[expect(clippy::print_stdout, reason = "it prints")]
fn print(row: &str, time: Duration, stats: &Stats, repeated: u64) {
    let carried = stats.carried as f64 / time.as_secs_f64() / CAPACITY * 100.0;
    let ms = |q| stats.answer_ns.value_at_quantile(q) as f64 / 1e6;
    let refused = stats.failed.get(&Failure::Rejected(503)).unwrap_or(&0);
    let refused = *refused as f64 / stats.offered.max(1) as f64 * 100.0;
    println!(
        "| {row} | {carried:.1} | {:.1} | {:.1} | {:.1} | {refused:.1} | {repeated} |",
        ms(0.5),
        ms(0.95),
        ms(0.99)
    );
}

/// Prints what is carried in this time, and how many answers are repeated.
fn measure(row: &str, scene: &mut Scene, time: Duration) {
    let repeated = scene.answers_again();
    let stats = scene.stats(time);
    print(row, time, &stats, scene.answers_again() - repeated);
}

/// `cargo test -p sim --test paper_002 goodput -- --ignored --nocapture`
#[test]
#[ignore = "it prints what is carried"]
fn goodput() {
    let seconds = list("SECONDS", "10,10");
    let (before, time) = (s(seconds[0] as u64), s(seconds[1] as u64));
    for senders in list("SENDERS", "1,3,10") {
        for (name, control) in chosen() {
            for times in list("TIMES", "2,10") {
                let mut scene = Scene::new(senders as usize, times, control);
                drop(scene.stats(before));
                let row = format!("{senders} | {name} | {times}");
                measure(&row, &mut scene, time);
            }
        }
    }
}

/// Three sending nodes with calls by 3:2:1.
#[test]
#[ignore = "it prints what each gets"]
fn unequal() {
    for (name, control) in chosen() {
        for times in list("TIMES", "1.5,2,10") {
            let parts = [3.0, 2.0, 1.0].map(|part| part * times / 6.0);
            let mut scene = Scene::of(&parts, control);
            drop(scene.stats(s(10)));
            for (part, stats) in parts.iter().zip(scene.stats_of_each(s(10))) {
                let row = format!("3:2:1 | {name} | {times}, of which {part:.2}");
                print(&row, s(10), &stats, scene.answers_again());
            }
        }
    }
}

/// The paper's Figures 23 to 27, 34 and 35: smart forwarding to a receiving node with other buffers, in bytes.
#[test]
#[ignore = "it prints what is carried"]
fn buffers() {
    for senders in list("SENDERS", "10") {
        for receive in list("RECEIVE", "2048,4096,16384,65536") {
            for read in list("READ", "2048,65536") {
                let mut control = SMART;
                control.conduct.buffers.receive = receive as usize;
                control.conduct.read_bytes = read as usize;
                for times in list("TIMES", "2.5,12.5") {
                    let mut scene = Scene::new(senders as usize, times, control);
                    drop(scene.stats(s(10)));
                    let row = format!("{receive} | {read} | {times}");
                    measure(&row, &mut scene, s(10));
                }
            }
        }
    }
}

/// Half the capacity, ten times as much, and half of it again.
#[test]
#[ignore = "it prints each second"]
fn step() {
    for (name, control) in chosen() {
        for senders in list("SENDERS", "10") {
            let mut scene = Scene::new(senders as usize, 0.5, control);
            drop(scene.stats(s(5)));
            for second in 0..20 {
                let times = if (5..12).contains(&second) { 10.0 } else { 0.5 };
                let rate = Rate::Constant(times * CAPACITY / senders);
                let (now, arrivals) = (scene.world.now(), Arrivals::Open(rate, Stream::Poisson));
                for &caller in scene.callers.iter().filter(|_| matches!(second, 5 | 12)) {
                    scene.world.caller_mut(caller).set_arrivals(now, arrivals);
                }
                let row = format!("{senders} | {name}, second {second} | {times}");
                measure(&row, &mut scene, s(1));
            }
        }
    }
}

/// The capacity halves while one and a half times of it is offered, and is whole again: the speed of the processor, or with `QUOTA`
/// how often it may run.
#[test]
#[ignore = "it prints each second"]
fn halved() {
    for (name, control) in chosen() {
        for senders in list("SENDERS", "1,10,100") {
            let mut scene = Scene::new(senders as usize, 1.5, control);
            drop(scene.stats(s(5)));
            for second in 5..25 {
                let is_half = (5..13).contains(&second);
                let part = if is_half { 0.5 } else { 1.0 };
                let receiver = scene.world.edge_mut(scene.receiver);
                match control.quota {
                    Some(Quota { run, period }) => receiver.set_quota(Quota {
                        run,
                        period: period.div_f64(part),
                    }),
                    None => receiver.set_speed(part),
                }
                let row = format!("{senders} | {name}, second {second} | of {part}");
                measure(&row, &mut scene, s(1));
            }
        }
    }
}

/// Messages that the server got from the receiving node, and that it sent, in the order of [`KINDS`].
struct Messages {
    server: PartyId,
    counts: [u64; KINDS.len()],
}

const KINDS: [(What, &[u8]); 4] = [
    (What::Arrived, b"INVITE "),
    (What::Arrived, b"ACK "),
    (What::Arrived, b"BYE "),
    (What::Sent, b"SIP/2.0 200 "),
];

impl Watch for Messages {
    fn see(&mut self, event: &Event<'_>) {
        if event.sender != self.server && event.receiver != Some(self.server) {
            return;
        }
        for ((what, start), count) in KINDS.iter().zip(&mut self.counts) {
            *count += u64::from(event.what == *what && event.bytes.starts_with(start));
        }
    }
}

/// The paper's Figures 6 and 7: `TIMES=2.5 cargo test -p sim --test paper_002 traces -- --ignored --nocapture`
#[test]
#[ignore = "it prints each second"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn traces() {
    for (name, control) in chosen() {
        let control = Control {
            are_callers_connected: true,
            ..control
        };
        let mut scene = Scene::new(1, list("TIMES", "2.5")[0], control);
        for second in 1..=list("SECONDS", "110")[0] as u64 {
            let mut messages = Messages {
                server: scene.server,
                counts: [0; KINDS.len()],
            };
            let before = scene.answers_again();
            scene.world.run_until(s(second), &mut messages);
            let caller = scene.world.caller_mut(scene.callers[0]).stats_mut().take();
            let [invites, acks, byes, answers] = messages.counts;
            let active = scene.world.edge(scene.receiver).shared().workers()[0].sessions_active();
            println!(
                "{name} | {second} | {invites} | {acks} | {byes} | {answers} | {} | {active} | {}",
                scene.answers_again() - before,
                caller.carried
            );
        }
    }
}
