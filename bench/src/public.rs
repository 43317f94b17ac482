//! Honest callers beside strangers: what an edge that all may reach loses to attacks.

mod attacks;

use std::{
    io,
    time::{Duration, Instant},
};

use load::{Arrivals, Service};
use report::{Page, Table};
use serde::{Deserialize, Serialize};

use self::attacks::{Attack, Stranger};
use crate::{
    balance,
    figures::Stamped,
    generator::Generator,
    range::{median, verdict},
    subject::{self, Running},
};

const ROUNDS: u32 = 3;
const MEASURED: Duration = Duration::from_secs(3);
/// How long calls may take to end after a run.
const END_MAX: Duration = Duration::from_secs(5);
/// Honest calls per second.
const CALLS_PER_S: f64 = 500.0;
/// Messages of each attack per second.
const ATTACK_PER_S: f64 = 1000.0;
/// The scanner of the second table.
const FLOOD_PER_S: f64 = 50_000.0;

/// What is to be held: the p99 beside that without an attack; the share of a core of the flood.
const P99_BAR: f64 = 1.5;
const FLOOD_BAR: f64 = 0.15;

/// Honest calls during an attack, once; or without one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    attack: Option<Attack>,
    /// Messages of the attack.
    sent: u64,
    carried: u64,
    failed: u64,
    /// The share of its core that the edge used.
    busy: f64,
    answer_us_p50: f64,
    answer_us_p99: f64,
    resident_bytes: u64,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    attacks: Vec<Run>,
    flood: Vec<Run>,
}

pub(crate) fn measure() -> io::Result<Results> {
    let mut results = Results {
        attacks: Vec::new(),
        flood: Vec::new(),
    };
    for round in 1..=ROUNDS {
        for attack in Attack::ALL {
            let mut scene = Scene::new(u64::from(round))?;
            for attack in [None, Some(attack)] {
                results.attacks.push(scene.run(attack, ATTACK_PER_S));
            }
        }
        let mut scene = Scene::new(u64::from(round))?;
        for attack in [None, Some(Attack::Scanner)] {
            results.flood.push(scene.run(attack, FLOOD_PER_S));
        }
    }
    Ok(results)
}

/// An edge, its servers, honest callers and a stranger.
struct Scene {
    generator: Generator,
    edge: Running,
    stranger: Stranger,
}

impl Scene {
    fn new(seed: u64) -> io::Result<Self> {
        let mut generator = Generator::new(seed, Service::NONE)?;
        let servers = generator.callee_addresses();
        let edge = balance::started(subject::public_edge(&servers)?, "the edge", &mut generator)?;
        let stranger = Stranger::new(edge.address, servers, || generator.turn())?;
        Ok(Self {
            generator,
            edge,
            stranger,
        })
    }

    fn run(&mut self, attack: Option<Attack>, rate: f64) -> Run {
        let Self {
            generator,
            edge,
            stranger,
        } = self;
        stranger.begin();
        generator.call(edge.address, Arrivals::poisson(CALLS_PER_S), u64::MAX);
        let cpu = edge.process.cpu();
        let began = Instant::now();
        let mut sent = 0;
        while began.elapsed() < MEASURED {
            generator.turn();
            if let Some(attack) = attack {
                sent = stranger.turn(attack, rate, began.elapsed());
            }
        }
        let busy = (edge.process.cpu() - cpu).div_duration_f64(MEASURED);
        generator.caller().stop();
        generator.run(END_MAX);
        let resident_bytes = edge.process.resident_bytes();
        let caller = generator.caller();
        let open = caller.open_calls() as u64;
        let stats = caller.stats_mut().take();
        let answer_us = |quantile| stats.answer_ns.value_at_quantile(quantile) as f64 / 1e3;
        let run = Run {
            attack,
            sent,
            carried: stats.carried,
            failed: stats.failures() + open,
            busy,
            answer_us_p50: answer_us(0.5),
            answer_us_p99: answer_us(0.99),
            resident_bytes,
        };
        println!("{run:?}");
        run
    }
}

