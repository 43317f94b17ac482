//! Scripts that look at pages in headless Chromium.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dashboard")
}

/// What is missing to look at pages; `scripts/setup.sh test` installs it.
fn missing() -> Option<&'static str> {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("node") {
        Some("node")
    } else if !has("chromium") {
        Some("chromium")
    } else if !folder().join("node_modules/puppeteer-core").exists() {
        Some("npm ci in crates/sipyard/tests/dashboard")
    } else {
        None
    }
}

/// Whether pages can be looked at. Without a browser their test is skipped, but not in CI.
pub fn is_there() -> bool {
    let Some(missing) = missing() else {
        return true;
    };
    // Debian's packages are there where the gate runs; npm's registry need not be in reach.
    assert!(
        env::var_os("CI").is_none() || missing.starts_with("npm"),
        "CI looks at the pages: install {missing}"
    );
    eprintln!("SKIPPED: no page is looked at: {missing} is missing");
    false
}

/// A script of tests/dashboard.
pub fn script(name: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(folder().join(name));
    command
}
