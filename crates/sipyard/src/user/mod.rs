//! `sipyard user`: manages the users who may register.

mod list;
mod password;

use std::{path::PathBuf, process::ExitCode};

use ::store::{Put, Value};
use clap::{Args, Subcommand};
use location::{Aor, Subscriber};
use sip::digest::{Algorithm, Ha1};

use crate::store::{Existing, Failure, Keeper, Opened, Place, Record, input, outcome, read_aor};

/// Add, list, remove and import the users who may register; --config also works while a node runs
#[derive(Args)]
pub(crate) struct User {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Add(Add),
    List(List),
    Remove(Remove),
    Import(Import),
}

impl User {
    pub(crate) fn run(self) -> ExitCode {
        outcome(match self.what {
            What::Add(command) => command.run(),
            What::List(command) => command.run(),
            What::Remove(command) => command.run(),
            What::Import(command) => command.run(),
        })
    }
}

/// Add a user; the command asks for the password, or reads it from standard input
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard user add --config sipyard.toml alice@example.com
  pwgen 20 1 | tee alice.txt | sipyard user add --store file:location.db alice@example.com

The store gets only hashes of the password with the user's name and domain, by MD5 and SHA-256.")]
struct Add {
    #[command(flatten)]
    place: Place,
    /// Set a new password if the user exists
    #[arg(long)]
    replace: bool,
    /// The user's address-of-record
    #[arg(value_name = "USER@DOMAIN", value_parser = read_aor)]
    user: Aor,
}

impl Add {
    fn run(self) -> Result<String, Failure> {
        let opened = self.place.open(Existing::Optional)?;
        let known = opened.check_domain(self.user.domain());
        known.map_err(Failure::refused)?;
        let keeper = opened.keeper;
        let there = keeper.get(&Subscriber::key_of(&self.user))?;
        if there.is_some() && !self.replace {
            return Err(Failure::refused(format!(
                "{} exists; use --replace to set a new password",
                self.user
            )));
        }
        let password = password::ask(&self.user).map_err(Failure::refused)?;
        let subscriber = subscriber(self.user, &password);
        let record = Record::of_subscriber(&subscriber);
        put(&keeper, &subscriber.aor, there.as_ref(), Some(&record))?;
        let what = if there.is_some() {
            "has a new password"
        } else {
            "is added"
        };
        Ok(format!("{} {what}\n", subscriber.aor))
    }
}

/// List the users and the kinds of hashes that the store has of their passwords
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard user list --config sipyard.toml
  sipyard user list --store redis://10.0.0.5:6379 --domain example.com")]
struct List {
    #[command(flatten)]
    place: Place,
    /// List only the users of this domain
    #[arg(long)]
    domain: Option<String>,
}

impl List {
    fn run(self) -> Result<String, Failure> {
        let Opened {
            keeper, address, ..
        } = self.place.open(Existing::Required)?;
        let mut table = report::Table::new("", ["user", "MD5", "SHA-256"]);
        for (key, value) in keeper.entries(Subscriber::PREFIX)? {
            let subscriber = Subscriber::read(&key, &value).map_err(|error| {
                let key = String::from_utf8_lossy(&key);
                Failure::Failed(format!("{address}: the record {key:?} is {error}"))
            })?;
            let domain = subscriber.aor.domain();
            if self
                .domain
                .as_ref()
                .is_none_or(|only| only.eq_ignore_ascii_case(domain))
            {
                let yes = |is: bool| if is { "yes" } else { "no" };
                let hashes = [
                    subscriber.ha1_md5.is_some(),
                    subscriber.ha1_sha256.is_some(),
                ];
                let [md5, sha256] = hashes.map(yes);
                table.push([subscriber.aor.as_str(), md5, sha256]);
            }
        }
        Ok(table.text())
    }
}

/// Remove a user, so that they can't register again
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard user remove --config sipyard.toml alice@example.com

Bindings of the user stay until they expire.")]
struct Remove {
    #[command(flatten)]
    place: Place,
    /// The user's address-of-record
    #[arg(value_name = "USER@DOMAIN", value_parser = read_aor)]
    user: Aor,
}

impl Remove {
    fn run(self) -> Result<String, Failure> {
        let Opened { keeper, .. } = self.place.open(Existing::Required)?;
        let there = keeper.get(&Subscriber::key_of(&self.user))?;
        if there.is_none() {
            return Err(Failure::refused(format!(
                "there is no user {}; `sipyard user list` lists the users",
                self.user
            )));
        }
        put(&keeper, &self.user, there.as_ref(), None)?;
        Ok(format!("{} is removed\n", self.user))
    }
}

/// Add the users of a table; users that exist are replaced
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard user import --config sipyard.toml users.csv
  mysql -B -e 'select * from subscriber' kamailio | sipyard user import --store file:location.db -

The first line names the columns: username, domain, and password or ha1 (32 hexadecimal digits, by
MD5) or ha1_sha256 (64). These are the names of Kamailio's table `subscriber`; other columns are
left out. Columns are separated by commas, semicolons or tabs. Every line is checked before the
first user is added.")]
struct Import {
    #[command(flatten)]
    place: Place,
    /// The domain of all users, if the table has no column `domain`
    #[arg(long)]
    domain: Option<String>,
    /// The file to read; - reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Import {
    fn run(self) -> Result<String, Failure> {
        let opened = self.place.open(Existing::Optional)?;
        let mut text = Vec::new();
        let read = input(&self.file)?.read_to_end(&mut text);
        let path = self.file.display();
        read.map_err(|error| Failure::refused(format!("{path}: {error}")))?;
        let check = |domain: &str| opened.check_domain(domain);
        let users = list::read(&text, self.domain.as_deref(), check).map_err(|problems| {
            let place = |(line, problem)| format!("{path}:{line}: {problem}");
            Failure::Refused(problems.into_iter().map(place).collect())
        })?;
        let records = users.iter().map(Record::of_subscriber).collect();
        let filled = opened.keeper.fill(records)?;
        Ok(format!("{}: {filled}\n", opened.address))
    }
}

/// Makes the record of a user with this password.
fn subscriber(aor: Aor, password: &str) -> Subscriber {
    let ha1 = |algorithm| {
        let (user, realm) = (aor.user().as_bytes(), aor.domain().as_bytes());
        Ha1::new(algorithm, user, realm, password.as_bytes())
    };
    let (md5, sha256) = (ha1(Algorithm::Md5), ha1(Algorithm::Sha256));
    Subscriber {
        ha1_md5: match md5 {
            Ha1::Md5(hash) => Some(hash),
            Ha1::Sha256(_) => None,
        },
        ha1_sha256: match sha256 {
            Ha1::Sha256(hash) => Some(hash),
            Ha1::Md5(_) => None,
        },
        aor,
    }
}

fn put(
    keeper: &Keeper,
    user: &Aor,
    seen: Option<&Value>,
    next: Option<&Record>,
) -> Result<(), Failure> {
    match keeper.put(&Subscriber::key_of(user), seen, next)? {
        Put::Stored => Ok(()),
        Put::Changed(_) => Err(Failure::Failed(format!(
            "another command changed {user} at the same time: check `sipyard user list`, then try \
             again"
        ))),
    }
}
