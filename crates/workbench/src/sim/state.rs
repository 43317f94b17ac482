//! `sipyard sim state`: who holds the state of a call on its path, beside the best that any assignment carries.

mod measure;
mod page;
mod shapes;

use std::{io::Write, path::PathBuf, process::ExitCode};

use clap::Args;
use settings::refuse;

use self::measure::Measured;
use crate::{finished, output};

/// Measure nodes with dynamic state in the simulator, beside the linear program
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard sim state --quick
  sipyard sim state --html docs/results/paper-003.html > docs/results/paper-003.txt

The nodes have the costs of Balasubramaniyan et al., \"SERvartuka: Enhancing SIP server scalability
with dynamic state management\": 5700 calls/s without state, 4700 with. Runs are identical bit for
bit. `sipyard plan state` has the linear program alone.

Exit code: 0 if all bars hold, 1 if one does not.")]
pub(super) struct State {
    /// Measure for a fifth of the time
    #[arg(long)]
    quick: bool,
    /// Also write the results as an HTML page to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
}

impl State {
    pub(super) fn run(&self) -> ExitCode {
        let measured = match Measured::new(if self.quick { 2 } else { 10 }) {
            Ok(measured) => measured,
            Err(why) => return refuse([format!("sipyard sim state: {why}")]),
        };
        let page = measured.page();
        if let Some(path) = &self.html
            && let Err(problem) = output::write(path, &finished::html(&page))
        {
            return refuse([problem]);
        }
        // A reader that has gone away wants no more lines.
        let _ = write!(std::io::stdout(), "{}", page.plain());
        match measured.holds() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }
    }
}
