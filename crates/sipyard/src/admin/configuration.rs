//! The configuration that runs, against the file.

use std::{fs, sync::Arc};

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tokio::task::spawn_blocking;

use crate::{config, serve::Control};

/// Lines with these words are not shown.
const SECRET: [&str; 3] = ["secret", "password", "redis://"];

/// What runs, and what a reload would change.
#[derive(Serialize)]
struct Compared {
    path: String,
    /// What runs, in a line.
    summary: String,
    /// The file's mistakes.
    problems: Vec<String>,
    /// Changed settings that hold from the next start on.
    needs_restart: Vec<&'static str>,
    /// Lines that differ: those of the loaded file with a minus, those of the file with a plus.
    changes: Vec<String>,
}

/// Compares the configuration that runs with the file.
pub(super) async fn show(State(control): State<Arc<Control>>) -> Response {
    let compared = spawn_blocking(move || compare(&control)).await;
    Json(compared.expect("to compare files does not panic")).into_response()
}

fn compare(control: &Control) -> Compared {
    let (loaded, summary) = control.loaded();
    let (problems, needs_restart) = match config::load(control.path()) {
        Ok(next) => (Vec::new(), control.changed_for_good(&next)),
        Err(problems) => (
            problems.iter().map(ToString::to_string).collect(),
            Vec::new(),
        ),
    };
    let text = fs::read_to_string(control.path()).unwrap_or_default();
    Compared {
        path: control.path().display().to_string(),
        summary,
        problems,
        needs_restart,
        changes: difference(&loaded, &text),
    }
}

/// The lines between the first and the last that differ.
fn difference(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(left, right)| left == right).count()
    };
    let start = same(&mut old.iter().zip(&new));
    let rest = (&old[start..], &new[start..]);
    let end = same(&mut rest.0.iter().rev().zip(rest.1.iter().rev()));
    let shown = |sign: char, lines: &[&str]| {
        let lines = lines[..lines.len() - end].iter();
        let lines = lines.map(|line| format!("{sign} {}", public(line)));
        lines.collect::<Vec<_>>()
    };
    [shown('-', rest.0), shown('+', rest.1)].concat()
}

fn public(line: &str) -> &str {
    let lower = line.to_lowercase();
    if SECRET.iter().any(|word| lower.contains(word)) {
        "(a line with a secret)"
    } else {
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown_but_for_secrets() {
        let old = "a\nb\nsecret = \"one\"\nc\n";
        assert!(difference(old, old).is_empty());
        let new = "a\nB\nsecret = \"two\"\nc\n";
        let hidden = "(a line with a secret)";
        let expected = ["- b", &format!("- {hidden}"), "+ B", &format!("+ {hidden}")];
        assert_eq!(difference(old, new), expected);
        assert_eq!(difference("a\nb\n", "a\nx\nb\n"), ["+ x"]);
        assert_eq!(difference("a\na\n", "a\n"), ["- a"]);
    }
}
