//! `sipyard sim digests`: prints one hash per run, which shows that a change of the code changed no
//! decision.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use clap::Args;
use settings::refuse;
use sim::{Cluster, Digest, Experiment, explore};

use super::read;
use crate::{parallel::each, progress::Progress};

/// The part of an experiment that goes into its hash, in virtual time.
const HASHED: Duration = Duration::from_secs(20);

/// Print a hash of all events of random worlds and of experiments
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard sim digests --worlds 200 experiments/*.toml > before
  sipyard sim digests --worlds 200 experiments/*.toml | diff before -

Two programs that print the same hash sent the same bytes at the same times. The hash of an
experiment covers the first 20 s of its first and its last point. Random worlds are hashed without
NATs and strangers.")]
pub(super) struct Digests {
    /// Experiments to hash
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Number of random worlds to hash, from seed 1 on
    #[arg(long, value_name = "N", default_value_t = 200)]
    worlds: u64,
}

/// The subject of a hash.
enum Subject {
    World(u64),
    Point(String, Box<Experiment>),
}

impl Digests {
    pub(super) fn run(&self) -> ExitCode {
        let subjects = match self.subjects() {
            Ok(subjects) => subjects,
            Err(problems) => return refuse(problems),
        };
        for (subject, digest) in subjects.iter().zip(digests(&subjects)) {
            // A reader that has gone away wants no more lines.
            let _ = match subject {
                Subject::World(seed) => writeln!(io::stdout(), "world {seed}: {digest}"),
                Subject::Point(name, _) => writeln!(io::stdout(), "{name}: {digest}"),
            };
        }
        ExitCode::SUCCESS
    }

    fn subjects(&self) -> Result<Vec<Subject>, Vec<String>> {
        let mut subjects: Vec<_> = (1..=self.worlds).map(Subject::World).collect();
        let mut problems = Vec::new();
        for file in &self.files {
            match read::load(file) {
                Ok(scenario) => {
                    let places = scenario.places();
                    for (end, place) in [("first", places.first()), ("last", places.last())] {
                        let Some(place) = place else { continue };
                        let name = format!("{}, {end} point", file.display());
                        let experiment = Box::new(scenario.experiment(place));
                        subjects.push(Subject::Point(name, experiment));
                    }
                }
                Err(found) => problems.extend(found.iter().map(ToString::to_string)),
            }
        }
        if problems.is_empty() {
            Ok(subjects)
        } else {
            Err(problems)
        }
    }
}

/// Calculates the hashes of all subjects on all cores.
fn digests(subjects: &[Subject]) -> Vec<String> {
    let (progress, done) = (Progress::new(), AtomicUsize::new(0));
    each(subjects, |subject| {
        let done = done.fetch_add(1, Ordering::Relaxed);
        progress.show(&format!("{done} of {} runs", subjects.len()));
        digest(subject)
    })
}

fn digest(subject: &Subject) -> String {
    match subject {
        Subject::World(seed) => format!("{:016x}", explore::explore_private(*seed).digest),
        Subject::Point(_, experiment) => match Cluster::new(&experiment.setup, 1) {
            Ok(mut cluster) => {
                let mut digest = Digest::default();
                cluster.world.run_until(HASHED, &mut digest);
                format!("{:016x}", digest.value())
            }
            Err(error) => error.to_string(),
        },
    }
}
