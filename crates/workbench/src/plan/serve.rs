//! `sipyard plan capacity`: calculates the nodes for a demand.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use report::{Axis, Page, Plot, Series, Table};
use serde::Serialize;
use settings::duration;

use super::{
    arguments::{amount, some_share, transport},
    capacity::{Demand, Outlook, Response, Stage, outlook, outlooks},
    forms::Forms,
    solved::{Solved, solved},
    stages::{cores, stage, stages_of},
};
use crate::model;

/// Find the nodes that a demand needs, their response times, and the bottleneck
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard plan capacity --busy-hour-calls 1000000 --stage edge:call-ms=0.1,cores=4 --stage app:call-ms=2.6,cores=4
  sipyard plan capacity --busy-hour-calls 200000 --users 500000 --registration-interval 10m \\
      --stage edge:call-ms=0.1,registration-ms=0.03,nodes=2 --transport tls=30%:2.5 --grow 50%
  sipyard plan capacity --busy-hour-calls 500000 --model farm.lqn --html plan.html

Costs are processor times over UDP: measured ones (processor seconds divided by calls), or those of
a model in milliseconds. Each node is a queue with Poisson arrivals, exponential service and one
server for each core (M/M/c). The nodes of a stage share the load evenly. A response time is what
the stages add to a transaction. A model is also solved as it is written, with its copies, forks and
thread limits: that gives the response time of a whole call.

Exit code: 0 if the command made a plan, 2 if an argument is wrong.")]
pub(super) struct Capacity {
    /// Calls that start in the busiest hour
    #[arg(long, value_name = "NUMBER", value_parser = amount)]
    busy_hour_calls: f64,
    /// Mean length of a call
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = duration)]
    holding_time: Duration,
    /// Registered users
    #[arg(long, value_name = "NUMBER", default_value = "0", value_parser = amount)]
    users: f64,
    /// Time between a user's registrations
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    registration_interval: Duration,
    /// Transactions of a call: INVITE and BYE are two
    #[arg(long, value_name = "NUMBER", default_value = "2", value_parser = amount)]
    transactions_per_call: f64,
    /// A transport's share of the messages, and the cost of its message in messages of UDP; the
    /// rest uses UDP
    #[arg(long, value_name = "NAME=SHARE:COST", value_parser = transport)]
    transport: Vec<(String, f64, f64)>,
    /// A stage: processor times in milliseconds, cores and number of its nodes
    #[arg(long, value_name = "NAME:call-ms=MS,...", value_parser = stage, required_unless_present = "model")]
    stage: Vec<Stage>,
    /// Read stages from the processors of a model: .lqn or .lqnx
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Cores of a node of the model's stage: all cores of its processor count as one node otherwise
    #[arg(long, value_name = "NAME=NUMBER", value_parser = cores, requires = "model")]
    cores: Vec<(String, u32)>,
    /// The highest utilisation of a core
    #[arg(long, value_name = "SHARE", default_value = "70%", value_parser = some_share)]
    utilisation_max: f64,
    /// Growth of the demand, for a forecast
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = some_share)]
    grow: f64,
    #[command(flatten)]
    forms: Forms,
}

#[derive(Serialize)]
struct Answer {
    /// Nodes of each stage that carry the demand, and one of each to spare.
    needed: Vec<u32>,
    demand: Demand,
    stages: Vec<Stage>,
    outlooks: Vec<Outlook>,
    /// The model at this demand.
    model: Option<Solved>,
}

impl Capacity {
    pub(super) fn answer(&self) -> Result<String, Vec<String>> {
        let demand = self.demand().map_err(|problem| vec![problem])?;
        let mut stages = self.stage.clone();
        let mut of_demand = None;
        if let Some(path) = &self.model {
            let model = model::read(path)?;
            let mut of_model = stages_of(&model)
                .map_err(|problem| vec![format!("{}: {problem}", path.display())])?;
            of_demand = Some(solved(&model, demand.calls_per_s));
            for (name, cores) in &self.cores {
                let found = of_model.iter_mut().find(|stage| stage.name == *name);
                let unknown = || vec![format!("--cores: the model has no processor {name}")];
                found.ok_or_else(unknown)?.cores = *cores;
            }
            stages.extend(of_model);
        }
        let sized: Vec<Stage> = stages
            .iter()
            .map(|stage| stage.sized(&demand, self.utilisation_max))
            .collect();
        let nodes_needed = |stage: &Stage| 1 + stage.needed(&demand, self.utilisation_max);
        let answer = Answer {
            needed: stages.iter().map(nodes_needed).collect(),
            outlooks: outlooks(&demand, &sized, self.grow),
            demand,
            stages: sized,
            model: of_demand,
        };
        self.forms.give(&answer.page(), &answer)
    }

    fn demand(&self) -> Result<Demand, String> {
        let shares: f64 = self.transport.iter().map(|(_, share, _)| share).sum();
        if shares > 1.0 + 1e-9 {
            return Err(format!(
                "the transports' shares add up to {:.0} %",
                100.0 * shares
            ));
        }
        let dearer: f64 = self
            .transport
            .iter()
            .map(|(_, share, cost)| share * (cost - 1.0))
            .sum();
        let calls_per_s = self.busy_hour_calls / 3_600.0;
        let demand = Demand {
            calls_per_s,
            registrations_per_s: self.users / self.registration_interval.as_secs_f64(),
            open_calls: calls_per_s * self.holding_time.as_secs_f64(),
            transport_factor: 1.0 + dearer,
            transactions_per_call: self.transactions_per_call,
        };
        if demand.calls_per_s * demand.transactions_per_call + demand.registrations_per_s > 0.0 {
            Ok(demand)
        } else {
            Err("there is no demand: give calls with transactions, or users".to_owned())
        }
    }
}

