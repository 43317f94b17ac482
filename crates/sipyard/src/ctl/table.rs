//! Answers as tables for people.

use std::collections::BTreeMap;

use crate::{
    calls::{Call, Calls, Row as CallRow, Rung, What},
    certificates::Certificate,
    view::{BanView, Bans, Figures, NodeState, Pool, Registrar, Server, Source, Status, Worker},
};

/// Left-aligned or right-aligned cells.
pub(super) type Row = Vec<String>;

/// A node's status: one table for the servers of all pools, one for the workers.
pub(super) fn status(status: &Status) -> String {
    let state = match status.state {
        NodeState::Serving => "serving",
        NodeState::Draining => "draining",
    };
    let mut text = format!(
        "{} {}: {state}, up {}\n",
        status.name,
        status.version,
        age(status.figures.get("uptime_seconds").unwrap_or_default())
    );
    for listener in &status.listeners {
        let (transport, address, name) =
            (&listener.transport, listener.address, &listener.advertise);
        let connections = listener.connections.map(|count| match count {
            1 => ", 1 connection".to_owned(),
            count => format!(", {count} connections"),
        });
        let connections = connections.unwrap_or_default();
        text += &format!("listens on {transport} {address} as {name}{connections}\n");
    }
    text.push('\n');
    text += &servers(status);
    for pool in &status.pools {
        text.extend(pool.sources.iter().map(|source| found(&pool.name, source)));
    }
    for pool in status.pools.iter().filter(|pool| pool.learns_costs) {
        let costs = pool.costs.iter();
        let costs: Vec<String> = costs
            .map(|(method, cost)| format!("{method} {cost:.2}"))
            .collect();
        text += &format!("{} has learned: {}\n", pool.name, costs.join(", "));
    }
    if !status.peers.is_empty() {
        text.push('\n');
        text += &peers(status);
    }
    if let Some(registrar) = &status.registrar {
        text.push('\n');
        text += &registrations(registrar, &status.workers);
    }
    text.push('\n');
    text + &details(status)
}

/// What is told of the node below its servers.
pub(super) fn details(status: &Status) -> String {
    let mut text = workers(status);
    text += &stayed_out(&status.workers);
    if status.workers.iter().any(has_dynamic_state) {
        text.push('\n');
        text += &by_worker(&STATE, &status.workers);
    }
    text.push('\n');
    text += &by_worker(&MEMORY, &status.workers);
    if status.listeners.iter().any(|it| it.transport != "udp") {
        text.push('\n');
        text += &connections(&status.workers);
    }
    if !status.certificates.is_empty() {
        text.push('\n');
        text += &certificates(&status.certificates);
    }
    text
}

