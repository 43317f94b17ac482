//! What is shown, and what keys and answers make of it.

use ratatui::{
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    widgets::TableState,
};

use super::{
    calls::List,
    health::{Rates, Totals, servers},
    ladder::Ladder,
    question::Question,
};
use crate::{
    calls::{Call, Calls},
    ctl::node::{Failure, read},
    view::Status,
};

/// How often the node is asked, in seconds.
const EVERY: f64 = 1.0;
/// A node that takes long to answer, as it has many calls to search, is left alone for so many times as long.
const REST: f64 = 4.0;
/// Servers that a page key moves by.
const PAGE: usize = 10;
/// An answer that is older than this, in seconds, is marked.
const STALE: f64 = 3.0;
/// How long a note stays, in seconds.
const NOTE: f64 = 8.0;

/// What is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    Overview,
    Calls,
    Call,
}

/// What a key leads to beside another picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Leave,
}

/// The whole state.
pub(super) struct Watch {
    pub(super) view: View,
    pub(super) status: Option<Status>,
    pub(super) rates: Rates,
    /// The chosen server's place.
    pub(super) server: usize,
    /// Which servers are in sight.
    pub(super) servers: TableState,
    pub(super) list: List,
    pub(super) ladder: Option<Ladder>,
    now: f64,
    totals: Option<(f64, Totals)>,
    answered: f64,
    problem: Option<String>,
    note: Option<(f64, String)>,
    /// When the node was asked, and is asked next.
    asked: f64,
    due: f64,
    /// Questions without an answer.
    open: usize,
    saving: Option<String>,
}

impl Watch {
    /// Nothing is known yet. Times are seconds since the UNIX epoch.
    pub(super) fn new(now: f64) -> Self {
        Self {
            view: View::Overview,
            status: None,
            rates: Rates::default(),
            server: 0,
            servers: TableState::default(),
            list: List::default(),
            ladder: None,
            now,
            totals: None,
            answered: now,
            problem: None,
            note: None,
            asked: now,
            due: now,
            open: 0,
            saving: None,
        }
    }

    /// Time goes on.
    pub(super) fn at(&mut self, now: f64) {
        self.now = now;
        if self
            .note
            .as_ref()
            .is_some_and(|(since, _)| now - since > NOTE)
        {
            self.note = None;
        }
    }

    pub(super) fn now(&self) -> f64 {
        self.now
    }

    /// What is asked now.
    pub(super) fn questions(&mut self) -> Vec<Question> {
        let mut questions: Vec<Question> =
            self.saving.take().map(Question::Text).into_iter().collect();
        if self.open == 0 && self.now >= self.due {
            self.asked = self.now;
            self.due = self.now + EVERY;
            questions.push(Question::Status);
            match self.view {
                View::Overview => {}
                View::Calls => questions.push(self.list.question()),
                View::Call => {
                    let ladder = self.ladder.iter();
                    questions.extend(ladder.map(|it| Question::Call(it.call_id.clone())));
                }
            }
        }
        self.open += questions.len();
        questions
    }

