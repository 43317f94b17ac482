//! `sipyard plan availability`: spare nodes for a promise.

use clap::Args;
use report::{Page, Table};
use serde::Serialize;

use super::{
    Forms,
    arguments::{amount, some_share, uptime},
    availability::{Nodes, Plan},
};

/// Find the cheapest two-stage cluster that is available for long enough
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan availability --first-stage 99% --second-stage 99% --clusters 3
  sipyard plan availability --first-stage 720h/4h --second-stage 99.5% --first-needed 2 --second-price 3
  sipyard plan availability --first-stage 99% --second-stage 99% --plan 3,3,3 --json

S first-stage nodes share the load; behind them are P clusters of B nodes each, of which one carries the
cluster's load. One first stage node carrying all, the cluster is available for
(1 - (1 - Rs)^S) * (1 - (1 - Rp)^B)^P of the time (Singh and Schulzrinne 2005, section 4.4). Nodes fail
independently of each other.

Exit code: 0 if there is a plan, 2 if there is none.")]
pub(super) struct Availability {
    /// The share of time that a first-stage node is up, or its mean times up and down
    #[arg(long, value_name = "SHARE|UP/DOWN", value_parser = uptime)]
    first_stage: f64,
    /// The same of a second-stage node
    #[arg(long, value_name = "SHARE|UP/DOWN", value_parser = uptime)]
    second_stage: f64,
    /// First-stage nodes that the load needs
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    first_needed: u32,
    /// Clusters that the load needs
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clusters: u32,
    /// The share of time that the full load shall be carried
    #[arg(long, value_name = "SHARE", default_value = "99.999%", value_parser = some_share)]
    target: f64,
    /// What a first-stage node costs
    #[arg(long, value_name = "PRICE", default_value = "1", value_parser = amount)]
    first_price: f64,
    /// What a second-stage node costs
    #[arg(long, value_name = "PRICE", default_value = "1", value_parser = amount)]
    second_price: f64,
    /// A plan to judge: first-stage nodes, nodes of each cluster, clusters
    #[arg(long, value_name = "S,B,P", value_parser = sizes)]
    plan: Option<(u32, u32, u32)>,
    #[command(flatten)]
    forms: Forms,
}

#[derive(Serialize)]
struct Answer {
    nodes: Nodes,
    target: f64,
    given: Option<Plan>,
    cheapest: Option<Plan>,
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
        let answer = Answer {
            nodes,
            target: self.target,
            given: self
                .plan
                .map(|(first, backups, _)| nodes.plan(first, backups)),
            cheapest: nodes.cheapest(self.target),
        };
        if answer.given.is_none() && answer.cheapest.is_none() {
            let target = percent(self.target);
            return Err(vec![format!(
                "no cluster of such nodes is available for {target}: take better nodes"
            )]);
        }
        self.forms.give(&answer.page(), &answer)
    }
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
        let page = Page::new("Availability").table(table);
        match self.cheapest {
            Some(_) => page,
            None => page.text(&format!(
                "No cluster of such nodes is available for {}.",
                percent(self.target)
            )),
        }
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
