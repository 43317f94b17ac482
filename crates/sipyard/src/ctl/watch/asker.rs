//! A thread that asks the node, so that a slow node stops no key; and one that waits for signals.

use std::{
    io, process,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

use super::question::Question;
use crate::ctl::node::{Failure, Node};

/// How long the screen has to end by itself after a signal.
const FAREWELL: Duration = Duration::from_millis(500);

/// What the other threads have to say.
pub(super) enum News {
    /// An answer, or why there is none.
    Told(Question, Result<String, String>),
    /// The process was asked to end.
    Stop,
}

/// Asks one question at a time.
pub(super) struct Asker {
    questions: Sender<Question>,
}

impl Asker {
    /// Begins. The threads end with the process.
    pub(super) fn start(node: Node) -> io::Result<(Self, Receiver<News>)> {
        let (questions, asked) = channel();
        let (news, told) = channel();
        let signals = news.clone();
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("asker").spawn(move || ask_all(&node, &asked, &news))?;
        named("signals").spawn(move || await_signal(&signals))?;
        Ok((Self { questions }, told))
    }

    /// Asks when the questions before are answered.
    ///
    /// # Errors
    /// The thread is gone, which has told why.
    pub(super) fn ask(&self, question: Question) -> io::Result<()> {
        let sent = self.questions.send(question);
        sent.map_err(|_| io::Error::other("nobody asks the node any more"))
    }
}

fn ask_all(node: &Node, asked: &Receiver<Question>, news: &Sender<News>) {
    while let Ok(question) = asked.recv() {
        let answer = node
            .call("GET", &question.path(), b"")
            .map_err(Failure::words);
        if news.send(News::Told(question, answer)).is_err() {
            return;
        }
    }
}

/// Ctrl-C is a key here; these come from elsewhere, as when a terminal closes.
fn await_signal(news: &Sender<News>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return;
    };
    let came: io::Result<()> = runtime.block_on(async {
        let mut end = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        Ok(())
    });
    if came.is_err() {
        return;
    }
    // Nobody may be there any more.
    let _ = news.send(News::Stop);
    // Reading from a terminal that is gone never ends, so nobody may hear of it.
    runtime.block_on(sleep(FAREWELL));
    ratatui::restore();
    process::exit(1);
}