/// The certificates that the node shows, and what to do about them.
fn certificates(shown: &[Certificate]) -> String {
    let header = ["CERTIFICATE OF", "NAMES", "ISSUER", "FILE", "ENDS", "DAYS"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(shown.iter().map(|it| {
        let ends = it.ends.split('T').next().unwrap_or_default();
        let names = it.names.join(", ");
        let words = [&it.shown, &names, &it.issuer, &it.file, ends];
        let mut row: Row = words.into_iter().map(printable).collect();
        row.push(it.days_left.to_string());
        row
    }));
    let mut text = align(&rows, header.len() - 1);
    for it in shown {
        let warning = it.warning.iter();
        text.extend(warning.map(|warning| format!("{}: {warning}\n", it.shown)));
    }
    text
}

/// The connections of each worker, and why those that are gone were closed.
fn connections(workers: &[Worker]) -> String {
    let mut row = vec!["WORKER".to_owned()];
    row.extend(CONNECTIONS.map(|(heading, _)| heading.to_owned()));
    row.push("WHY CLOSED".to_owned());
    let mut rows = vec![row];
    rows.extend(workers.iter().enumerate().map(|(number, worker)| {
        let figure = |name: &str| worker.connections.get(name).copied().unwrap_or(0);
        let mut row = vec![number.to_string()];
        row.extend(CONNECTIONS.map(|(_, name)| figure(name).to_string()));
        let closed = worker.closed.iter().filter(|(_, count)| **count > 0);
        let closed: Vec<String> = closed
            .map(|(why, count)| format!("{why} {count}"))
            .collect();
        row.push(closed.join(", "));
        row
    }));
    align(&rows, 1)
}

const CONNECTIONS: [(&str, &str); 9] = [
    ("CONNECTIONS", "total"),
    ("CONNECTING", "connecting"),
    ("HANDSHAKING", "handshaking"),
    ("HELD, BYTES", "held_bytes"),
    ("RECEIVED", "messages_received"),
    ("SENT", "messages_sent"),
    ("UNSENT", "messages_unsent"),
    ("RESPONSES", "responses_unsent"),
    ("NOT READ", "backed_up"),
];

fn found(pool: &str, source: &Source) -> String {
    let Source { name, used, .. } = source;
    let servers = if *used == 1 { "server" } else { "servers" };
    let reserve = match source.reserve {
        0 => String::new(),
        reserve => format!(", {reserve} in reserve"),
    };
    let problem = match &source.problem {
        None => String::new(),
        Some(problem) => format!("; {problem}: they are as they were"),
    };
    format!("{pool} has {used} {servers} of {name}{reserve}{problem}\n")
}

/// A column that shows a figure: its heading, the figure, how it is written.
type Column = (&'static str, &'static str, fn(f64) -> String);

const SERVER: [Column; 11] = [
    ("CAPACITY", "capacity", plain),
    ("CALLS", "calls", plain),
    ("TRANSACTIONS", "transactions", plain),
    ("WORK", "work", hundredths),
    ("ELSEWHERE", "calls_elsewhere", plain),
    ("UNANSWERED", "unanswered", plain),
    ("AT MOST", "unanswered_calls_max", plain),
    ("PLACED", "placed", plain),
    ("FAILED", "failed", plain),
    ("FIRST MS", "first_response_seconds", milliseconds),
    ("FINAL MS", "final_response_seconds", milliseconds),
];

const PEER: [Column; 4] = [
    ("AGE S", "age_seconds", tenths),
    ("CALLS", "calls", plain),
    ("PLACES/S", "rate", plain),
    ("REPORTS", "reports", plain),
];

const WORKER: [Column; 9] = [
    ("SESSIONS", "sessions_active", plain),
    ("EXPIRED", "sessions_expired", plain),
    ("TRANSACTIONS", "transactions", plain),
    ("HELD", "held_transactions", plain),
    ("RECEIVED", "messages_received", plain),
    ("SENT", "messages_sent", plain),
    ("HANDED OVER", "handed_over", plain),
    ("LET IN", "share_let_in", hundredths),
    ("REGISTERS", "registers_let_in", hundredths),
];

/// Who holds what comes over routes with dynamic state.
const STATE: [Column; 5] = [
    ("HELD HERE", "held", plain),
    ("LEFT OPEN", "left_open", plain),
    ("HELD BEFORE", "held_before", plain),
    ("HELD/S", "state_held_per_second", whole),
    ("ROOM/S", "state_room_per_second", whole),
];

/// Those who stayed out, and the counters of a worker that tell how many.
const OUT: [(&str, &str); 10] = [
    ("calls for help", "emergencies_out"),
    ("calls", "calls_out"),
    ("calls unread", "calls_filtered"),
    ("REGISTERs with credentials", "logins_out"),
    ("REGISTERs", "registers_out"),
    ("REGISTERs unread", "registers_filtered"),
    ("others", "others_out"),
    ("parts of calls", "of_calls_out"),
    ("for lack of room at the servers", "no_room"),
    ("as the servers had asked for less", "restricted"),
];

/// Memory of messages that a worker holds.
const MEMORY: [Column; 6] = [
    ("RETAINED, KIB", "retained_requests_bytes", kibibytes),
    ("HELD", "held_transactions_bytes", kibibytes),
    ("UNLOCATED", "unlocated_requests_bytes", kibibytes),
    ("REGISTRATIONS", "registrations_bytes", kibibytes),
    ("HANDOVER", "handover_queue_bytes", kibibytes),
    ("LOBBY", "lobby_bytes", kibibytes),
];

/// What the registrar did since the start.
const REGISTRAR: [Column; 6] = [
    ("BOUND", "bound", plain),
    ("UNBOUND", "unbound", plain),
    ("LOOKED UP", "looked_up", plain),
    ("FLOWS REMOVED", "flows_removed", plain),
    ("WRONG CREDENTIALS", "wrong_credentials", plain),
    ("STORE FAILED", "store_failed", plain),
];

fn plain(value: f64) -> String {
    value.to_string()
}

fn kibibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1024.0)
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

fn milliseconds(seconds: f64) -> String {
    format!("{:.2}", seconds * 1e3)
}

/// The headings of a table, words before and behind the figures.
fn header(before: &[&str], columns: &[Column], behind: &[&str]) -> Row {
    let headings = columns.iter().map(|(heading, ..)| heading);
    let words = before.iter().chain(headings).chain(behind);
    words.map(|&word| word.to_owned()).collect()
}

/// The cells of a row that show figures; a figure that is not known is a dash.
fn cells(columns: &[Column], figures: &Figures) -> impl Iterator<Item = String> {
    columns.iter().map(|(_, name, write)| {
        let value = figures.get(name);
        value.map_or_else(|| "-".to_owned(), write)
    })
}

