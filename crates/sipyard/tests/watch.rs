//! `sipyard ctl watch` on a pseudo-terminal, before a running node.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "the terminal's output is read while keys are pressed"
)]

mod common;

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use common::{Edge, Settings, eventually, phones::Phone, sipyard};

/// What takes the whole screen, and what gives it back.
const TAKE: &str = "\u{1b}[?1049h";
const GIVE_BACK: &str = "\u{1b}[?1049l";

/// The program on a terminal of 100 by 30, which util-linux' `script` makes.
struct Watch {
    script: Child,
    shown: Arc<Mutex<Vec<u8>>>,
}

impl Watch {
    fn start(edge: &Edge) -> Self {
        let program = env!("CARGO_BIN_EXE_sipyard");
        let socket = edge.folder().join("admin.sock");
        let line = format!(
            "stty rows 30 cols 100; cd {}; {program} ctl --admin {} watch; echo ended with $?; stty -a",
            edge.folder().display(),
            socket.display()
        );
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = script.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&shown);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                kept.lock().unwrap().extend_from_slice(&buffer[..count]);
            }
        });
        Self { script, shown }
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }

    fn press(&mut self, keys: &str) {
        let keyboard = self.script.stdin.as_mut().unwrap();
        keyboard.write_all(keys.as_bytes()).unwrap();
    }

    #[track_caller]
    fn await_words(&self, words: &str) {
        eventually(words, || self.shown().contains(words));
    }

    /// The screen is as it was, and so is what keys do.
    #[track_caller]
    fn await_end(&mut self) {
        self.await_words("ended with 0");
        let shown = self.shown();
        let (at, end) = (shown.rfind(TAKE).unwrap(), shown.rfind(GIVE_BACK).unwrap());
        assert!(at < end, "{shown:?}");
        eventually("the terminal's settings", || {
            let shown = self.shown();
            shown.contains(" icanon") && shown.contains(" echo ")
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.script.kill();
        let _ = self.script.wait();
    }
}

fn has_script() -> bool {
    let has = Command::new("script").arg("--version").output().is_ok();
    if !has {
        eprintln!("SKIPPED: script of util-linux is missing");
    }
    has
}

#[test]
fn a_call_is_opened_and_saved_and_the_terminal_given_back() {
    if !has_script() {
        return;
    }
    let (caller, server) = (Phone::new(), Phone::new());
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    settings.write(&pool, "");
    let edge = settings.start();
    caller.call(edge.sip(), &server, "one", "alice");
    eventually("the call is recorded", || {
        edge.ctl(&["calls"]).1.contains("one")
    });
    let mut watch = Watch::start(&edge);
    watch.await_words(TAKE);
    watch.await_words("well:");
    watch.press("\t");
    watch.await_words("STATUS");
    watch.await_words("alice@");
    watch.press("\r");
    watch.await_words("INVITE");
    watch.press("s");
    watch.await_words("saved");
    let saved = fs::read_dir(edge.folder()).unwrap().flatten();
    let mut names = saved.map(|entry| entry.file_name().into_string().unwrap());
    let name = names.find(|name| name.starts_with("call-")).unwrap();
    let text = fs::read_to_string(edge.folder().join(name)).unwrap();
    assert!(text.contains("INVITE"), "{text}");
    watch.press("qqq");
    watch.await_end();
}

#[test]
fn ctrl_c_and_the_end_of_the_node_leave_no_broken_terminal() {
    if !has_script() {
        return;
    }
    let settings = Settings::new();
    settings.write(
        "servers = [ { address = \"127.0.0.1:9\" } ]\nprobe = false",
        "",
    );
    let edge = settings.start();
    let mut watch = Watch::start(&edge);
    watch.await_words("well:");
    edge.signal("KILL");
    watch.await_words("Connection");
    watch.press("\u{3}");
    watch.await_end();
}

/// A terminal that was closed left a process that read from it for ever, with all of a core.
#[test]
fn nothing_is_left_when_the_terminal_closes() {
    if Command::new("tmux").arg("-V").output().is_err() {
        eprintln!("SKIPPED: tmux is missing");
        return;
    }
    let edge = Edge::before(&["127.0.0.1:9".parse().unwrap()]);
    let socket = edge.folder().join("admin.sock").display().to_string();
    let tmux = |arguments: &[&str]| {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(edge.folder().join("tmux"));
        tmux.args(["-f", "/dev/null"]).args(arguments);
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let line = format!(
        "exec {} ctl --admin {socket} watch",
        env!("CARGO_BIN_EXE_sipyard")
    );
    tmux(&["new-session", "-d", "-x", "80", "-y", "24", &line]);
    eventually("the screen", || {
        tmux(&["capture-pane", "-p"]).contains("127.0.0.1:9")
    });
    // Only then it has read from the terminal.
    tmux(&["send-keys", "Tab"]);
    eventually("the calls", || {
        tmux(&["capture-pane", "-p"]).contains("STATUS")
    });
    let pid = tmux(&["list-panes", "-F", "#{pane_pid}"]);
    let folder = Path::new("/proc").join(pid.trim());
    let is_there = || {
        let line = fs::read(folder.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&socket)
    };
    assert!(is_there());
    tmux(&["kill-server"]);
    eventually("its end", || !is_there());
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let edge = Edge::before(&["127.0.0.1:9".parse().unwrap()]);
    let (code, told, problem) = edge.ctl(&["watch"]);
    assert_eq!((code, &*told), (Some(2), ""));
    assert!(problem.contains("use `sipyard ctl status`"), "{problem}");
    let output = sipyard().args(["ctl", "watch", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("save an open call as text"), "{help}");
}
