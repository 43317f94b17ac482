//! `sipyard model from-live`: makes a queueing model from a running node's counters.

mod draw;
mod scrape;
mod seen;

use std::{path::PathBuf, process::ExitCode, thread, time::Duration};

use admin_client::{Client, PATIENCE};
use clap::Args;
use report::{Page, Table};
use serde::Serialize;
use settings::refuse;
use socket::Clock;

use super::{
    arguments::{as_model_file, print, write},
    demand::{Station, stations},
};
use crate::{finished, output, progress::Progress};
use draw::Machines;
use scrape::Scrape;
use seen::{Figure, Seen};

/// The number of times to read the counters, after the first.
const LOOKS: u32 = 10;

/// Make a model from the counters of a running node while it carries calls
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model from-live --out farm.lqn
  sipyard model from-live --admin http://10.0.0.2:8060 --during 5m --server-cores 4 --html farm.html
  sipyard model from-live --during 1m --json

A call is an INVITE and its share of all other requests. The node's part is its workers' processor
time. A server's part is the time to its first response, so run this while requests hardly wait at
servers. If servers send a 100 before they do the work, make the model from a capture (from-pcap).
All times are milliseconds.

Exit code: 0 if the command made a model, 2 if it could not, 1 if no node answered.")]
pub(crate) struct FromLive {
    /// The address of the node's admin API
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8060")]
    admin: String,
    /// How long to watch the node
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = settings::duration)]
    during: Duration,
    /// Write the model, as .lqn text or .lqnx XML
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    out: Option<PathBuf>,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    /// Write all results as one HTML page
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
    /// Processor cores of each server
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    server_cores: u32,
    /// Threads of each server [default: as many as the load needs]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    server_threads: Option<u32>,
    /// Calls in the system at a time [default: the number at which an answer takes T1, 500 ms]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    customers: Option<u32>,
}

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    seen: &'a Seen,
    demands: Vec<Station<'a>>,
    /// As .lqn text.
    model: String,
}

impl FromLive {
    pub(crate) fn run(&self) -> ExitCode {
        self.answer().unwrap_or_else(|refusal| refusal)
    }

    fn answer(&self) -> Result<ExitCode, ExitCode> {
        let form = self.out.as_deref().map(as_model_file);
        let form = form.transpose().map_err(|problem| refuse([problem]))?;
        let looks = self.look()?;
        let seen = Seen::between(&looks).map_err(|problem| refuse([self.told(&problem)]))?;
        let machines = Machines {
            cores: self.server_cores,
            threads: self.server_threads,
            customers: self.customers,
        };
        let title = format!("{} for {:.0} s", self.admin, seen.seconds);
        let model = draw::model(&title, &seen, &machines)
            .map_err(|problems| refuse(problems.iter().map(ToString::to_string)))?;
        let demands = draw::demands(&seen, &machines);
        if let (Some(file), Some(form)) = (&self.out, form) {
            write(file, &form(&model))?;
        }
        let page = seen.page(&title).table(stations(&demands));
        let page = seen.warnings.iter().fold(page, |page, warning| {
            page.text(&format!("Warning: {warning}."))
        });
        if let Some(file) = &self.html {
            write(file, &finished::html(&page))?;
        }
        if !self.json {
            return Ok(print(&page.plain()));
        }
        let answer = Answer {
            seen: &seen,
            demands: demands.iter().map(Station::from).collect(),
            model: model.to_text(),
        };
        let text =
            serde_json::to_string_pretty(&answer).expect("numbers and texts have a JSON form");
        Ok(print(&(text + "\n")))
    }

    /// Reads the node's counters several times.
    fn look(&self) -> Result<Vec<Scrape>, ExitCode> {
        let progress = Progress::new();
        let clock = Clock::start();
        let mut looks = vec![self.scrape()?];
        for look in 1..=LOOKS {
            let due = self.during * look / LOOKS;
            while clock.now() < due {
                thread::park_timeout(due.saturating_sub(clock.now()));
            }
            progress.show_share("looking", f64::from(look) / f64::from(LOOKS));
            looks.push(self.scrape()?);
        }
        Ok(looks)
    }

    fn scrape(&self) -> Result<Scrape, ExitCode> {
        let client = Client::new(&self.admin, PATIENCE);
        let answer = client.ask("GET", "/metrics", &[], b"").map_err(|error| {
            refuse([self.told(&format!(
                "{error}; check that the node runs and that --admin is its admin.address"
            ))]);
            ExitCode::FAILURE
        })?;
        if !answer.is_success {
            return Err(refuse([self.told(&answer.text())]));
        }
        Scrape::read(&answer.text()).map_err(|problem| refuse([self.told(&problem)]))
    }

    fn told(&self, problem: &str) -> String {
        format!("{}: {problem}", self.admin)
    }
}

impl Seen {
    fn page(&self, title: &str) -> Page {
        let columns = ["seconds", "calls", "calls/s", "workers", "a worker busy, %"];
        let traffic = Table::new("Traffic", columns).row([
            format!("{:.1}", self.seconds),
            self.calls.to_string(),
            format!("{:.1}", self.calls / self.seconds),
            self.workers.to_string(),
            format!("{:.1}", 100.0 * self.busy),
        ]);
        Page::new(title).table(traffic).table(self.times())
    }

    fn times(&self) -> Table {
        let columns = [
            "where",
            "request",
            "servers",
            "of a call",
            "mean, ms",
            "±95 %, ms",
        ];
        let mut table = Table::new("Times of a request", columns);
        let requests: f64 = self.kinds.iter().map(|kind| kind.per_call).sum();
        let [mean, half] = self.request.digits();
        let node = ["the node's processor", "any", "1"].map(str::to_owned);
        table.push(
            node.into_iter()
                .chain([format!("{requests:.3}"), mean, half]),
        );
        for kind in &self.kinds {
            let [mean, half] = kind.response.digits();
            table.push([
                format!("pool {}", kind.pool),
                kind.method.clone(),
                kind.servers.to_string(),
                format!("{:.3}", kind.per_call),
                mean,
                half,
            ]);
        }
        table
    }
}

impl Figure {
    fn digits(&self) -> [String; 2] {
        let half = self
            .ci95_ms
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms:.4}"));
        [format!("{:.4}", self.mean_ms), half]
    }
}