fn servers(status: &Status) -> String {
    let words = ["POOL", "POLICY", "SERVER", "STATE"];
    let mut rows = vec![header(&words, &SERVER, &[])];
    for Pool {
        policy, servers, ..
    } in &status.pools
    {
        rows.extend(servers.iter().map(|server| server_row(policy, server)));
    }
    rows.extend(status.removed.iter().map(|server| server_row("-", server)));
    align(&rows, words.len())
}

fn server_row(policy: &str, server: &Server) -> Row {
    let mut row = vec![
        server.pool.clone(),
        policy.to_owned(),
        server.address.to_string(),
        server.state.label().to_owned(),
    ];
    row.extend(cells(&SERVER, &server.figures));
    row
}

fn peers(status: &Status) -> String {
    let words = ["PEER", "ADDRESS", "STATE"];
    let mut rows = vec![header(&words, &PEER, &[])];
    rows.extend(status.peers.iter().map(|peer| {
        let is_heard = peer.figures.count("heard") == 1;
        let state = if is_heard { "heard" } else { "silent" };
        let mut row = vec![
            peer.name.clone(),
            peer.address.to_string(),
            state.to_owned(),
        ];
        row.extend(cells(&PEER, &peer.figures));
        row
    }));
    align(&rows, words.len())
}

fn registrations(registrar: &Registrar, workers: &[Worker]) -> String {
    let words = ["REGISTRAR", "STORE"];
    let mut row = vec![registrar.domains.join(", "), registrar.store.clone()];
    row.extend(REGISTRAR.iter().map(|(_, name, _)| {
        let counts = workers.iter().map(|worker| worker.figures.count(name));
        counts.sum::<u64>().to_string()
    }));
    row.push(answers(workers));
    align(
        &[header(&words, &REGISTRAR, &["ANSWERS"]), row],
        words.len(),
    )
}

/// The node's own answers, by status.
fn answers(workers: &[Worker]) -> String {
    let mut answers = BTreeMap::<&str, u64>::new();
    for (status, count) in workers.iter().flat_map(|worker| &worker.replies) {
        *answers.entry(status).or_default() += count;
    }
    let given = answers.iter().filter(|(_, count)| **count > 0);
    let given: Vec<String> = given
        .map(|(status, count)| format!("{count} x {status}"))
        .collect();
    given.join(", ")
}

fn workers(status: &Status) -> String {
    let mut rows = vec![header(&["WORKER"], &WORKER, &["DROPPED", "WHY"])];
    let workers = status.workers.iter().enumerate();
    rows.extend(workers.map(|(number, worker)| worker_row(number, worker)));
    align(&rows, 1)
}

/// Who stayed out since the start, as there was more than the node or its servers could serve.
fn stayed_out(workers: &[Worker]) -> String {
    let sum = |name: &str| {
        workers
            .iter()
            .map(|worker| worker.figures.count(name))
            .sum::<u64>()
    };
    let counts = OUT.map(|(what, name)| (what, sum(name)));
    let some = counts.iter().filter(|(_, count)| *count > 0);
    let some: Vec<String> = some
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    if some.is_empty() {
        return String::new();
    }
    format!("stayed out: {}\n", some.join(", "))
}

fn has_dynamic_state(worker: &Worker) -> bool {
    worker.figures.get("state_held_per_second").is_some()
}

fn by_worker(columns: &[Column], workers: &[Worker]) -> String {
    let mut rows = vec![header(&["WORKER"], columns, &[])];
    let workers = workers.iter().enumerate();
    rows.extend(workers.map(|(number, worker)| {
        let mut row = vec![number.to_string()];
        row.extend(cells(columns, &worker.figures));
        row
    }));
    align(&rows, 1)
}

fn worker_row(number: usize, worker: &Worker) -> Row {
    let missed = worker.dropped.iter().chain(&worker.lost);
    let reasons: Vec<String> = missed
        .clone()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    let mut row = vec![number.to_string()];
    row.extend(cells(&WORKER, &worker.figures));
    row.push(missed.map(|(_, count)| count).sum::<u64>().to_string());
    row.push(reasons.join(", "));
    row
}

/// Who is banned, for how long, and why.
pub(super) fn bans(Bans { bans }: &Bans) -> String {
    if bans.is_empty() {
        return "no source is banned\n".to_owned();
    }
    let words = ["SOURCE", "BANNED FOR", "ENDS IN", "WHY"];
    let mut rows = vec![header(&words, &[], &[])];
    rows.extend(bans.iter().map(|ban: &BanView| {
        let [banned, left] = [ban.age_seconds, ban.left_seconds].map(|time| age(time as f64));
        vec![ban.source.clone(), banned, left, ban.why.clone()]
    }));
    align(&rows, words.len())
}

