//! `sipyard model from-pcap`: makes a queueing model from packet captures.

mod answer;
mod tables;

use std::{fs::File, net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use capture::{Decipher, Machines, Options, Role, Study, Told, Trace};
use clap::Args;
use settings::refuse;
use tls::{Overheard, Secrets};

use super::arguments::{as_model_file, print, write};
use crate::{finished, output, progress::Progress};

/// Make a model from packet captures of one SIP system under low load
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model from-pcap edge.pcap
  sipyard model from-pcap driver.pcap edge.pcap app.pcap --out farm.lqn --network-utilisation 0.4
  sipyard model from-pcap lo.pcap --role driver=127.0.0.1:5061 --role server=127.0.0.1:5080 --html lo.html
  sipyard model from-pcap edge.pcap --threads server=10 --cores server=4 --processor-ms balancer=0.05 --json

Each FILE is a capture point. The network time is the difference of a message's times at two points.
Capture whole packets (tcpdump -s 0) at each node, of at least ten calls, at about one call a
second. All times are milliseconds. The table of calls says why calls are not used.

Exit code: 0 if the command made a model, 2 if it could not.")]
pub(crate) struct FromPcap {
    /// pcap or pcapng files, one from each capture point
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The secrets of TLS connections in the captures, as a program wrote them to the file that SSLKEYLOGFILE named
    #[arg(long, value_name = "FILE")]
    tls_secrets: Option<PathBuf>,
    /// Write the model, as .lqn text or .lqnx XML
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    out: Option<PathBuf>,
    /// Print all results as JSON
    #[arg(long)]
    json: bool,
    /// List each call that the model does not use, and why
    #[arg(long)]
    unused: bool,
    /// Write all results as one HTML page
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
    /// The role of a node, if the command does not find the right one: driver, balancer or server
    #[arg(long, value_name = "ROLE=IP[:PORT]")]
    role: Vec<Told>,
    /// The flow to model: its number in the table of flows
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    flow: usize,
    /// A longer gap within a node's work counts as a pause, such as ringing or talking
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = settings::duration)]
    pause: Duration,
    /// The share of time that the network is busy, for all links or for one
    #[arg(long, value_name = "[ROLE-ROLE=]SHARE", value_parser = utilisation)]
    network_utilisation: Vec<(Option<(Role, Role)>, f64)>,
    /// Threads of each node of a role [default: as many as the load needs]
    #[arg(long, value_name = "ROLE=NUMBER", value_parser = of_role::<u32>)]
    threads: Vec<(Role, u32)>,
    /// Processor cores that each node of a role uses [default: 1]
    #[arg(long, value_name = "ROLE=NUMBER", value_parser = of_role::<u32>)]
    cores: Vec<(Role, u32)>,
    /// Measured processor time of a call at a role; the rest of the captured time then counts as
    /// waiting
    #[arg(long, value_name = "ROLE=MS", value_parser = milliseconds_of_role)]
    processor_ms: Vec<(Role, f64)>,
    /// Work of a role on a message without an answer, such as an ACK [default: the work on the
    /// role's quickest other message]
    #[arg(long, value_name = "ROLE=MS", value_parser = milliseconds_of_role)]
    unseen_ms: Vec<(Role, f64)>,
    /// Calls in the system at a time [default: the number at which an answer takes T1, 500 ms]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    customers: Option<u32>,
}

impl FromPcap {
    pub(crate) fn run(&self) -> ExitCode {
        match self.make() {
            Ok(text) => print(&text),
            Err(refusal) => refusal,
        }
    }

