//! Screens as people see them, on terminals of two sizes.
//!
//! `SIPYARD_SNAPSHOTS=write cargo test -p sipyard watch` writes the screens anew; read them before they are committed.

use std::{env, fs, path::Path};

use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use serde_json::{Value, json};

use super::{
    draw::draw,
    question::Question,
    state::{Effect, View, Watch},
};

/// A moment in 2026.
const NOW: f64 = 1_795_000_000.0;
/// Names that would clear the screen, ring the bell, change its title and turn the text around.
const HOSTILE: &str = "\u{1b}[2J\u{7}\u{1b}]0;x\u{7}\u{9b}31m\u{202e}eve@evil.example\r\n";

fn server(address: &str, state: &str, placed: u64) -> Value {
    json!({
        "pool": "app", "address": address, "state": state, "calls": 12, "placed": placed, "failed": 1,
        "first_response_seconds": 0.00214, "since_seconds": 754,
        "why": if state == "down" { Value::from("no answer to 3 OPTIONS") } else { Value::Null },
    })
}

fn status(placed: u64, down: bool) -> Value {
    let state = if down { "down" } else { "up" };
    json!({
        "name": "edge", "version": "0.1.0", "state": "serving", "uptime_seconds": 3725.2, "bans": 2,
        "listeners": [
            { "transport": "udp", "address": "10.0.0.2:5060", "advertise": "edge.example.com" },
            { "transport": "tls", "address": "10.0.0.2:5061", "advertise": "edge.example.com", "connections": 4 },
        ],
        "certificates": [{
            "shown": "tls 10.0.0.2:5061", "names": ["edge.example.com"], "issuer": "CN=ca",
            "begins": "2026-01-01T00:00:00Z", "ends": "2026-12-01T00:00:00Z", "days_left": 40,
            "file": "/etc/sipyard/edge.pem", "warning": null,
        }],
        "pools": [{
            "name": "app", "policy": "tlwl", "costs": {}, "learns_costs": false, "sources": [],
            "servers": [server("10.0.0.11:5060", "up", placed), server("10.0.0.12:5060", state, 40)],
        }],
        "removed": [], "registrar": null, "peers": [], "limits": {},
        "workers": [{
            "sessions_active": 24, "messages_received": 10 * placed, "dropped": { "malformed": 3 },
            "replies": { "503": 0 }, "lost": { "receive_buffer_full": 0 },
        }],
    })
}

fn row(call_id: &str, state: &str, from: &str) -> Value {
    json!({
        "call_id": call_id, "method": "INVITE", "from": from, "to": "bob@example.com",
        "source": "192.0.2.7:5060", "server": "10.0.0.11:5060", "state": state,
        "status": if state == "refused" { 486 } else { 180 }, "began": NOW - 20.0, "latest": NOW - 1.0,
        "ring_delay_seconds": 0.25, "talked_seconds": null, "ended_by": null, "messages": 4,
    })
}

fn calls() -> Value {
    json!({
        "calls": [
            row("refused-1@client", "refused", "alice@example.com"),
            row("ringing-1@client", "ringing", HOSTILE),
            row(HOSTILE, "talking", "carol@example.com"),
        ],
        "matching": 3, "is_recording": true, "one_in": 1, "kept": 3, "kept_bytes": 9000, "forgotten": 0, "missed": 0,
    })
}

fn message(at: f64, party: usize, came_in: bool, label: &str) -> Value {
    json!({
        "at": at, "kind": "message", "party": party, "transport": "udp", "came_in": came_in, "label": label,
        "is_repeated": at > 1.0,
        "text": format!("{label} sip:bob@example.com SIP/2.0\r\nFrom: {HOSTILE}\r\nContent-Length: 0\r\n\r\n"),
    })
}

