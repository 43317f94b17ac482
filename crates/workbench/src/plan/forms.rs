//! The forms in which the commands of `sipyard plan` answer.

use std::path::PathBuf;

use clap::Args;
use report::Page;

use crate::{finished, output};

/// The forms of the answer.
#[derive(Args)]
pub(super) struct Forms {
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    /// Also write the answer as an HTML page to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
}

impl Forms {
    /// Returns the text to print; writes the page if --html is given.
    pub(super) fn give(
        &self,
        page: &Page,
        answer: &impl serde::Serialize,
    ) -> Result<String, Vec<String>> {
        if let Some(path) = &self.html {
            output::write(path, &finished::html(page)).map_err(|problem| vec![problem])?;
        }
        Ok(match self.json {
            true => {
                serde_json::to_string_pretty(answer).expect("numbers and texts have a JSON form")
                    + "\n"
            }
            false => page.plain(),
        })
    }
}
