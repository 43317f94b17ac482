//! `sipyard ctl`: asks a running node through its admin API.

mod calls;
mod node;
mod screen;
mod table;
mod watch;

use std::{
    fs::File,
    io::{self, Read, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Subcommand};
use settings::refuse;

use crate::{
    calls::Calls,
    explain::Explanation,
    view::{Bans, Done, Status},
};
use node::{Failure, Node, escape, read};

/// Ask a running node for its status, or change it: drain, weight, bans, reload, explain
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard ctl status
  sipyard ctl watch
  sipyard ctl drain 10.0.0.11:5060
  sipyard ctl weight 10.0.0.11:5060 0.5
  sipyard ctl unban 203.0.113.9
  sipyard ctl --admin /run/sipyard/9000.sock --json status
  SIPYARD_TOKEN=TOKEN sipyard ctl --admin http://10.0.0.2:8060 status
  SIPYARD_TOKEN=TOKEN sipyard ctl --admin https://edge.example.com:8060 --ca ca.pem status

Only the user who runs the node, and root, can use its Unix socket. On TCP, clients need a token of
`sipyard token`; on a loopback address, status and explain need none.
Exit code: 0 if the node did it, 2 if the node refused it, 1 if no node answered.")]
pub(crate) struct Ctl {
    #[command(flatten)]
    node: Node,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    ask: Ask,
}

#[derive(Subcommand)]
enum Ask {
    /// Show listeners, pools, servers and workers
    #[command(after_help = "Examples:\n  sipyard ctl status\n  sipyard ctl status --watch")]
    Status {
        /// Show it anew each second, until Ctrl-C
        #[arg(long)]
        watch: bool,
    },
    /// Stop sending new calls to a server, or to the node itself; open calls continue
    #[command(after_help = "Examples:
  sipyard ctl drain 10.0.0.11:5060
  sipyard ctl drain                  the node: /readyz is 503, new calls are refused")]
    Drain {
        /// IP:PORT as in the configuration; default: the node itself takes no new calls
        server: Option<String>,
    },
    /// Send new calls to a drained server again, slowly at first; or to the node
    #[command(after_help = "Examples:
  sipyard ctl undrain 10.0.0.11:5060
  sipyard ctl undrain")]
    Undrain {
        /// IP:PORT as in the configuration; default: the node itself takes calls again
        server: Option<String>,
    },
    /// Change a server's capacity until the next reload; this also overrides a learned capacity
    #[command(after_help = "Example:\n  sipyard ctl weight 10.0.0.11:5060 0.5")]
    Weight {
        /// IP:PORT as in the configuration
        server: String,
        /// The server's share of the calls, relative to other servers
        capacity: f64,
    },
    /// Watch a node on the whole terminal: is it well, its servers, its calls and their messages
    #[command(after_help = watch::HELP)]
    Watch,
    /// List recorded calls: lost, refused and ringing ones first
    #[command(after_help = "Examples:
  sipyard ctl calls
  sipyard ctl calls alice
  sipyard ctl calls --state refused --last 600 10.0.0.11")]
    Calls(calls::List),
    /// Show one call: a ladder with why it went where it went, then its messages
    #[command(after_help = "Examples:
  sipyard ctl call 3848276298220188511@client.example.com
  sipyard ctl call --pcapng call.pcapng 3848276298220188511@client.example.com")]
    Call(calls::Show),
    /// Follow a call, or the calls of a user, message by message as they pass
    #[command(after_help = "Examples:
  sipyard ctl trace alice
  sipyard ctl trace --seconds 60 203.0.113.7")]
    Trace(calls::Trace),
    /// Show who is banned, and why
    #[command(after_help = "Example:\n  sipyard ctl bans")]
    Bans,
    /// Lift the ban of a source
    #[command(after_help = "Examples:
  sipyard ctl unban 203.0.113.9
  sipyard ctl unban 2001:db8:1:2::/64
  sipyard ctl unban all")]
    Unban {
        /// An IP address or network as `bans` shows it; all: every one
        source: String,
    },
    /// Change what the node logs, until it ends
    #[command(after_help = "Examples:
  sipyard ctl log debug
  sipyard ctl log info,messages=debug       the way of each message")]
    Log {
        /// A level (off, error, warn, info, debug, trace), or SUBJECT=LEVEL,...
        levels: String,
    },
    /// Reload the configuration file; if it has a mistake, nothing changes
    #[command(after_help = "Example:\n  sipyard ctl reload")]
    Reload,
    /// Show which server has a call, or would get a message, and why
    #[command(after_help = "Examples:
  sipyard ctl explain 3848276298220188511@client.example.com
  sipyard ctl explain --message invite.txt
  sipyard ctl explain --message invite.txt --from 198.51.100.7:5060 --listener 0.0.0.0:5060
  xclip -o | sipyard ctl explain --message -")]
    Explain {
        /// The Call-ID of the call
        #[arg(required_unless_present = "message")]
        call_id: Option<String>,
        /// A file with a request to explain; - reads standard input
        #[arg(long, value_name = "FILE", conflicts_with = "call_id")]
        message: Option<PathBuf>,
        /// Who sends the message; default: as its topmost Via says
        #[arg(long, value_name = "IP:PORT", requires = "message")]
        from: Option<SocketAddr>,
        /// The listener that the message comes to, by its address in the configuration; default: the
        /// first
        #[arg(long, value_name = "IP:PORT", requires = "message")]
        listener: Option<SocketAddr>,
    },
}

impl Ctl {
    /// Sends the request and prints the answer.
    pub(crate) fn run(&self) -> ExitCode {
        if matches!(self.ask, Ask::Watch) {
            return match watch::run(&self.node, self.json) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => self.tell(failure),
            };
        }
        while let Ask::Status { watch: true } = self.ask {
            match self.answer() {
                // Clears the screen, then shows it.
                Ok(text) => {
                    if write!(io::stdout(), "\x1b[H\x1b[2J{}", screen::fit(&text)).is_err() {
                        return ExitCode::SUCCESS;
                    }
                }
                Err(failure) => return self.tell(failure),
            }
            screen::wait();
        }
        match self.answer() {
            Ok(text) => {
                let text = if self.json { text } else { screen::fit(&text) };
                // A reader that has gone away wants no more.
                let _ = io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(failure) => self.tell(failure),
        }
    }

    fn tell(&self, failure: Failure) -> ExitCode {
        match failure {
            Failure::Refused(problems) => refuse(problems),
            Failure::Unanswered(reason) => {
                let _ = writeln!(io::stderr(), "{}: {reason}", self.node.admin);
                ExitCode::FAILURE
            }
        }
    }

    fn answer(&self) -> Result<String, Failure> {
        let answer = self.ask()?;
        if matches!(self.ask, Ask::Call(_) | Ask::Trace(_)) {
            return Ok(answer);
        }
        if self.json {
            return Ok(answer + "\n");
        }
        match &self.ask {
            Ask::Status { .. } => read::<Status>(&answer).map(|status| table::status(&status)),
            Ask::Bans => read::<Bans>(&answer).map(|bans| table::bans(&bans)),
            Ask::Calls(_) => read::<Calls>(&answer).map(|calls| table::calls(&calls)),
            Ask::Explain { .. } => match read(&answer)? {
                // Whoever asks in a script must notice.
                Explanation::NoRequest { reason } => Err(Failure::Refused(vec![format!(
                    "the message is not a request that can be read: {reason}"
                )])),
                told => Ok(told.to_string()),
            },
            _ => read::<Done>(&answer).map(|done| done.done + "\n"),
        }
    }

    fn ask(&self) -> Result<String, Failure> {
        match &self.ask {
            Ask::Status { .. } | Ask::Watch => self.call("GET", "status", b""),
            Ask::Drain { server: None } => self.call("POST", "drain", b""),
            Ask::Undrain { server: None } => self.call("POST", "undrain", b""),
            Ask::Drain {
                server: Some(server),
            } => self.change(server, "drain"),
            Ask::Undrain {
                server: Some(server),
            } => self.change(server, "undrain"),
            Ask::Weight { server, capacity } => {
                self.change(server, &format!("weight?value={capacity}"))
            }
            Ask::Calls(list) => self.call("GET", &list.path(), b""),
            Ask::Call(show) => show.ask(self),
            Ask::Trace(trace) => trace.run(self),
            Ask::Bans => self.call("GET", "bans", b""),
            Ask::Unban { source } if source == "all" => self.call("DELETE", "bans", b""),
            Ask::Unban { source } => self.call("DELETE", &format!("bans/{}", escape(source)), b""),
            Ask::Log { levels } => {
                self.call("POST", &format!("log?levels={}", escape(levels)), b"")
            }
            Ask::Reload => self.call("POST", "reload", b""),
            Ask::Explain {
                call_id,
                message,
                from,
                listener,
            } => match (call_id, message) {
                (Some(call_id), _) => {
                    self.call("GET", &format!("explain?call_id={}", escape(call_id)), b"")
                }
                (None, Some(path)) => {
                    let way = way(*from, *listener);
                    self.call("POST", &format!("explain?{way}"), &read_message(path)?)
                }
                (None, None) => Err(Failure::Refused(vec![
                    "there is nothing to explain: give a Call-ID, or --message FILE".into(),
                ])),
            },
        }
    }

    fn change(&self, server: &str, how: &str) -> Result<String, Failure> {
        self.call("POST", &format!("servers/{}/{how}", escape(server)), b"")
    }

    fn call(&self, method: &str, path: &str, body: &[u8]) -> Result<String, Failure> {
        self.node.call(method, path, body)
    }
}

/// How a message comes, as the query of a URL.
fn way(from: Option<SocketAddr>, listener: Option<SocketAddr>) -> String {
    let given = [("from", from), ("listener", listener)];
    let given = given.into_iter().filter_map(|(key, address)| {
        let address = escape(&address?.to_string());
        Some(format!("{key}={address}"))
    });
    given.collect::<Vec<_>>().join("&")
}

fn read_message(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match path.to_str() {
        Some("-") => io::stdin().read_to_end(&mut bytes),
        _ => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    match read {
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::Refused(vec![format!(
            "{}: {error}",
            path.display()
        )])),
    }
}