fn call() -> Value {
    let mut call = row("refused-1@client", "refused", "alice@example.com");
    call["parties"] = json!([
        { "address": null, "role": "edge" },
        { "address": "192.0.2.7:5060", "role": "caller" },
        { "address": "10.0.0.11:5060", "role": "app" },
    ]);
    call["left_out"] = json!(0);
    call["rungs"] = json!([
        message(0.0, 1, true, "INVITE"),
        { "at": 0.0004, "kind": "placed", "policy": "tlwl", "seen": [], "text": "tlwl chose 10.0.0.11:5060" },
        message(0.0005, 2, false, "INVITE"),
        message(0.25, 2, true, "180 Ringing"),
        message(1.5, 2, true, "486 Busy Here"),
        { "at": 1.6, "kind": "why", "text": HOSTILE },
    ]);
    call
}

fn press(watch: &mut Watch, keys: &[KeyCode]) {
    for key in keys {
        watch.key(KeyEvent::new(*key, KeyModifiers::NONE));
    }
}

/// Gives each question its answer.
fn answer(watch: &mut Watch, status: &Value) {
    for question in watch.questions() {
        let told = match question {
            Question::Status => status.to_string(),
            Question::Calls { .. } => calls().to_string(),
            Question::Call(_) => call().to_string(),
            Question::Text(_) => "the ladder".to_owned(),
        };
        watch.told(question, Ok(told));
    }
}

/// A node that was asked twice, a second apart.
fn watched(down: bool) -> Watch {
    let mut watch = Watch::new(NOW - 1.0);
    answer(&mut watch, &status(100, down));
    watch.at(NOW);
    answer(&mut watch, &status(130, down));
    watch
}

