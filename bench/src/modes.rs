//! What each mode of a proxy costs: SERvartuka's Figure 1, ours and Kamailio's.

mod page;
mod profile;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
};

use serde::{Deserialize, Serialize};

pub(crate) use self::page::page;
use self::profile::{Group, Profiler};
use crate::{
    load_program::{self, Callees, register},
    process::micros,
    subject::{self, Running},
};

/// Calls in progress.
const WINDOW: u32 = 256;

/// How long calls begin in a run.
const SECONDS: u32 = 5;

/// The password of all users.
const PASSWORD: &str = "secret";

/// Users who are called.
const USERS: u32 = 50;

/// The pool's server where calls go to users instead: a user may not be where a server is.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9);

/// What the program does for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Stateless,
    StatelessProven,
    StatelessProvenBySha256,
    StatelessLookUp,
    Transactions,
    Dynamic,
    LookUp,
    Dialogs,
    Proven,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    Kamailio,
    Sipyard,
}

/// One program in one mode, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    round: u32,
    program: Program,
    mode: Mode,
    /// CPU time of the program for each call.
    cpu_us: f64,
    carried: u64,
    failed: u64,
}

/// Where the time of a mode goes, as shares of the whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Profile {
    program: Program,
    mode: Mode,
    samples: u64,
    shares: Vec<(Group, f64)>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    runs: Vec<Run>,
    profiles: Vec<Profile>,
}

impl Mode {
    const ALL: [Self; 9] = [
        Self::Stateless,
        Self::StatelessProven,
        Self::StatelessProvenBySha256,
        Self::StatelessLookUp,
        Self::Transactions,
        Self::Dynamic,
        Self::LookUp,
        Self::Dialogs,
        Self::Proven,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::StatelessProven => "stateless, digest",
            Self::StatelessProvenBySha256 => "stateless, digest by SHA-256",
            Self::StatelessLookUp => "stateless, look-up",
            Self::Transactions => "transactions",
            Self::Dynamic => "transactions, dynamic",
            Self::LookUp => "transactions, look-up",
            Self::Dialogs => "dialogs, look-up",
            Self::Proven => "dialogs, look-up, digest",
        }
    }

    fn looks_up(self) -> bool {
        matches!(
            self,
            Self::StatelessLookUp | Self::LookUp | Self::Dialogs | Self::Proven
        )
    }

    fn is_proven(self) -> bool {
        matches!(
            self,
            Self::StatelessProven | Self::StatelessProvenBySha256 | Self::Proven
        )
    }

    fn is_by_sha256(self) -> bool {
        self == Self::StatelessProvenBySha256
    }

    fn has_dialogs(self) -> bool {
        matches!(self, Self::Dialogs | Self::Proven)
    }

    /// What Kamailio is told to do.
    fn definitions(self) -> Vec<&'static str> {
        let is_stateful = !matches!(
            self,
            Self::Stateless
                | Self::StatelessProven
                | Self::StatelessProvenBySha256
                | Self::StatelessLookUp
        );
        let all = [
            ("LOOKUP", self.looks_up()),
            ("TRANSACTIONS", is_stateful),
            ("DIALOGS", self.has_dialogs()),
            ("AUTH", self.is_proven()),
            ("SHA256", self.is_by_sha256()),
        ];
        let told = all.into_iter().filter(|(_, is_told)| *is_told);
        told.map(|(name, _)| name).collect()
    }

    /// Our route.
    fn route(self) -> String {
        let to = match self {
            _ if self.looks_up() => "to = \"registrar\"",
            Self::Transactions => "to = \"servers\"\nstate = \"stateful\"",
            Self::Dynamic => "to = \"servers\"\nstate = \"dynamic\"",
            _ => "to = \"servers\"\nstate = \"stateless\"",
        };
        format!("{to}\nauth = {}", self.is_proven())
    }
}

impl Program {
    const ALL: [Self; 2] = [Self::Kamailio, Self::Sipyard];