/// Recorded calls.
pub(super) fn calls(list: &Calls) -> String {
    if !list.is_recording {
        return "the node records no calls: calls.record is false in its configuration\n"
            .to_owned();
    }
    let words = [
        "STATE", "STATUS", "METHOD", "FROM", "TO", "SERVER", "CALL-ID",
    ];
    let mut rows = vec![header(&words, &[], &["BEGAN", "RING S", "TALK S"])];
    let now = super::node::epoch();
    rows.extend(list.calls.iter().map(|call| call_row(call, now)));
    let mut text = align(&rows, words.len());
    let (shown, matching) = (list.calls.len(), list.matching);
    text += &format!(
        "{shown} of {matching} calls; {} are kept in {:.1} MiB, {} were forgotten to make room\n",
        list.kept,
        list.kept_bytes as f64 / 1024.0 / 1024.0,
        list.forgotten,
    );
    if list.one_in > 1 {
        text += &format!("One call in {} is recorded\n", list.one_in);
    }
    if list.missed > 0 {
        text += &format!(
            "{} messages or reasons were too many to record\n",
            list.missed
        );
    }
    text
}

/// A call at a time since the UNIX epoch.
pub(super) fn call_row(call: &CallRow, now: f64) -> Row {
    let seconds =
        |time: Option<f64>| time.map_or_else(|| "-".to_owned(), |time| format!("{time:.2}"));
    let since = (now - call.began).max(0.0);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        call.state.label().to_owned(),
        or_dash(call.status.map(|status| status.to_string())),
        printable(&call.method),
        printable(&call.from),
        printable(&call.to),
        or_dash(call.server.map(|server| server.to_string())),
        printable(&call.call_id),
        format!("{} ago", age(since)),
        seconds(call.ring_delay_seconds),
        seconds(call.talked_seconds),
    ]
}

/// One thing that happened in a call, in a line.
pub(super) fn rung(call: &Call, rung: &Rung) -> String {
    let at = format!("{:>10.3}", rung.at);
    match &rung.what {
        What::Message {
            party,
            came_in,
            label,
            is_repeated,
            ..
        } => {
            let party = call.parties.get(*party);
            let address = party.and_then(|party| party.address);
            let peer = address.map_or_else(String::new, |address| address.to_string());
            let way = if *came_in { "<-" } else { "->" };
            let again = if *is_repeated { " (again)" } else { "" };
            format!("{at} {way} {peer} {}{again}", printable(label))
        }
        What::Why { text } | What::Placed { text, .. } => format!("{at}    {text}"),
    }
}

/// Text of strangers for a terminal: what steers it becomes dots.
pub(super) fn printable(text: &str) -> String {
    let shown = |letter: char| match recorder::steers(letter) {
        true => '.',
        false => letter,
    };
    text.chars().map(shown).collect()
}

pub(super) fn age(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Columns as wide as their widest cell: the first `words` to the left, numbers to the right, and
/// what follows the last number as it is.
fn align(rows: &[Row], words: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].len())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, &width))| {
                if column < words || ["WHY", "ANSWERS"].contains(&&*rows[0][column]) {
                    format!("{cell:width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use node::{
        figures::{self, Figure},
        stats::Event,
    };

    use super::*;

    /// A column whose figure has another name would show dashes for ever.
    #[test]
    fn every_column_shows_a_figure_that_is_there() {
        fn names<S>(table: &[Figure<S>]) -> Vec<String> {
            table.iter().map(Figure::full_name).collect()
        }
        let check = |columns: &[Column], known: &[String]| {
            for (_, name, _) in columns {
                assert!(known.iter().any(|known| known == name), "{name}");
            }
        };
        check(&SERVER, &names(figures::SERVER));
        check(&PEER, &names(figures::PEER));
        let events = Event::ALL.iter().map(|event| event.label().to_owned());
        let mut worker = names(figures::WORKER);
        worker.extend(events);
        check(&WORKER, &worker);
        check(&MEMORY, &worker);
        check(&STATE, &worker);
        check(&REGISTRAR, &worker);
        for (_, name) in OUT {
            assert!(worker.iter().any(|known| known == name), "{name}");
        }
    }

    /// The status did not show the held transactions.
    #[test]
    fn every_size_of_a_worker_has_a_column() {
        for size in figures::WORKER {
            let mut columns = WORKER.iter().chain(&MEMORY).chain(&STATE);
            let shown = columns.any(|(_, name, _)| *name == size.full_name());
            assert!(shown, "{}", size.name);
        }
    }
}
