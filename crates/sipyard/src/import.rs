//! `sipyard import`: writes a configuration from those of Kamailio and OpenSIPS.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use import::{Kind, Origin, Source, contacts, import};
use settings::refuse;

use crate::{init::write_secret, store::contact_line};

/// Write a configuration from those of Kamailio or OpenSIPS
#[derive(Args)]
pub(crate) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    Kamailio(Kamailio),
    Opensips(Opensips),
}

/// Import kamailio.cfg, dispatcher.list, and dumps of dispatcher, subscriber and location
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct Kamailio {
    #[command(flatten)]
    files: Files,
}

/// Import opensips.cfg, and dumps of load_balancer, dispatcher, dr_gateways, dr_rules, subscriber and location
#[derive(Args)]
#[command(after_help = EXAMPLES)]
struct Opensips {
    #[command(flatten)]
    files: Files,
}

const EXAMPLES: &str = "Examples:
  sipyard import kamailio /etc/kamailio/kamailio.cfg /etc/kamailio/dispatcher.list --out sipyard.toml
  mysqldump opensips load_balancer > lb.sql; sipyard import opensips opensips.cfg lb.sql --out sipyard.toml
  mysql -B -e 'select * from location' kamailio | sipyard import kamailio - --bindings phones.jsonl

Tables may be dumps in SQL, what mysql -B or psql --csv prints, or files of db_text. The notes on
standard error name each line that has no meaning here, or another one.
Exit code: 0 if something was imported, 2 if a file is none of these.";

#[derive(Args)]
struct Files {
    /// The files, which are imported together; - reads standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the configuration here, and a new secret beside it, and not to standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the phones of a table location here, for `sipyard store import`, and no configuration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["out", "brief"])]
    bindings: Option<PathBuf>,
    /// The domain of phones whose table has none
    #[arg(long, default_value = "example.com", requires = "bindings")]
    domain: String,
    /// Leave out notes on lines that Sipyard does not need
    #[arg(long)]
    brief: bool,
}

impl Import {
    pub(crate) fn run(self) -> ExitCode {
        let done = match self.from {
            From::Kamailio(command) => command.files.import(Origin::Kamailio),
            From::Opensips(command) => command.files.import(Origin::Opensips),
        };
        done.map_or_else(refuse, |()| ExitCode::SUCCESS)
    }
}

impl Files {
    fn import(self, origin: Origin) -> Result<(), Vec<String>> {
        let names: Vec<String> = self
            .files
            .iter()
            .map(|it| it.display().to_string())
            .collect();
        let texts = self.files.iter().map(|path| read(path));
        let texts = texts.collect::<Result<Vec<String>, String>>();
        let texts = texts.map_err(|problem| vec![problem])?;
        let sources: Vec<Source<'_>> = names
            .iter()
            .zip(&texts)
            .map(|(name, text)| Source { name, text })
            .collect();
        if let Some(out) = &self.bindings {
            return self
                .write_bindings(&sources, out)
                .map_err(|problem| vec![problem]);
        }
        let imported = import(origin, &sources).map_err(|unknown| {
            let problem =
                |name| format!("{name}: neither a script nor a list nor a table that is known");
            unknown.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        let mut log = io::stderr().lock();
        let shown = imported
            .notes
            .iter()
            .filter(|it| !self.brief || it.kind != Kind::Needless);
        for note in shown {
            // With nowhere to tell, the configuration is there still.
            let _ = writeln!(log, "{note}");
        }
        let count = |kind| {
            imported
                .notes
                .iter()
                .filter(|note| note.kind == kind)
                .count()
        };
        let _ = writeln!(
            log,
            "{} to do, {} missing, {} otherwise, {} needless",
            count(Kind::ToDo),
            count(Kind::Missing),
            count(Kind::Differs),
            count(Kind::Needless)
        );
        self.write(&imported.configuration, &mut log)
            .map_err(|problem| vec![problem])
    }

    fn write(&self, configuration: &str, log: &mut impl Write) -> Result<(), String> {
        let Some(out) = &self.out else {
            let written = io::stdout().write_all(configuration.as_bytes());
            return written.map_err(|error| error.to_string());
        };
        crate::init::write_new(out, configuration)?;
        write_secret(&out.with_file_name("secret"))?;
        let _ = writeln!(
            log,
            "wrote {out}; next: sipyard check {out}",
            out = out.display()
        );
        Ok(())
    }

    fn write_bindings(&self, sources: &[Source<'_>], out: &Path) -> Result<(), String> {
        let mut text = String::new();
        for source in sources {
            let found = contacts(*source, &self.domain);
            let found =
                found.ok_or_else(|| format!("{}: no rows of a table location", source.name))?;
            for contact in found {
                let line = contact_line(&contact)
                    .map_err(|problem| format!("{}:{}: {problem}", source.name, contact.line))?;
                text.push_str(&line);
                text.push('\n');
            }
        }
        crate::init::write_new(out, &text)
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = match path == Path::new("-") {
        true => io::read_to_string(io::stdin()).map(String::into_bytes),
        false => fs::read(path),
    };
    // Comments may be in any encoding.
    let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
