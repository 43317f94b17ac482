//! `sipyard ctl watch`: a node on the whole terminal.
//!
//! [`state::Watch`] holds what is shown and takes keys and answers. It knows no terminal, no clock and no node.
//! [`draw::draw`] draws it. This module joins both to a terminal, and to a thread that asks the node.

mod asker;
mod calls;
mod draw;
mod health;
mod ladder;
mod overview;
mod question;
mod save;
mod state;
mod style;
#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal},
    sync::mpsc::Receiver,
    time::Duration,
};

use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyEventKind},
};

use super::node::{Failure, Node, epoch, read};
use crate::view::Status;
use asker::{Asker, News};
use question::Question;
use state::{Effect, Watch};

/// How long a key waits for a redraw at most, if nothing else happens.
const TICK: Duration = Duration::from_millis(100);

/// What `--help` says below the options.
pub(super) const HELP: &str = "Examples:
  sipyard ctl watch
  SIPYARD_TOKEN=TOKEN sipyard ctl --admin https://edge.example.com:8060 --ca ca.pem watch

Keys:
  Tab             from the overview to the calls and back
  arrows          choose and scroll; PgUp, PgDn, Home and End, too
  /               find calls by a user, a number, an address, a status or a Call-ID
  n               the newest calls first; else lost, refused and ringing ones
  Enter           the calls of the chosen server; open a call: its ladder, and below it the chosen message
  s               save an open call as text in this folder
  q, Esc          back; from the overview, leave
  Ctrl-C          leave";

/// Shows the node until somebody leaves.
pub(super) fn run(node: &Node, is_json: bool) -> Result<(), Failure> {
    if is_json || !io::stdout().is_terminal() {
        let advice = "watch draws on a terminal, and nobody sees it here: use `sipyard ctl status` and `sipyard ctl \
                      calls`, for programs with --json";
        return Err(Failure::Refused(vec![advice.to_owned()]));
    }
    // A node that does not answer is told as by all other verbs.
    let status: Status = read(&node.call("GET", &Question::Status.path(), b"")?)?;
    let mut watch = Watch::new(epoch());
    watch.told_status(status);
    let (asker, news) = Asker::start(node.clone()).map_err(unusable)?;
    // It restores the terminal on a panic, too.
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    let outcome = show(&mut terminal, &mut watch, &asker, &news);
    ratatui::restore();
    outcome.map_err(unusable)
}

fn unusable(error: io::Error) -> Failure {
    Failure::Refused(vec![format!("the terminal can't be used further: {error}")])
}

fn show(
    terminal: &mut DefaultTerminal,
    watch: &mut Watch,
    asker: &Asker,
    news: &Receiver<News>,
) -> io::Result<()> {
    loop {
        watch.at(epoch());
        while let Ok(news) = news.try_recv() {
            match news {
                News::Told(question, answer) => {
                    if let Some((call_id, text)) = watch.told(question, answer) {
                        watch.saved(save::save(&call_id, &text));
                    }
                }
                News::Stop => return Ok(()),
            }
        }
        for question in watch.questions() {
            asker.ask(question)?;
        }
        terminal.draw(|frame| draw::draw(frame, watch))?;
        if !event::poll(TICK)? {
            continue;
        }
        if let Event::Key(key) = event::read()?
            && key.kind != KeyEventKind::Release
            && watch.key(key) == Effect::Leave
        {
            return Ok(());
        }
    }
}