fn screen(watch: &mut Watch, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, watch)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |row: u16| {
        let cells = (0..width).map(|column| buffer[(column, row)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let lines: Vec<String> = (0..height).map(line).collect();
    lines.join("\n") + "\n"
}

/// Compares both sizes with what is kept, and looks for what must reach no terminal.
#[track_caller]
fn check(name: &str, watch: &mut Watch) {
    for (width, height) in [(80, 24), (200, 50)] {
        let shown = screen(watch, width, height);
        let steers = |letter: char| letter != '\n' && letter.is_control() || letter == '\u{202e}';
        assert!(!shown.contains(steers), "{shown:?}");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ctl/watch/screens");
        let file = folder.join(format!("{name}-{width}x{height}.txt"));
        if env::var_os("SIPYARD_SNAPSHOTS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &shown).unwrap();
        }
        let kept = fs::read_to_string(&file).unwrap_or_default();
        assert!(shown == kept, "{} is now\n{shown}", file.display());
    }
}

#[test]
fn the_overview_says_whether_it_is_well() {
    check("overview", &mut watched(false));
}

#[test]
fn the_overview_says_what_needs_a_look() {
    let mut watch = watched(true);
    watch.at(NOW + 7.0);
    let question = watch.questions().remove(0);
    watch.told(question, Err("connection refused".to_owned()));
    check("trouble", &mut watch);
}

#[test]
fn calls_are_listed_and_found() {
    let mut watch = watched(false);
    press(&mut watch, &[KeyCode::Tab]);
    answer(&mut watch, &status(130, false));
    press(
        &mut watch,
        &[KeyCode::Down, KeyCode::Char('/'), KeyCode::Char('q')],
    );
    assert_eq!(watch.view, View::Calls, "q is a letter of the filter");
    check("calls", &mut watch);
    watch.at(NOW + 1.0);
    let wanted = Question::Calls {
        search: "q".to_owned(),
        is_newest: false,
    };
    assert!(watch.questions().contains(&wanted));
    press(&mut watch, &[KeyCode::Esc, KeyCode::Esc]);
    assert_eq!(watch.view, View::Overview);
}

#[test]
fn a_server_leads_to_its_calls() {
    let mut watch = watched(true);
    press(&mut watch, &[KeyCode::Down, KeyCode::Down, KeyCode::Enter]);
    assert_eq!(watch.view, View::Calls);
    let search = "10.0.0.12:5060".to_owned();
    assert!(watch.questions().contains(&Question::Calls {
        search,
        is_newest: false
    }));
}

/// A node with many calls needs long for a search, and was asked again at once.
#[test]
fn a_slow_node_is_asked_less_often() {
    let mut watch = watched(false);
    watch.at(NOW + 1.0);
    let question = watch.questions().remove(0);
    watch.at(NOW + 4.0);
    watch.told(question, Ok(status(140, false).to_string()));
    watch.at(NOW + 15.0);
    assert!(watch.questions().is_empty());
    watch.at(NOW + 17.0);
    assert!(!watch.questions().is_empty());
}

/// A call that stays chosen while others come before it.
#[test]
fn the_chosen_call_stays_chosen() {
    let mut watch = watched(false);
    press(&mut watch, &[KeyCode::Tab]);
    answer(&mut watch, &status(130, false));
    press(&mut watch, &[KeyCode::Down]);
    assert_eq!(watch.list.chosen(), Some("ringing-1@client"));
    let mut more = calls();
    let first = row("new@client", "lost", "dave@example.com");
    more["calls"].as_array_mut().unwrap().insert(0, first);
    let question = watch.list.question();
    watch.told(question, Ok(more.to_string()));
    assert_eq!(watch.list.chosen(), Some("ringing-1@client"));
}

#[test]
fn a_call_shows_its_ladder_and_the_chosen_message() {
    let mut watch = watched(false);
    press(&mut watch, &[KeyCode::Tab]);
    answer(&mut watch, &status(130, false));
    press(&mut watch, &[KeyCode::Enter]);
    assert_eq!(watch.view, View::Call);
    answer(&mut watch, &status(130, false));
    press(&mut watch, &[KeyCode::Down, KeyCode::Down]);
    check("call", &mut watch);
    press(&mut watch, &[KeyCode::End]);
    check("reason", &mut watch);

    press(&mut watch, &[KeyCode::Char('s')]);
    let question = watch.questions().remove(0);
    assert_eq!(question, Question::Text("refused-1@client".to_owned()));
    let saved = watch.told(question, Ok("the ladder".to_owned()));
    assert_eq!(
        saved,
        Some(("refused-1@client".to_owned(), "the ladder".to_owned()))
    );
    press(&mut watch, &[KeyCode::Char('q')]);
    assert_eq!(watch.view, View::Calls);
}

#[test]
fn every_view_can_be_left() {
    let leave = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in [
        &[][..],
        &[KeyCode::Tab],
        &[KeyCode::Tab, KeyCode::Char('/')],
    ] {
        let mut watch = watched(false);
        press(&mut watch, keys);
        assert_eq!(watch.key(leave), Effect::Leave);
    }
    let quit = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert_eq!(watched(false).key(quit), Effect::Leave);
}

/// Every size of terminal, and numbers of servers and calls that no screen holds.
#[test]
fn no_size_is_too_small() {
    let mut whole = status(130, true);
    let one = server("10.0.0.13:5060", "up", 1);
    let servers = whole["pools"][0]["servers"].as_array_mut().unwrap();
    servers.extend(vec![one; 300]);
    for keys in [&[][..], &[KeyCode::Tab], &[KeyCode::Tab, KeyCode::Enter]] {
        let mut watch = watched(true);
        for key in keys {
            press(&mut watch, &[*key]);
            answer(&mut watch, &whole);
        }
        let moves = [KeyCode::PageDown, KeyCode::End, KeyCode::Right, KeyCode::Up];
        for (width, height) in [(1, 1), (3, 2), (20, 5), (500, 200)] {
            press(&mut watch, &moves);
            screen(&mut watch, width, height);
        }
    }
}

/// A node of another version gives answers that can't be read.
#[test]
fn answers_that_can_not_be_read_are_told() {
    let mut watch = watched(false);
    watch.at(NOW + 1.0);
    let question = watch.questions().remove(0);
    watch.told(question, Ok("{}".to_owned()));
    assert!(watch.staleness().unwrap().contains("of another version"));
}
