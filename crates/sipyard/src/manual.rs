//! `sipyard manual`: man pages, completions and reference pages, from the program's own description.

mod keys;

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Command, CommandFactory};
use clap_complete::{Shell, generate_to};
use settings::refuse;

use crate::{Cli, admin};

/// Write man pages, completions for shells, and reference pages
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard manual --out /tmp/manual    man/, completions/, commands.md, keys.md
  sipyard manual --pages docs/reference")]
pub(crate) struct Manual {
    /// The folder for man/ and completions/, and for the pages
    #[arg(long, value_name = "FOLDER", required_unless_present = "pages")]
    out: Option<PathBuf>,
    /// The folder for the pages alone
    #[arg(long, value_name = "FOLDER")]
    pages: Option<PathBuf>,
}

impl Manual {
    pub(crate) fn run(self) -> ExitCode {
        match self.write() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => refuse([error.to_string()]),
        }
    }

    fn write(&self) -> io::Result<()> {
        if let Some(out) = &self.out {
            let (man, completions) = (out.join("man"), out.join("completions"));
            fs::create_dir_all(&man)?;
            fs::create_dir_all(&completions)?;
            clap_mangen::generate_to(Cli::command(), &man)?;
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                generate_to(shell, &mut Cli::command(), "sipyard", &completions)?;
            }
        }
        for folder in self.out.iter().chain(&self.pages) {
            pages(folder)?;
        }
        Ok(())
    }
}

fn pages(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut text = "# Commands\n\nAs `sipyard COMMAND --help` prints them.\n".to_owned();
    let mut cli = Cli::command();
    cli.build();
    for command in cli.get_subcommands_mut().filter(|it| !it.is_hide_set()) {
        describe(command, "sipyard", &mut text);
    }
    fs::write(folder.join("commands.md"), text)?;
    fs::write(folder.join("api.md"), admin::page())?;
    fs::write(folder.join("keys.md"), keys::page())
}

/// A command and those below it.
fn describe(command: &mut Command, above: &str, out: &mut String) {
    let name = format!("{above} {}", command.get_name());
    if command.get_name() == "help" {
        return;
    }
    let help = command
        .clone()
        .term_width(100)
        .render_long_help()
        .to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = help.join("\n");
    write!(out, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end()).expect("a text takes all");
    for command in command.get_subcommands_mut() {
        describe(command, &name, out);
    }
}