    /// Takes an answer. Returns the Call-ID and the text of a call that is to be saved.
    pub(super) fn told(
        &mut self,
        question: Question,
        answer: Result<String, String>,
    ) -> Option<(String, String)> {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            let took = self.now - self.asked;
            self.due = self.due.max(self.now + REST * took);
        }
        match answer.and_then(|answer| self.take(question, answer)) {
            Ok(saved) => saved,
            Err(problem) => {
                self.problem = Some(problem);
                None
            }
        }
    }

    fn take(
        &mut self,
        question: Question,
        answer: String,
    ) -> Result<Option<(String, String)>, String> {
        match question {
            Question::Status => self.told_status(parse::<Status>(&answer)?),
            // An answer to what is asked no more would move the list.
            Question::Calls { .. } if question == self.list.question() => {
                self.list.take(parse::<Calls>(&answer)?);
            }
            Question::Calls { .. } => {}
            Question::Call(call_id) => {
                let call = parse::<Call>(&answer)?;
                if let Some(ladder) = self.ladder.as_mut().filter(|it| it.call_id == call_id) {
                    ladder.take(call);
                }
            }
            Question::Text(call_id) => return Ok(Some((call_id, answer))),
        }
        Ok(None)
    }

    /// The node as it is now.
    pub(super) fn told_status(&mut self, status: Status) {
        let totals = Totals::of(&status);
        if let Some((at, before)) = &self.totals {
            self.rates = totals.since(before, self.now - at);
        }
        self.totals = Some((self.now, totals));
        self.answered = self.now;
        self.problem = None;
        self.status = Some(status);
    }

    /// Notes what came of saving a call.
    pub(super) fn saved(&mut self, outcome: Result<String, String>) {
        let told = match outcome {
            Ok(name) => format!("saved as {name}"),
            Err(problem) => format!("not saved: {problem}"),
        };
        self.note = Some((self.now, told));
    }

    /// What the last line says in place of the keys.
    pub(super) fn note(&self) -> Option<&str> {
        self.note.as_ref().map(|(_, note)| note.as_str())
    }

    /// Why what is shown may be old.
    pub(super) fn staleness(&self) -> Option<String> {
        let age = self.now - self.answered;
        match (&self.problem, age > STALE) {
            (Some(problem), true) => Some(format!("as of {age:.0} s ago: {problem}")),
            (None, true) => Some(format!(
                "as of {age:.0} s ago: the node has not answered since"
            )),
            (Some(problem), false) => Some(problem.clone()),
            (None, false) => None,
        }
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Effect {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Effect::Leave;
        }
        match self.view {
            View::Overview => self.key_in_overview(key.code),
            View::Calls => {
                self.key_in_calls(key.code);
                Effect::Nothing
            }
            View::Call => {
                self.key_in_call(key.code);
                Effect::Nothing
            }
        }
    }

    fn key_in_overview(&mut self, code: KeyCode) -> Effect {
        let count = self.status.iter().flat_map(servers).count();
        let last = count.saturating_sub(1);
        let place = self.server.min(last);
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Effect::Leave,
            KeyCode::Tab | KeyCode::Char('c') => self.show(View::Calls),
            KeyCode::Enter => self.show_calls_of(place),
            KeyCode::Down => self.server = (place + 1).min(last),
            KeyCode::Up => self.server = place.saturating_sub(1),
            KeyCode::PageDown => self.server = (place + PAGE).min(last),
            KeyCode::PageUp => self.server = place.saturating_sub(PAGE),
            KeyCode::Home => self.server = 0,
            KeyCode::End => self.server = last,
            _ => {}
        }
        Effect::Nothing
    }

    /// The calls that went to a server.
    fn show_calls_of(&mut self, place: usize) {
        let server = self.status.iter().flat_map(servers).nth(place);
        if let Some(server) = server {
            self.list.search = server.address.to_string();
            self.show(View::Calls);
        }
    }

    fn key_in_calls(&mut self, code: KeyCode) {
        if self.list.is_typing {
            if self.list.edit(code) {
                self.due = self.now;
            }
            return;
        }
        match code {
            KeyCode::Char('q') | KeyCode::Esc | KeyCode::Tab => self.show(View::Overview),
            KeyCode::Char('/') => self.list.is_typing = true,
            KeyCode::Char('n') => {
                self.list.is_newest = !self.list.is_newest;
                self.due = self.now;
            }
            KeyCode::Enter => {
                if let Some(call_id) = self.list.chosen() {
                    self.ladder = Some(Ladder::of(call_id.to_owned()));
                    self.show(View::Call);
                }
            }
            code => self.list.step(code),
        }
    }

    fn key_in_call(&mut self, code: KeyCode) {
        match (code, &mut self.ladder) {
            (KeyCode::Char('q') | KeyCode::Esc, _) | (_, None) => {
                self.ladder = None;
                self.show(View::Calls);
            }
            (KeyCode::Char('s'), Some(ladder)) => self.saving = Some(ladder.call_id.clone()),
            (code, Some(ladder)) => ladder.step(code),
        }
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.due = self.now;
        self.note = None;
    }
}

fn parse<T: serde::de::DeserializeOwned>(json: &str) -> Result<T, String> {
    read(json).map_err(Failure::words)
}