/// The page about it.
pub(crate) fn page(results: &Stamped<Results>) -> Page {
    let Results { attacks, flood } = &results.results;
    Page::new("A public edge under attack: figures")
        .text(&format!(
            "{CALLS_PER_S:.0} honest calls a second through an edge with a registrar on one core, and a stranger who sends \
             {ATTACK_PER_S:.0} messages a second of one kind from the other. {ROUNDS} rounds of {} s, each after one without an \
             attack; medians. {}",
            MEASURED.as_secs(),
            results.note()
        ))
        .table(table(attacks))
        .heading("Bars")
        .table(bars(attacks, flood))
        .heading("A scanner's flood")
        .text(&format!("The same with {FLOOD_PER_S:.0} INVITEs a second of a scanner from one address."))
        .table(table(flood))
}

fn table(runs: &[Run]) -> Table {
    let columns = [
        "attack",
        "sent",
        "carried",
        "failed",
        "busy, %",
        "p50, us",
        "p99, us",
        "p99 without, us",
        "ratio",
    ];
    let mut table = Table::new("", columns);
    for attack in Attack::ALL {
        let of = |figure: fn(&Run) -> f64| median(during(runs, attack).map(|(_, run)| figure(run)));
        if during(runs, attack).next().is_none() {
            continue;
        }
        let without = median(during(runs, attack).map(|(quiet, _)| quiet.answer_us_p99));
        let sum = |figure: fn(&Run) -> u64| {
            during(runs, attack)
                .map(|(_, run)| figure(run))
                .sum::<u64>()
        };
        table.push([
            attack.title().to_owned(),
            sum(|run| run.sent).to_string(),
            sum(|run| run.carried).to_string(),
            sum(|run| run.failed).to_string(),
            format!("{:.1}", 100.0 * of(|run| run.busy)),
            format!("{:.0}", of(|run| run.answer_us_p50)),
            format!("{:.0}", of(|run| run.answer_us_p99)),
            format!("{without:.0}"),
            format!("{:.2}", p99_ratio(runs, attack)),
        ]);
    }
    table
}

/// Runs during an attack, each with the one before it.
fn during(runs: &[Run], attack: Attack) -> impl Iterator<Item = (&Run, &Run)> {
    let pairs = runs.as_chunks::<2>().0.iter();
    let pairs = pairs.filter(move |[_, run]| run.attack == Some(attack));
    pairs.map(|[quiet, run]| (quiet, run))
}

fn p99_ratio(runs: &[Run], attack: Attack) -> f64 {
    median(during(runs, attack).map(|(quiet, run)| run.answer_us_p99 / quiet.answer_us_p99))
}

fn bars(attacks: &[Run], flood: &[Run]) -> Table {
    let mut table = Table::new("", ["bar", "measured", "verdict"]);
    let failed: u64 = attacks.iter().map(|run| run.failed).sum();
    table.push([
        "no good call is lost".to_owned(),
        format!("{failed} lost"),
        verdict(failed == 0).to_owned(),
    ]);
    let worst = Attack::ALL.map(|attack| p99_ratio(attacks, attack));
    let worst = worst.into_iter().fold(0.0, f64::max);
    table.push([
        format!("p99 at most {P99_BAR} x"),
        format!("{worst:.2} x at worst"),
        verdict(worst <= P99_BAR).to_owned(),
    ]);
    let cost = median(during(flood, Attack::Scanner).map(|(quiet, run)| run.busy - quiet.busy));
    table.push([
        format!(
            "the flood takes at most {:.0} % of a core",
            100.0 * FLOOD_BAR
        ),
        format!("{:.1} %", 100.0 * cost),
        verdict(cost <= FLOOD_BAR).to_owned(),
    ]);
    table
}
