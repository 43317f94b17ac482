//! Where and when the figures were taken.

use std::{env, fs, io, process::Command};

use serde::{Deserialize, Serialize};

use crate::subject::KAMAILIO;

/// What belongs to each figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub date: String,
    pub commit: String,
    pub cpu: String,
    pub cores: usize,
    pub kernel: String,
    /// The peer's version.
    pub kamailio: String,
    pub command: String,
}

impl Stamp {
    pub(crate) fn take() -> io::Result<Self> {
        let cpu_info = fs::read_to_string("/proc/cpuinfo")?;
        let cpu = cpu_info
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let changed =
            !output("git", &["status", "--porcelain", "--untracked-files=no"])?.is_empty();
        let arguments: Vec<_> = env::args().skip(1).collect();
        Ok(Self {
            date: output("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
            commit: output("git", &["rev-parse", "--short=12", "HEAD"])?
                + if changed { " and changes" } else { "" },
            cpu: cpu.map_or("unknown", |(_, model)| model).to_owned(),
            cores: cpu_info
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count(),
            kernel: output("uname", &["-sr"])?,
            kamailio: kamailio_version(),
            command: format!(
                "cargo run --release -p bench --bin bench -- {}",
                arguments.join(" ")
            ),
        })
    }
}

fn kamailio_version() -> String {
    let about = output(KAMAILIO, &["-v"]).unwrap_or_default();
    let version = about
        .lines()
        .find_map(|line| line.strip_prefix("version: "));
    version.unwrap_or("no kamailio").trim().to_owned()
}

fn output(program: &str, args: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(args).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
