//! Reads a password from a terminal or from a pipe.

use std::io::{self, BufRead, IsTerminal, Write};

use location::Aor;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// Asks for a user's password on a terminal without showing it, twice, or reads the first line of
/// standard input.
pub(super) fn ask(user: &Aor) -> Result<String, String> {
    let stdin = io::stdin();
    let line = if stdin.is_terminal() {
        // If nobody sees the question, the answer still comes.
        let _ = write!(io::stderr(), "Password of {user}: ");
        let line = read_hidden();
        let _ = write!(io::stderr(), "\nThe same again: ");
        let again = read_hidden();
        let _ = writeln!(io::stderr());
        if matches!((&line, &again), (Ok(line), Ok(again)) if line != again) {
            return Err("the two are not the same: try again".into());
        }
        line
    } else {
        read_line()
    };
    let line = line.map_err(|error| format!("can't read the password: {error}"))?;
    match line.trim_end_matches(['\r', '\n']) {
        "" => Err("the password is empty: type it, or give it on standard input".into()),
        password => Ok(password.to_owned()),
    }
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

fn read_hidden() -> io::Result<String> {
    let stdin = io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let line = read_line();
    tcsetattr(&stdin, OptionalActions::Flush, &shown)?;
    line
}
