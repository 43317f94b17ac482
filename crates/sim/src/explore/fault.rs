use std::{fmt, time::Duration};

use crate::{Death, Link};

/// A fault. Edges, servers and callers are numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// An edge dies and starts again.
    Edge(usize, Death, Duration),
    /// A server dies and starts again.
    Server(usize, Death, Duration),
    /// Nothing passes between an edge and a server.
    Cut(usize, usize, Duration),
    /// Nothing passes between an edge and its caller.
    CutCaller(usize, Duration),
    /// All links are like this.
    Links(Link, Duration),
    /// A server does nothing.
    Stall(usize, Duration),
    /// A server works at another speed.
    Speed(usize, f64, Duration),
    /// An operator takes a server out of an edge and back.
    Drain(usize, usize, Duration),
    /// A caller makes so many calls a second.
    Surge(usize, f64, Duration),
    /// All connections of an edge break.
    ResetEdge(usize),
    /// All connections of a server break.
    ResetServer(usize),
    /// A server reads nothing from its connections.
    Unread(usize, Duration),
    /// An edge's configuration loses a server and gets it back.
    Reload(usize, usize, Duration),
}

impl Fault {
    /// How long it lasts.
    #[must_use]
    pub fn lasting(&self) -> Duration {
        match *self {
            Self::ResetEdge(_) | Self::ResetServer(_) => Duration::ZERO,
            Self::Edge(.., lasting)
            | Self::Server(.., lasting)
            | Self::Cut(.., lasting)
            | Self::CutCaller(_, lasting)
            | Self::Links(_, lasting)
            | Self::Stall(_, lasting)
            | Self::Speed(.., lasting)
            | Self::Drain(.., lasting)
            | Self::Surge(.., lasting)
            | Self::Unread(_, lasting)
            | Self::Reload(.., lasting) => lasting,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Edge(edge, death, _) => write!(f, "edge {edge} dies ({})", word(*death)),
            Self::Server(server, death, _) => write!(f, "server {server} dies ({})", word(*death)),
            Self::Cut(edge, server, _) => write!(f, "edge {edge} and server {server} cut off"),
            Self::CutCaller(edge, _) => write!(f, "edge {edge} and its caller cut off"),
            Self::Links(link, _) => write!(f, "all links {}", Faults(link)),
            Self::Stall(server, _) => write!(f, "server {server} stalls"),
            Self::Speed(server, speed, _) => write!(f, "server {server} at {speed:.2} x its speed"),
            Self::Drain(edge, server, _) => write!(f, "edge {edge} drains server {server}"),
            Self::Surge(caller, rate, _) => write!(f, "caller {caller} makes {rate:.0} calls/s"),
            Self::ResetEdge(edge) => write!(f, "edge {edge} loses its connections"),
            Self::ResetServer(server) => write!(f, "server {server} loses its connections"),
            Self::Unread(server, _) => write!(f, "server {server} reads from no connection"),
            Self::Reload(edge, server, _) => write!(f, "edge {edge} reloads without {server}"),
        }?;
        write!(f, " for {:.1} s", self.lasting().as_secs_f64())
    }
}

fn word(death: Death) -> &'static str {
    match death {
        Death::Process => "its process",
        Death::Machine => "its machine",
    }
}

/// What is wrong with a link.
pub(super) struct Faults<'a>(pub(super) &'a Link);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Link {
            loss,
            duplication,
            reordering,
            ..
        } = self.0;
        write!(
            f,
            "lose {:.1} %, double {:.1} %, hold back {:.1} %",
            loss * 100.0,
            duplication * 100.0,
            reordering * 100.0
        )?;
        match self.0.bottleneck {
            Some(queue) => write!(
                f,
                ", pass {:.0}/s and queue {}",
                queue.per_s, queue.waiting_max
            ),
            None => Ok(()),
        }
    }
}
