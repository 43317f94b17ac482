//! The pages that commands write, in headless Chromium: both themes, a phone and a desk.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{browser, free_address, sipyard};
use testbed::Running;

fn experiment(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    root.join(name)
}

/// Commands that write a page each, but for `load`.
fn commands() -> Vec<(&'static str, Vec<String>)> {
    let words = |text: &str, files: &[&str]| {
        let files = files.iter().map(|name| experiment(name));
        let files = files.map(|path| path.display().to_string());
        let words = text.split(' ').map(str::to_owned);
        words.chain(files).collect::<Vec<_>>()
    };
    let stages = "--stage edge:call-ms=0.1,cores=4 --stage app:call-ms=2.6,cores=4";
    let capacity = format!("plan capacity --busy-hour-calls 1000000 {stages}");
    let levels = "plan availability --first-stage 99.9% --second-stage 99.5% --clusters 3";
    let speeds = "model what-if --vary store_host.speed=1,2";
    vec![
        ("capacity", words(&capacity, &[])),
        ("availability", words(levels, &[])),
        ("state", words("plan state", &["003/two.toml"])),
        (
            "scale",
            words("plan scale", &["scale/hundred-million.toml"]),
        ),
        ("solve", words("model solve", &["plan/two-stages.lqn"])),
        ("what-if", words(speeds, &["plan/slow-store.lqn"])),
    ]
}

/// Makes a few calls to servers of its own and writes the page.
fn write_load(page: &Path) {
    let server = free_address().to_string();
    let child = sipyard()
        .args(["load", "serve", "--address", &server])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let _servers: Running = child.into();
    let calls = ["--rate", "100", "--duration", "2s", "--html"];
    let mut load = sipyard();
    load.args(["load", "call", "--to", &server]).args(calls);
    write(load.arg(page));
}

fn write(command: &mut Command) {
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
}

#[test]
fn every_page_of_results_can_be_read_on_a_phone_and_in_the_dark() {
    if !browser::is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = |name: &str| folder.path().join(format!("{name}.html"));
    for (name, words) in commands() {
        write(sipyard().args(words).arg("--html").arg(page(name)));
    }
    write(
        sipyard()
            .args(["sim", "--seeds", "2", "--name", "sim", "--out"])
            .arg(folder.path())
            .arg(experiment("first.toml")),
    );
    write_load(&page("load"));
    let names = commands().into_iter().map(|(name, _)| name);
    let output = browser::script("pages.mjs")
        .arg(env::var_os("SIPYARD_PICTURES").unwrap_or_default())
        .args(names.chain(["sim", "load"]).map(page))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{error}");
}
