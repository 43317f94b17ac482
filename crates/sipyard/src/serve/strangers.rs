//! Logs failed logins and bans, and tells nftables of bans.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use node::{Ban, Notice, Source};
use settings::value::show;
use tokio::{task::spawn_blocking, time::interval};

use super::Control;
use crate::{config::Nftables, view::why};

const TICK: Duration = Duration::from_millis(250);

/// Logs each failed login and ban, and keeps the sets of nftables. It never returns.
pub(super) async fn watch(control: Arc<Control>) {
    let mut tick = interval(TICK);
    let mut is_failing = false;
    loop {
        tick.tick().await;
        let (notices, missed) = control.shared().guard().take_notices();
        for notice in &notices {
            log(notice);
        }
        if missed > 0 {
            tracing::warn!("{missed} more failed logins and bans are not logged");
        }
        let Some(nftables) = control.nftables() else {
            continue;
        };
        for commands in commands(nftables, &notices) {
            let ran = spawn_blocking(move || run("nft", &commands)).await;
            let ran = ran.expect("to run a program does not panic");
            if is_failing != ran.is_err() {
                is_failing = ran.is_err();
                tell(&ran);
            }
        }
    }
}

fn log(notice: &Notice) {
    let line = line(notice);
    match notice {
        Notice::LoginFailed { .. } => tracing::info!("{line}"),
        Notice::Banned(_) | Notice::Unbanned(_) => tracing::warn!("{line}"),
    }
}

/// A line of the log. Others read it: etc/fail2ban/filter.d/sipyard.conf has its words. Text of
/// strangers is between quotes and has neither quotes nor control characters.
fn line(notice: &Notice) -> String {
    match notice {
        Notice::LoginFailed {
            from,
            user,
            realm,
            is_held_against,
        } => {
            let (user, realm) = (user.escape_default(), realm.escape_default());
            if *is_held_against {
                format!("login failed from {from} user \"{user}\" realm \"{realm}\"")
            } else {
                format!("login failed, not held against {from} user \"{user}\" realm \"{realm}\"")
            }
        }
        Notice::Banned(ban) => {
            let Ban { source, .. } = ban;
            let time = show(ban.until - ban.since);
            format!("banned {source} for {time}: {}", why(ban))
        }
        Notice::Unbanned(source) => format!("the ban of {source} is lifted"),
    }
}

/// What nftables is told, in pieces that fail apart: an unknown set, or an element that has just run out,
/// makes a whole piece fail.
fn commands(nftables: &Nftables, notices: &[Notice]) -> Vec<String> {
    let Nftables { table, set } = nftables;
    let element = |verb: &str, source: Source, more: &str| {
        let six = if source.address().is_ipv6() { "6" } else { "" };
        format!("{verb} element {table} {set}{six} {{ {source}{more} }}\n")
    };
    let mut pieces = [String::new(), String::new()];
    let mut lifted = Vec::new();
    for notice in notices {
        match notice {
            Notice::Banned(ban) => {
                let seconds = (ban.until - ban.since).as_secs();
                let place = usize::from(ban.source.address().is_ipv6());
                pieces[place] += &element("add", ban.source, &format!(" timeout {seconds}s"));
            }
            Notice::Unbanned(source) => lifted.push(element("delete", *source, "")),
            Notice::LoginFailed { .. } => {}
        }
    }
    let added = pieces.into_iter().filter(|piece| !piece.is_empty());
    added.chain(lifted).collect()
}

/// Has `program` carry out these commands.
fn run(program: &str, commands: &str) -> io::Result<()> {
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let written = child
        .stdin
        .take()
        .map(|mut stdin| stdin.write_all(commands.as_bytes()));
    let output = child.wait_with_output()?;
    written.transpose()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it gives no reason");
    Err(io::Error::other(said.to_owned()))
}

fn tell(ran: &io::Result<()>) {
    match ran {
        Ok(()) => tracing::info!("nft does what it is told again"),
        Err(error) => tracing::error!(
            "nft failed: {error}; the node itself drops what banned sources send. Check that nft is \
             installed, that the sets exist and that the node has the capability CAP_NET_ADMIN. \
             Further failures are not logged until one succeeds"
        ),
    }
}

#[cfg(test)]
mod tests;
