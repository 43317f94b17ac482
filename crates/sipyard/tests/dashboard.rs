//! The dashboard of a running node, in headless Chromium.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{env, fs, time::Duration};

use common::{
    Settings, authority::Authority, browser, eventually, free_address, phones::Phone, sipyard,
};

/// A Call-ID that would be a script if a page took text for markup.
const HOSTILE: &str = "<img/src=x/onerror=alert(1)>";

#[test]
fn every_page_is_whole_in_both_themes_and_at_each_width() {
    if !browser::is_there() {
        return;
    }
    let (caller, server) = (Phone::new(), Phone::new());
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    settings.write(&pool, "");
    let (token, hash) = token();
    let file = fs::read_to_string(settings.path()).unwrap();
    let file = file.replace("tokens = [", &format!("tokens = [\"{hash}\", "));
    settings
        .write_whole(&file.replace("listen = [", &format!("listen = [ {},", secure(&settings))));
    let edge = settings.start();
    caller.call(edge.sip(), &server, HOSTILE, "alice");
    eventually("the call is recorded", || {
        edge.ctl(&["calls"]).1.contains(HOSTILE)
    });
    let output = browser::script("check.mjs")
        .arg(format!("http://{}", edge.settings.admin))
        .args([token, server.address().to_string(), HOSTILE.to_owned()])
        .args(env::var_os("SIPYARD_PICTURES"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{error}");
    assert!(edge.log().contains("audit: the token"));
}

/// A listener whose certificate ends soon.
fn secure(settings: &Settings) -> String {
    let path = settings.path();
    let authority = Authority::new(path.parent().unwrap(), "Our own authority");
    let left = Duration::from_secs(5 * 86_400 + 3_600);
    authority.issue_for("edge", &["edge.example.com"], left);
    format!(
        "{{ transport = \"tls\", address = \"{}\", certificates = [ {{ chain = \"edge.pem\", key = \"edge.key\" }} ] }}",
        free_address()
    )
}

/// `sipyard token operate`: the token, and its line of the configuration.
fn token() -> (String, String) {
    let output = sipyard().args(["token", "operate"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (told, configured) = text.split_once('\n').unwrap();
    let token = told.rsplit(' ').next().unwrap();
    (
        token.to_owned(),
        configured.split('"').nth(1).unwrap().to_owned(),
    )
}
