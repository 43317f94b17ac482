//! `sipyard store`: checks, saves and restores the records of the location service.

mod fill;
mod keeper;
mod place;
mod records;
mod remote;

use std::{
    fs,
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use ::store::Value;
use clap::{Args, Subcommand};
use location::{Aor, Subscriber};
use settings::refuse;

use crate::members::is_of_nodes;
pub(crate) use fill::Record;
pub(crate) use keeper::Keeper;
pub(crate) use place::{Existing, Opened, Place};
pub(crate) use records::{contact_line, read_aor, read_hex};
pub(crate) use remote::{ASK_BYTES_MAX, Ask, Change, Outcome, PATH, Told};

/// Check, save and restore the records of the location service
#[derive(Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Check(Check),
    Export(Export),
    Import(Import),
}

impl Store {
    pub(crate) fn run(self) -> ExitCode {
        outcome(match self.what {
            What::Check(command) => command.run(),
            What::Export(command) => command.run(),
            What::Import(command) => command.run(),
        })
    }
}

/// Why a command did nothing, or only a part.
pub(crate) enum Failure {
    /// The arguments or the input have a mistake, so nothing was changed.
    Refused(Vec<String>),
    /// The store fails.
    Failed(String),
}

impl Failure {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused(vec![message.into()])
    }
}

impl From<::store::Error> for Failure {
    fn from(error: ::store::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Prints problems on standard error and everything else on standard output.
pub(crate) fn outcome(result: Result<String, Failure>) -> ExitCode {
    match result {
        Ok(said) => {
            let _ = write!(io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(Failure::Refused(problems)) => refuse(problems),
        Err(Failure::Failed(problem)) => {
            // With nowhere to say why, the exit code still tells.
            let _ = writeln!(io::stderr(), "{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Read every record of a store, and report those that are damaged
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard store check --store file:/var/lib/sipyard/location.db
  sipyard store check --config /etc/sipyard/sipyard.toml

Exit code: 0 if all records are good, 1 if one is damaged or unreadable, 2 for wrong arguments.")]
struct Check {
    #[command(flatten)]
    place: Place,
}

impl Check {
    fn run(self) -> Result<String, Failure> {
        let Opened {
            keeper, address, ..
        } = self.place.open(Existing::Required)?;
        let (mut aors, mut bindings, mut subscribers) = (0, 0, 0);
        let mut damaged = Vec::new();
        for (key, value) in of_users(&keeper)? {
            let corrupt = if key.starts_with(Subscriber::PREFIX) {
                subscribers += 1;
                Subscriber::read(&key, &value).is_err()
            } else if let Some(Ok(read)) =
                Aor::from_key(&key).map(|_| location::Location::read(&value))
            {
                aors += 1;
                bindings += read.bindings.len();
                false
            } else {
                true
            };
            if corrupt {
                let key = String::from_utf8_lossy(&key);
                damaged.push(format!("{address}: the record {key:?} is damaged"));
            }
        }
        if !damaged.is_empty() {
            return Err(Failure::Failed(damaged.join("\n")));
        }
        Ok(format!(
            "{address}: ok ({aors} addresses-of-record with {bindings} bindings, {subscribers} subscribers)\n"
        ))
    }
}

/// All records except those of nodes, because nodes announce themselves every few seconds.
fn of_users(keeper: &Keeper) -> Result<Vec<(Vec<u8>, Value)>, Failure> {
    let mut entries = keeper.entries(b"")?;
    entries.retain(|(key, _)| !is_of_nodes(key));
    Ok(entries)
}

/// Write every record to standard output, one line of JSON each
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard store export --config sipyard.toml > backup.jsonl
  sipyard store export --store redis://10.0.0.5:6379 | sipyard store import --store file:location.db -

Times are milliseconds since 1970. The output contains the hashes of passwords. They are enough to
log in, so protect the output as you protect the store.")]
struct Export {
    #[command(flatten)]
    place: Place,
}

impl Export {
    fn run(self) -> Result<String, Failure> {
        let Opened {
            keeper, address, ..
        } = self.place.open(Existing::Required)?;
        let mut out = BufWriter::new(io::stdout().lock());
        for (key, value) in of_users(&keeper)? {
            let Some(line) = records::line_of(&key, &value) else {
                let key = String::from_utf8_lossy(&key);
                let problem = format!("{address}: the record {key:?} is damaged");
                return Err(Failure::Failed(problem));
            };
            writeln!(out, "{line}").map_err(|error| Failure::Failed(error.to_string()))?;
        }
        let flushed = out.flush();
        flushed.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(String::new())
    }
}

/// Store the records that `export` wrote; records with the same names are replaced
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard store import --config sipyard.toml backup.jsonl
  sipyard store import --store file:location.db -

Every line is checked before the first is stored.")]
struct Import {
    #[command(flatten)]
    place: Place,
    /// The file to read; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    fn run(self) -> Result<String, Failure> {
        let lines = BufReader::new(input(&self.file)?).lines();
        let (mut records, mut problems) = (Vec::new(), Vec::new());
        for (number, line) in lines.enumerate() {
            let read = line.map_err(|error| error.to_string());
            match read.and_then(|line| records::record_of(&line)) {
                Ok(record) => records.push(record),
                Err(problem) => {
                    problems.push(format!("{}:{}: {problem}", self.file.display(), number + 1));
                }
            }
        }
        if !problems.is_empty() {
            return Err(Failure::Refused(problems));
        }
        let Opened {
            keeper, address, ..
        } = self.place.open(Existing::Optional)?;
        let filled = keeper.fill(records)?;
        Ok(format!("{address}: {filled}\n"))
    }
}

/// A file or, for `-`, standard input.
pub(crate) fn input(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = fs::File::open(path);
    let file = file.map_err(|error| Failure::refused(format!("{}: {error}", path.display())))?;
    Ok(Box::new(file))
}