    fn title(self) -> &'static str {
        match self {
            Self::Kamailio => "Kamailio",
            Self::Sipyard => "Sipyard",
        }
    }

    /// Sipyard's look-up is always that of its stateful proxy, and no state of Kamailio's is dynamic.
    fn has(self, mode: Mode) -> bool {
        match self {
            Self::Kamailio => mode != Mode::Dynamic && Path::new(subject::KAMAILIO).exists(),
            Self::Sipyard => mode != Mode::StatelessLookUp,
        }
    }

    fn start(self, mode: Mode, server: SocketAddr) -> io::Result<Running> {
        let running = match self {
            Self::Kamailio => subject::kamailio_in_mode(server, &mode.definitions()),
            Self::Sipyard => {
                let server = if mode.looks_up() { NOBODY } else { server };
                let algorithm = if mode.is_by_sha256() {
                    "SHA-256"
                } else {
                    "MD5"
                };
                let filled = [
                    ("@ROUTE@", mode.route()),
                    ("@RECORD@", mode.has_dialogs().to_string()),
                    ("@ALGORITHM@", algorithm.to_owned()),
                ];
                subject::sipyard_in_mode(server, &filled, &table())
            }
        }?;
        subject::wait_for_sockets(&[running.address])?;
        Ok(running)
    }
}

/// The users with their password.
fn table() -> String {
    let line = |user| format!("{user},example.com,{PASSWORD}\n");
    let called = (0..USERS).map(|number| line(format!("user-{number}")));
    let lines: String = called.chain([line("caller".to_owned())]).collect();
    format!("username,domain,password\n{lines}")
}

pub(crate) fn measure(rounds: u32) -> io::Result<Results> {
    let mut results = Results::default();
    for round in 1..=rounds {
        for mode in Mode::ALL {
            for program in Program::ALL.into_iter().filter(|it| it.has(mode)) {
                let (run, _) = measure_run(round, program, mode, None)?;
                println!("{run:?}");
                results.runs.push(run);
            }
        }
    }
    for mode in Mode::ALL {
        for program in Program::ALL.into_iter().filter(|it| it.has(mode)) {
            let Some(profiler) = Profiler::find(program) else {
                continue;
            };
            let (_, shares) = measure_run(0, program, mode, Some(profiler))?;
            let Some((samples, shares)) = shares else {
                continue;
            };
            results.profiles.push(Profile {
                program,
                mode,
                samples,
                shares,
            });
        }
    }
    Ok(results)
}

type Shares = (u64, Vec<(Group, f64)>);

fn measure_run(
    round: u32,
    program: Program,
    mode: Mode,
    profiler: Option<Profiler>,
) -> io::Result<(Run, Option<Shares>)> {
    let folder = tempfile::tempdir()?;
    let callees = Callees::start(1, &[])?;
    let server = callees.addresses[0];
    let running = program.start(mode, server)?;
    if mode.looks_up() {
        register_users(&running, server)?;
    }
    let profiled = profiler
        .map(|profiler| profiler.start(&running.process, folder.path(), SECONDS - 2))
        .transpose()?;
    let before = running.process.cpu();
    let (carried, failed) = call(running.address, mode)?;
    let cpu = running.process.cpu() - before;
    let shares = profiled.map(profile::Recording::shares).transpose()?;
    let run = Run {
        round,
        program,
        mode,
        cpu_us: micros(cpu) / carried.max(1) as f64,
        carried,
        failed,
    };
    Ok((run, shares))
}

fn register_users(running: &Running, contact: SocketAddr) -> io::Result<()> {
    let (users, contact) = (USERS.to_string(), contact.to_string());
    let own = ["--users", &users, "--rate", "200", "--contact", &contact];
    let outcome = register(
        running.address,
        &[&own[..], &["--password", PASSWORD]].concat(),
    )?;
    match outcome.carried {
        granted if granted == u64::from(USERS) => Ok(()),
        granted => Err(io::Error::other(format!("{granted} users are registered"))),
    }
}

/// Calls through the program, as many as it carries: those that were carried, and those that failed.
fn call(program: SocketAddr, mode: Mode) -> io::Result<(u64, u64)> {
    let (users, window) = (USERS.to_string(), WINDOW.to_string());
    let duration = format!("{SECONDS}s");
    let own = [
        "--users",
        &users,
        "--window",
        &window,
        "--duration",
        &duration,
    ];
    let proof: &[&str] = match mode.is_proven() {
        true => &["--password", PASSWORD],
        false => &[],
    };
    let from = ["--from", "127.0.0.1"];
    let (outcome, _) = load_program::call(program, &[&own[..], &from, proof].concat(), || {})?;
    Ok((outcome.carried, outcome.failed))
}
