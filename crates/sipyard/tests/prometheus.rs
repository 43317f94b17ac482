//! The alert rules, the Grafana dashboard and the page about alerts, with a live Prometheus and promtool.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{Edge, Settings, eventually, free_address, phones::Phone};
use serde_json::Value;
use testbed::Running;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// What follows `expr:` in the rules, whole.
fn expressions_of_rules() -> Vec<String> {
    let text = fs::read_to_string(root("etc/prometheus/sipyard.rules.yml")).unwrap();
    let mut found: Vec<String> = Vec::new();
    let mut block_at = None;
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(at) = block_at
            && indent > at
        {
            let last = found.last_mut().unwrap();
            last.push(' ');
            last.push_str(line.trim());
            continue;
        }
        block_at = None;
        if let Some(expression) = line.trim_start().strip_prefix("expr:") {
            let expression = expression.trim();
            block_at = (expression == "|").then_some(indent);
            found.push(expression.trim_start_matches('|').to_owned());
        }
    }
    found
}

/// The queries of the dashboard, with its variable filled in.
fn expressions_of_dashboard() -> Vec<String> {
    fn gather(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(expression)) = fields.get("expr") {
                    found.push(expression.replace("$instance", ".*"));
                }
                fields.values().for_each(|value| gather(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| gather(value, found)),
            _ => {}
        }
    }
    let text = fs::read_to_string(root("etc/grafana/sipyard.json")).unwrap();
    let mut found = Vec::new();
    gather(&serde_json::from_str(&text).unwrap(), &mut found);
    found
}

/// Prometheus, which scrapes a node each second by the rules.
struct Prometheus {
    at: String,
    _running: Running,
    _folder: tempfile::TempDir,
}

impl Prometheus {
    fn of(edge: &Edge) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (at, path) = (free_address(), folder.path().join("prometheus.yml"));
        let rules = root("etc/prometheus/sipyard.rules.yml");
        let file = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [ \"{}\" ]\nscrape_configs:\n  \
             - {{ job_name: sipyard, static_configs: [ {{ targets: [ \"{}\" ] }} ] }}\n",
            rules.display(),
            edge.settings.admin
        );
        fs::write(&path, file).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={at}"))
            .arg("--enable-feature=exemplar-storage")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            at: at.to_string(),
            _running: child.into(),
            _folder: folder,
        }
    }

    /// What a query yields, or why it is none.
    fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let answer = self.ask("query", &[("query", expression)])?;
        match answer["data"]["result"].as_array() {
            Some(found) => Ok(found.clone()),
            None => Err(answer["error"].to_string()),
        }
    }

    /// The Call-IDs of a metric's exemplars.
    fn exemplars(&self, metric: &str) -> Result<Vec<String>, String> {
        let span = [("query", metric), ("start", "0"), ("end", "9999999999")];
        let answer = self.ask("query_exemplars", &span)?;
        let series = answer["data"]
            .as_array()
            .ok_or_else(|| answer.to_string())?;
        let exemplars = series.iter().filter_map(|one| one["exemplars"].as_array());
        let labels = exemplars.flatten().map(|one| &one["labels"]["call_id"]);
        Ok(labels
            .filter_map(|id| id.as_str().map(str::to_owned))
            .collect())
    }

    fn ask(&self, what: &str, arguments: &[(&str, &str)]) -> Result<Value, String> {
        let url = format!("http://{}/api/v1/{what}", self.at);
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let request = agent.get(&url).query_pairs(arguments.iter().copied());
        let mut response = request.call().map_err(|error| error.to_string())?;
        let text = response
            .body_mut()
            .read_to_string()
            .map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}

/// The metrics that an expression names.
fn metrics_of(expression: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = expression.split(|c| !is_part(c));
    words
        .filter(|word| word.starts_with("sipyard_") && *word != "sipyard_")
        .map(|word| {
            ["_total", "_bucket"]
                .iter()
                .fold(word, |word, end| word.strip_suffix(end).unwrap_or(word))
        })
        .collect()
}

#[test]
fn every_query_is_one_that_prometheus_answers_from_a_node() {
    let (caller, server) = (Phone::new(), Phone::new());
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    settings.write(&pool, "");
    let edge = settings.start();
    caller.call(edge.sip(), &server, "a-call", "alice");
    let prometheus = Prometheus::of(&edge);
    eventually("the node is scraped twice", || {
        let found = prometheus.query("rate(sipyard_messages_received_total[1m])");
        found.is_ok_and(|found| !found.is_empty())
    });
    eventually("a slow bucket leads to a call", || {
        let found = prometheus.exemplars("sipyard_response_seconds_bucket");
        found.is_ok_and(|calls| calls.iter().any(|call| call == "a-call"))
    });
    let metrics = edge.ask("GET", "/metrics").1;
    let is_there = |name: &str| metrics.contains(&format!("# TYPE {name} "));
    let expressions = [expressions_of_rules(), expressions_of_dashboard()].concat();
    assert!(expressions.len() > 50, "{}", expressions.len());
    for expression in &expressions {
        prometheus
            .query(expression)
            .unwrap_or_else(|error| panic!("{expression}: {error}"));
        for name in metrics_of(expression) {
            assert!(is_there(name), "{name} of {expression} is no metric");
        }
    }
    for expression in [
        "sipyard_server_up == 1",
        "sum(sipyard_calls_answered_total) == 1",
        "sum(sipyard_server_up) / count(sipyard_server_up) == 1",
    ] {
        assert_eq!(
            prometheus.query(expression).unwrap().len(),
            1,
            "{expression}"
        );
    }
}

#[test]
fn promtool_is_content_and_each_alert_has_its_advice() {
    let folder = root("etc/prometheus");
    for arguments in [
        ["check", "rules", "sipyard.rules.yml"],
        ["test", "rules", "sipyard.test.yml"],
    ] {
        let output = Command::new("promtool")
            .args(arguments)
            .current_dir(&folder)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let rules = fs::read_to_string(folder.join("sipyard.rules.yml")).unwrap();
    let page = fs::read_to_string(root("docs/operate/alerts.md")).unwrap();
    let alerts = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let missing: Vec<_> = alerts
        .filter(|alert| !page.contains(&format!("## {alert}\n")))
        .collect();
    assert!(
        missing.is_empty(),
        "{missing:?} stand not in docs/operate/alerts.md"
    );
}