impl Answer {
    fn page(&self) -> Page {
        let planned = &self.outlooks[0];
        let at_most = planned.calls_per_s_max * 3_600.0;
        let first = format!(
            "{} is the first bottleneck: the farm carries at most {at_most:.0} calls in the busy \
             hour.",
            planned.bottleneck
        );
        let page = Page::new("Capacity")
            .text(&self.need())
            .table(self.demand_table())
            .table(self.stages_table(planned))
            .text(&first)
            .table(self.outlooks_table());
        let page = match &self.model {
            Some(model) => page.table(model.table()),
            None => page,
        };
        page.plot(self.plot(planned))
    }

    /// What to buy, in a sentence.
    fn need(&self) -> String {
        let of = |(needed, stage): (&u32, &Stage)| {
            let cores = if stage.cores == 1 { "core" } else { "cores" };
            format!("{needed} x {} ({} {cores})", stage.name, stage.cores)
        };
        let needed: Vec<String> = self.needed.iter().zip(&self.stages).map(of).collect();
        let list = match &needed[..] {
            [others @ .., last] if !others.is_empty() => {
                format!("{} and {last}", others.join(", "))
            }
            all => all.concat(),
        };
        let mut need = format!("You need {list}: one of each is a spare.");
        for (&needed, stage) in self.needed.iter().zip(&self.stages) {
            if let Some(planned) = stage.nodes.filter(|planned| planned + 1 < needed) {
                let name = &stage.name;
                need += &format!(" The {planned} x {name} that you plan can't carry it.");
            }
        }
        need
    }

    fn demand_table(&self) -> Table {
        let demand = &self.demand;
        let columns = [
            "calls/s",
            "registrations/s",
            "open calls",
            "cost of a message, UDP = 1",
        ];
        Table::new("Demand in the busy hour", columns).row([
            format!("{:.1}", demand.calls_per_s),
            format!("{:.1}", demand.registrations_per_s),
            format!("{:.0}", demand.open_calls),
            format!("{:.2}", demand.transport_factor),
        ])
    }

    fn stages_table(&self, planned: &Outlook) -> Table {
        let columns = [
            "stage",
            "a call, ms",
            "a registration, ms",
            "cores",
            "nodes",
            "busy, %",
            "mean, ms",
            "p50, ms",
            "p99, ms",
        ];
        let mut table = Table::new("Stages", columns);
        for (stage, outlook) in self.stages.iter().zip(&planned.stages) {
            let [mean, p50, p99] = times(outlook.response);
            table.push([
                stage.name.clone(),
                format!("{:.3}", stage.call_ms),
                format!("{:.3}", stage.registration_ms),
                stage.cores.to_string(),
                outlook.nodes.to_string(),
                busy(outlook.utilisation),
                mean,
                p50,
                p99,
            ]);
        }
        table
    }

    fn outlooks_table(&self) -> Table {
        let columns = [
            "what if",
            "calls/s",
            "bottleneck",
            "busy, %",
            "mean, ms",
            "p50, ms",
            "p99, ms",
            "",
        ];
        let mut table = Table::new("All stages together", columns);
        for outlook in &self.outlooks {
            let [mean, p50, p99] = times(outlook.response);
            table.push([
                outlook.what.clone(),
                format!("{:.1}", outlook.calls_per_s),
                outlook.bottleneck.clone(),
                busy(outlook.utilisation),
                mean,
                p50,
                p99,
                if outlook.response.is_some() {
                    String::new()
                } else {
                    "overloaded".to_owned()
                },
            ]);
        }
        table
    }

    /// Plots response times up to the highest load of the farm.
    fn plot(&self, planned: &Outlook) -> Plot {
        let most = planned.calls_per_s_max / planned.calls_per_s;
        let loads = (1..=24).map(|step| most * f64::from(step) / 25.0);
        let under = |load: f64| outlook("", &self.demand.times(load), &self.stages);
        let outlooks: Vec<Outlook> = loads.filter(|load| load.is_finite()).map(under).collect();
        let series = |name: &str, read: fn(&Response) -> f64| {
            let points = outlooks.iter().filter_map(|outlook| {
                Some((outlook.calls_per_s, read(outlook.response.as_ref()?)))
            });
            Series::line(name, points.collect::<Vec<_>>())
        };
        Plot::new(
            "Response time through all stages",
            Axis::linear("calls/s"),
            Axis::log("ms"),
        )
        .with(series("mean", |response| response.mean_ms))
        .with(series("p50", |response| response.p50_ms))
        .with(series("p99", |response| response.p99_ms))
    }
}

fn times(response: Option<Response>) -> [String; 3] {
    match response {
        Some(response) => {
            [response.mean_ms, response.p50_ms, response.p99_ms].map(|ms| format!("{ms:.3}"))
        }
        None => ["-"; 3].map(str::to_owned),
    }
}

fn busy(utilisation: f64) -> String {
    match utilisation.is_finite() {
        true => format!("{:.1}", 100.0 * utilisation),
        false => "-".to_owned(),
    }
}
