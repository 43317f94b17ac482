//! Section A: the activities of a task and what comes after what.

use super::tokens::{END, Token, Tokens, at};
use crate::{
    builder::{Builder, EntryDraft, Problem},
    graph::{After, Before, Precedence},
    model::{CallKind, CallOrder},
};

/// Reads the rest of a section A.
pub(super) fn section(tokens: &mut Tokens<'_>, builder: &mut Builder) -> Result<(), Problem> {
    let task = tokens.expect("the name of a task")?;
    builder.at(task.line).graph(task.word).line = Some(task.line);
    while let Some(token) = tokens.next() {
        match token.word {
            END => return Ok(()),
            ":" => return order(tokens, builder, task.word),
            _ => activity(tokens, builder, task.word, &token)?,
        }
    }
    let message = "the file ends within section A: end the section with -1".to_owned();
    Err(at(tokens.last_line(), message))
}

fn activity(
    tokens: &mut Tokens<'_>,
    builder: &mut Builder,
    task: &str,
    token: &Token<'_>,
) -> Result<(), Problem> {
    let line = token.line;
    if !matches!(token.word, "s" | "c" | "f" | "Z" | "y" | "z") {
        let message = format!(
            "{}: begin a line of an activity with s, c, f, Z, y or z, and its order with :",
            token.word
        );
        return Err(at(line, message));
    }
    let name = tokens.expect("an activity's name")?.word;
    let target = match token.word {
        "y" | "z" => tokens.expect("the name of the entry called")?.word,
        _ => "",
    };
    let value = tokens.number()?;
    tokens.next_if(line, |word| word == END);
    let activities = &mut builder.graph(task).activities;
    let draft = activities
        .entry(name.to_owned())
        .or_insert_with(|| EntryDraft::new(name, task, Some(line)));
    match token.word {
        "s" => draft.service(&[value]),
        "c" => draft.cvsq(&[value]),
        "Z" => draft.think(&[value]),
        "f" if value == 0.0 => draft.order(&[CallOrder::Stochastic]),
        "f" => draft.order(&[CallOrder::Deterministic]),
        "y" => draft.add_calls(Some(line), target, &[value], CallKind::Synchronous),
        _ => draft.add_calls(Some(line), target, &[value], CallKind::Asynchronous),
    };
    Ok(())
}

/// What stands behind the colon, up to -1, in statements with semicolons between them.
fn order(tokens: &mut Tokens<'_>, builder: &mut Builder, task: &str) -> Result<(), Problem> {
    let (mut text, mut first, mut last) = (String::new(), None, 0);
    loop {
        let token = tokens.expect("-1, the end of section A")?;
        if token.word == END {
            break;
        }
        // A word may follow another on the next line without a semicolon only by mistake.
        text += token.word;
        text.push(' ');
        first = first.or(Some(token.line));
        last = token.line;
    }
    let line = first.unwrap_or(last);
    for statement in text
        .split(';')
        .filter(|statement| !statement.trim().is_empty())
    {
        let precedence = statement_of(statement, &mut builder.graph(task).replies)
            .map_err(|message| at(line, format!("{}: {message}", statement.trim())))?;
        builder.graph(task).precedences.extend(precedence);
    }
    Ok(())
}

/// Reads `a & b -> c[e]`. None: it only tells a reply.
fn statement_of(
    text: &str,
    replies: &mut Vec<(String, String)>,
) -> Result<Option<Precedence>, String> {
    let (before, after) = match text.split_once("->") {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    };
    let (before, quorum) = quorum_of(before)?;
    let before = match (before.contains('&'), before.contains('+')) {
        (true, true) => return Err("write & or + between activities, not both".to_owned()),
        (true, false) => Before::And(names(before, '&', replies)?, quorum),
        (false, true) => Before::Or(names(before, '+', replies)?),
        (false, false) => Before::One(name(before, replies)?),
    };
    let Some(after) = after else { return Ok(None) };
    Ok(Some(Precedence {
        before,
        after: after_of(after, replies)?,
    }))
}

fn after_of(text: &str, replies: &mut Vec<(String, String)>) -> Result<After, String> {
    if text.contains('*') {
        let (mut bodies, mut end) = (Vec::new(), None);
        for part in text.split(',') {
            match part.split_once('*') {
                Some((times, body)) => bodies.push((number(times)?, name(body, replies)?)),
                None if end.is_none() => end = Some(name(part, replies)?),
                None => return Err("one activity comes at the end of a loop".to_owned()),
            }
        }
        return Ok(After::Loop(bodies, end));
    }
    if text.contains('&') {
        return Ok(After::And(names(text, '&', replies)?));
    }
    if text.contains('+') || text.trim_start().starts_with('(') {
        let choices = text.split('+').map(|choice| {
            let inner = choice.trim().strip_prefix('(');
            let (share, activity) = inner
                .and_then(|inner| inner.split_once(')'))
                .ok_or("write each choice with its probability, (0.5) a + (0.5) b")?;
            Ok((number(share)?, name(activity, replies)?))
        });
        return Ok(After::Or(choices.collect::<Result<_, String>>()?));
    }
    Ok(After::One(name(text, replies)?))
}

/// The quorum in parentheses at the end of an and-join.
fn quorum_of(text: &str) -> Result<(&str, Option<u32>), String> {
    let Some((names, rest)) = text.split_once('(') else {
        return Ok((text, None));
    };
    let quorum = rest.trim().strip_suffix(')').unwrap_or(rest).trim();
    let quorum = quorum.parse();
    let quorum = quorum.map_err(|_| format!("{rest}: write a quorum as (2)"))?;
    Ok((names, Some(quorum)))
}

fn names(
    text: &str,
    between: char,
    replies: &mut Vec<(String, String)>,
) -> Result<Vec<String>, String> {
    text.split(between)
        .map(|part| name(part, replies))
        .collect()
}

/// An activity, with the entries that it replies to in brackets.
fn name(text: &str, replies: &mut Vec<(String, String)>) -> Result<String, String> {
    let (name, rest) = text.split_once('[').unwrap_or((text, ""));
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!(
            "`{}` is no activity: end each statement with a semicolon",
            text.trim()
        ));
    }
    let entries = rest.trim().trim_end_matches(']').split(',');
    for entry in entries.map(str::trim).filter(|entry| !entry.is_empty()) {
        replies.push((name.to_owned(), entry.to_owned()));
    }
    Ok(name.to_owned())
}

fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|it: &f64| it.is_finite());
    number.ok_or_else(|| format!("{}: expected a number", text.trim()))
}
