//! `sipyard plan availability`: calculates the spare nodes for a target.

use clap::Args;
use report::{Page, Table};
use serde::Serialize;

use super::{
    arguments::{amount, some_share, uptime},
    availability::{Nodes, Plan},
    crashes::simulate,
    forms::Forms,
};

/// Find the cheapest two-stage cluster that reaches an availability target
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan availability --first-stage 99% --second-stage 99% --clusters 3
  sipyard plan availability --first-stage 720h/4h --second-stage 99.5% --first-needed 2 --second-price 3
  sipyard plan availability --first-stage 99% --second-stage 99% --plan 3,3,3 --json
  sipyard plan availability --first-stage 99% --second-stage 99% --clusters 2 --simulate 20

S first-stage nodes share the load. Behind them are P clusters of B nodes each; one node of a
cluster carries the cluster's load. If one first-stage node can carry the whole load, the system is
available for (1 - (1 - Rs)^S) * (1 - (1 - Rp)^B)^P of the time (Singh and Schulzrinne 2005, section
4.4). Nodes fail independently of each other.

--simulate tests the plan, given or cheapest: edges and emulated servers crash and are repaired on
virtual time, and calls show if enough of them work. Nodes as good as those of a real farm fail too
rarely to count, so the simulation also runs with nodes that are up 90 % and 80 % of the time.

Exit code: 0 if the command found a plan, 2 if it did not.")]
pub(super) struct Availability {
    /// The share of time that a first-stage node is up, or its mean times up and down
    #[arg(long, value_name = "SHARE|UP/DOWN", value_parser = uptime)]
    first_stage: f64,
    /// The same share or times of a second-stage node
    #[arg(long, value_name = "SHARE|UP/DOWN", value_parser = uptime)]
    second_stage: f64,
    /// First-stage nodes that the load needs
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    first_needed: u32,
    /// Clusters that the load needs
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clusters: u32,
    /// The share of time in which the cluster must carry the full load
    #[arg(long, value_name = "SHARE", default_value = "99.999%", value_parser = some_share)]
    target: f64,
    /// The price of a first-stage node
    #[arg(long, value_name = "PRICE", default_value = "1", value_parser = amount)]
    first_price: f64,
    /// The price of a second-stage node
    #[arg(long, value_name = "PRICE", default_value = "1", value_parser = amount)]
    second_price: f64,
    /// A plan to check: first-stage nodes, nodes of each cluster, clusters
    #[arg(long, value_name = "S,B,P", value_parser = sizes)]
    plan: Option<(u32, u32, u32)>,
    /// Simulate the plan's crashes and repairs in this many runs of 20 hours
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "10", value_parser = clap::value_parser!(u64).range(2..=10_000))]
    simulate: Option<u64>,
    #[command(flatten)]
    forms: Forms,
}

/// The most nodes of a simulation.
const SIMULATED_MAX: u32 = 100;

/// Nodes that fail often enough to count their failures.
const BAD_NODES: [f64; 2] = [0.9, 0.8];

/// A plan with its simulation.
#[derive(Serialize)]
struct Trial {
    /// The share of time that a first-stage and a second-stage node is up.
    first: f64,
    second: f64,
    formula: f64,
    simulated: f64,
    ci95: Option<f64>,
}

#[derive(Serialize)]
struct Answer {
    nodes: Nodes,
    target: f64,
    given: Option<Plan>,
    cheapest: Option<Plan>,
    trials: Vec<Trial>,
}

impl Availability {
    pub(super) fn answer(&self) -> Result<String, Vec<String>> {
        let nodes = Nodes {
            first: self.first_stage,
            second: self.second_stage,
            first_needed: self.first_needed,
            clusters: self.plan.map_or(self.clusters, |(.., clusters)| clusters),
            first_price: self.first_price,
            second_price: self.second_price,
        };
        let mut answer = Answer {
            nodes,
            target: self.target,
            given: self
                .plan
                .map(|(first, backups, _)| nodes.plan(first, backups)),
            cheapest: nodes.cheapest(self.target),
            trials: Vec::new(),
        };
        if answer.given.is_none() && answer.cheapest.is_none() {
            let target = percent(self.target);
            return Err(vec![format!(
                "no cluster of such nodes is available for {target} of the time: plan with better \
                 nodes"
            )]);
        }
        if let (Some(runs), Some(plan)) = (self.simulate, answer.given.or(answer.cheapest)) {
            answer.trials = trials(&nodes, &plan, runs).map_err(|problem| vec![problem])?;
        }
        self.forms.give(&answer.page(), &answer)
    }
}