    /// Reads the captures, writes the requested files, and returns the text to print.
    fn make(&self) -> Result<String, ExitCode> {
        let form = self.out.as_deref().map(as_model_file);
        let form = form.transpose().map_err(|problem| refuse([problem]))?;
        let trace = self.read()?;
        let options = Options {
            roles: self.role.clone(),
            pause: self.pause,
            flow: self.flow,
            unseen_ms: self.unseen_ms.clone(),
            processor_known: self.processor_ms.iter().map(|(role, _)| *role).collect(),
        };
        let study = Study::new(&trace, &options).map_err(|error| {
            let warnings = trace.warnings().map(|warning| warning.to_string());
            refuse([error.to_string()].into_iter().chain(warnings))
        })?;
        let machines = self.machines();
        let title = format!(
            "{} from {}",
            study.flows[self.flow - 1].begins,
            names(&self.files)
        );
        let model = study
            .model(&title, &machines)
            .map_err(|problems| refuse(problems.iter().map(ToString::to_string)))?;
        let demands = study.demands(&machines);
        let used = study.used(&options);
        let shown = tables::Shown {
            flow: self.flow,
            used,
            lists_unused: self.unused,
            out: self.out.as_deref(),
        };
        let page = tables::page(&title, &trace, &study, &demands, &shown);
        if let (Some(file), Some(form)) = (&self.out, form) {
            write(file, &form(&model))?;
        }
        if let Some(file) = &self.html {
            write(file, &finished::html(&page))?;
        }
        Ok(match self.json {
            true => answer::json(&trace, (&study, used), &demands, &model.to_text()),
            false => page.plain(),
        })
    }

    fn machines(&self) -> Machines {
        Machines {
            network_utilisation: self.network_utilisation.clone(),
            threads: self.threads.clone(),
            cores: self.cores.clone(),
            processor_ms: self.processor_ms.clone(),
            customers: self.customers,
        }
    }

    /// Reads all files, and reports every one that can't be read.
    fn read(&self) -> Result<Trace, ExitCode> {
        let mut trace = match &self.tls_secrets {
            Some(file) => {
                let secrets = Secrets::of_file(file);
                let secrets = secrets.map_err(|error| refuse([error.to_string()]))?;
                Trace::deciphered(Box::new(Plain(Overheard::new(secrets))))
            }
            None => Trace::default(),
        };
        let mut problems = Vec::new();
        let progress = Progress::new();
        for path in &self.files {
            let name = path.display().to_string();
            let read = File::open(path)
                .map_err(|error| error.to_string())
                .and_then(|file| {
                    let size = file.metadata().map_or(0, |metadata| metadata.len());
                    let show = |read| {
                        let done = read as f64 / size.max(1) as f64;
                        progress.show_share(&format!("reading {name}:"), done);
                    };
                    trace
                        .read(&name, file, show)
                        .map_err(|error| error.to_string())
                });
            if let Err(problem) = read {
                problems.push(format!("{name}: {problem}"));
            }
        }
        drop(progress);
        if problems.is_empty() {
            Ok(trace)
        } else {
            Err(refuse(problems))
        }
    }
}

fn names(files: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        path.file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    files.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn of_role<T: std::str::FromStr>(text: &str) -> Result<(Role, T), String> {
    let (role, value) = text
        .split_once('=')
        .ok_or("write ROLE=NUMBER, as in server=4")?;
    let value = value
        .parse()
        .map_err(|_| format!("`{value}` is not a number"))?;
    Ok((role.parse()?, value))
}

fn milliseconds_of_role(text: &str) -> Result<(Role, f64), String> {
    let (role, ms) = of_role::<f64>(text)?;
    match ms.is_finite() && ms >= 0.0 {
        true => Ok((role, ms)),
        false => Err(format!(
            "{ms} is not a time: write milliseconds, at least 0"
        )),
    }
}

fn utilisation(text: &str) -> Result<(Option<(Role, Role)>, f64), String> {
    let (link, share) = match text.split_once('=') {
        Some((link, share)) => (Some(link), share),
        None => (None, text),
    };
    let share = share
        .parse()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0);
    let share = share.ok_or("write a share of time above 0 and at most 1")?;
    let Some(link) = link else {
        return Ok((None, share));
    };
    let (one, other) = link
        .split_once('-')
        .ok_or("write a link as ROLE-ROLE, as in balancer-server=0.2")?;
    Ok((Some((one.parse()?, other.parse()?)), share))
}

/// What TLS connections say.
#[derive(Debug)]
struct Plain(Overheard);

impl Decipher for Plain {
    fn take(
        &mut self,
        ends: (SocketAddr, SocketAddr),
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<usize> {
        self.0.take(ends, bytes, plain)
    }
}
