//! `sipyard plan state`: calculates where the state of calls is held best on their paths of nodes.

mod diagram;
mod read;

use std::path::PathBuf;

use clap::Args;
use report::{Page, Table};
use serde::Serialize;
use topology::{Assignment, Load, NoAnswer, Topology};

use super::forms::Forms;

/// Find the most calls that nodes carry when each call is held by one node on its path
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan state experiments/003/two.toml
  sipyard plan state experiments/003/two.toml --json
  sipyard plan state experiments/003/two.toml --html state.html

The file has the nodes, each with the calls per second that it carries alone, and the paths of the
calls:

  [node.edge]
  stateless = 5700          # others hold all of its calls
  stateful = 4700           # it holds all of them

  [node.core]
  stateless = 5700
  stateful = 4700

  [[path]]
  nodes = [\"edge\", \"core\"]
  share = 1.0               # of all calls

It is the linear program of Balasubramaniyan et al., \"SERvartuka: Enhancing SIP server scalability
with dynamic state management\", section 2.3, path by path. The best fixed assignment is one in which
each node either holds all calls that no node before it holds, or none. A route with
state = \"dynamic\" finds the optimum without this plan.

Exit code: 0 if there is an answer, 2 if the file has a mistake.")]
pub(super) struct State {
    /// The file with nodes and paths
    #[arg(value_name = "TOPOLOGY.toml")]
    file: PathBuf,
    #[command(flatten)]
    forms: Forms,
}

#[derive(Serialize)]
struct Answer {
    topology: Topology,
    best: Outlook,
    fixed: Outlook,
    /// By how much the best carries more than the best fixed one.
    gain: f64,
}

/// An assignment, and what it makes of each node.
#[derive(Serialize)]
struct Outlook {
    #[serde(flatten)]
    assignment: Assignment,
    nodes: Vec<Load>,
}

impl State {
    pub(super) fn answer(&self) -> Result<String, Vec<String>> {
        let topology = read::load(&self.file).map_err(|problems| {
            let lines = problems.iter().map(ToString::to_string);
            lines.collect::<Vec<_>>()
        })?;
        let answer = Answer::new(topology).map_err(|why| vec![why.to_string()])?;
        self.forms.give(&answer.page(), &answer)
    }
}

impl Answer {
    fn new(topology: Topology) -> Result<Self, NoAnswer> {
        let outlook = |assignment: Assignment| Outlook {
            nodes: topology.loads(&assignment),
            assignment,
        };
        let best = outlook(topology.best()?);
        let fixed = outlook(topology.fixed()?);
        Ok(Self {
            gain: best.assignment.calls_per_s / fixed.assignment.calls_per_s - 1.0,
            best,
            fixed,
            topology,
        })
    }

    fn page(&self) -> Page {
        let summary = format!(
            "The best assignment carries {:.0} calls/s, the best fixed one {:.0} calls/s: {:+.1} %.",
            self.best.assignment.calls_per_s,
            self.fixed.assignment.calls_per_s,
            100.0 * self.gain
        );
        Page::new("Where state is held")
            .text(&summary)
            .table(self.table("The best assignment", &self.best))
            .table(self.table("The best fixed assignment", &self.fixed))
            .verbatim(&diagram::text(&self.topology, &self.best.nodes))
            .svg(&diagram::svg(&self.topology, &self.best.nodes))
    }

    fn table(&self, title: &str, outlook: &Outlook) -> Table {
        let columns = ["node", "calls/s", "held/s", "share held, %", "busy, %"];
        let mut table = Table::new(title, columns);
        for (node, load) in self.topology.nodes.iter().zip(&outlook.nodes) {
            table.push([
                node.name.clone(),
                format!("{:.0}", load.calls_per_s),
                format!("{:.0}", load.held_per_s),
                format!(
                    "{:.1}",
                    100.0 * load.held_per_s / load.calls_per_s.max(1e-9)
                ),
                format!("{:.1}", 100.0 * load.utilisation),
            ]);
        }
        table
    }
}