fn trials(nodes: &Nodes, plan: &Plan, runs: u64) -> Result<Vec<Trial>, String> {
    let (first, backups) = (plan.first, plan.backups);
    let all = first + plan.clusters * backups;
    if all > SIMULATED_MAX {
        return Err(format!(
            "the plan has {all} nodes: a simulation takes at most {SIMULATED_MAX}; leave out \
             --simulate or give a smaller --plan"
        ));
    }
    let bad = BAD_NODES.map(|up| Nodes {
        first: up,
        second: up,
        ..*nodes
    });
    let trial = |nodes: &Nodes| {
        let simulated = simulate(nodes, first, backups, runs)?;
        Ok(Trial {
            first: nodes.first,
            second: nodes.second,
            formula: nodes.plan(first, backups).availability,
            simulated: simulated.mean,
            ci95: simulated.half,
        })
    };
    [*nodes].iter().chain(&bad).map(trial).collect()
}

impl Answer {
    fn page(&self) -> Page {
        let columns = [
            "plan",
            "first stage S",
            "nodes of a cluster B",
            "clusters P",
            "price",
            "full load, % of time",
            "any first-stage node, % of time",
            "without full load",
        ];
        let mut table = Table::new("Two-stage clusters", columns);
        let cheapest = format!("cheapest for {}", percent(self.target));
        for (name, plan) in [("given", &self.given), (cheapest.as_str(), &self.cheapest)] {
            let Some(plan) = plan else { continue };
            table.push([
                name.to_owned(),
                plan.first.to_string(),
                plan.backups.to_string(),
                plan.clusters.to_string(),
                plan.price.to_string(),
                number(plan.availability),
                number(plan.with_any_first),
                a_year(plan.outage_s()),
            ]);
        }
        let mut page = Page::new("Availability").table(table);
        if !self.trials.is_empty() {
            page = page.table(self.trials_table());
        }
        match self.cheapest {
            Some(_) => page,
            None => page.text(&format!(
                "No cluster of such nodes is available for {} of the time.",
                percent(self.target)
            )),
        }
    }

    fn trials_table(&self) -> Table {
        let columns = [
            "a first-stage node is up, %",
            "a second-stage node is up, %",
            "by the formula, % of time",
            "simulated, % of time",
            "±95 %",
        ];
        let mut table = Table::new("The plan under crashes and repairs", columns);
        for trial in &self.trials {
            table.push([
                format!("{:.3}", 100.0 * trial.first),
                format!("{:.3}", 100.0 * trial.second),
                number(trial.formula),
                format!("{:.3}", 100.0 * trial.simulated),
                trial
                    .ci95
                    .map_or_else(|| "-".to_owned(), |half| format!("{:.3}", 100.0 * half)),
            ]);
        }
        table
    }
}

fn sizes(text: &str) -> Result<(u32, u32, u32), String> {
    let numbers: Vec<u32> = text
        .split(',')
        .map(|number| {
            number
                .trim()
                .parse()
                .ok()
                .filter(|number| (1..=1000).contains(number))
        })
        .collect::<Option<_>>()
        .unwrap_or_default();
    match numbers[..] {
        [first, backups, clusters] => Ok((first, backups, clusters)),
        _ => Err("write three numbers from 1 to 1000, as in 3,3,3".to_owned()),
    }
}

fn number(share: f64) -> String {
    format!("{:.6}", 100.0 * share)
}

fn percent(share: f64) -> String {
    // Shares as they are written, not as they are stored.
    let text = format!("{:.9}", 100.0 * share);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn a_year(seconds: f64) -> String {
    match seconds {
        ..120.0 => format!("{seconds:.0} s a year"),
        ..7_200.0 => format!("{:.0} min a year", seconds / 60.0),
        _ => format!("{:.1} h a year", seconds / 3_600.0),
    }
}
