//! Where a program's time goes, by perf: shares of function groups.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::Program;
use crate::process::Process;

const PERF: &str = "/usr/bin/perf";

/// Samples per second.
const FREQUENCY: &str = "4000";

/// What a function is for. A function that the compiler has put into another one counts as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Group {
    Kernel,
    Messages,
    State,
    LookUp,
    Digest,
    Memory,
    Rest,
}

/// perf, and how the symbols of a program are told apart.
pub(super) struct Profiler {
    rules: &'static [(Group, &'static [&'static str])],
}

/// A program that is being watched.
pub(super) struct Recording {
    perf: Child,
    file: PathBuf,
    profiler: Profiler,
}

/// The first rule whose words a symbol or its library has.
const SIPYARD: &[(Group, &[&str])] = &[
    (Group::Kernel, &["[k]", "[kernel", "[vdso]"]),
    (Group::Digest, &["md5", "sha2", "digest", "auth"]),
    (
        Group::Memory,
        &[
            "malloc",
            "_int_free",
            "cfree",
            "memmove",
            "memcpy",
            "memset",
            "alloc::",
        ],
    ),
    (
        Group::LookUp,
        &["registrar", "location", "redb", "store", "targets"],
    ),
    (
        Group::State,
        &[
            "stateful",
            "transaction",
            "slots",
            "calls",
            "recorder",
            "custody",
            "work",
        ],
    ),
    (
        Group::Messages,
        &["sip::", "wire", "memchr", "relay", "memcmp"],
    ),
];

const KAMAILIO: &[(Group, &[&str])] = &[
    (Group::Kernel, &["[k]", "[kernel", "[vdso]"]),
    (Group::Digest, &["auth.so", "MD5", "md5", "calc_"]),
    (
        Group::Memory,
        &[
            "malloc", "free", "qm_", "fm_", "tlsf", "memmove", "memcpy", "memset",
        ],
    ),
    (
        Group::LookUp,
        &["usrloc.so", "registrar.so", "dispatcher.so"],
    ),
    (Group::State, &["tm.so", "dialog.so", "lock", "timer"]),
    (
        Group::Messages,
        &[
            "parse", "build_", "hdr", "_via", "lump", "rr.so", "str", "memcmp", "crc",
        ],
    ),
];

impl Group {
    pub(super) const ALL: [Self; 7] = [
        Self::Kernel,
        Self::Messages,
        Self::State,
        Self::LookUp,
        Self::Digest,
        Self::Memory,
        Self::Rest,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Messages => "messages",
            Self::State => "state",
            Self::LookUp => "look-up",
            Self::Digest => "digest",
            Self::Memory => "memory",
            Self::Rest => "rest",
        }
    }
}

impl Profiler {
    /// None: there is no perf.
    pub(super) fn find(program: Program) -> Option<Self> {
        let rules = match program {
            Program::Kamailio => KAMAILIO,
            Program::Sipyard => SIPYARD,
        };
        Path::new(PERF).exists().then_some(Self { rules })
    }

    /// Watches a program from now on.
    pub(super) fn start(
        self,
        process: &Process,
        folder: &Path,
        seconds: u32,
    ) -> io::Result<Recording> {
        let file = folder.join("perf.data");
        let ids: Vec<_> = process.processes().iter().map(u32::to_string).collect();
        let perf = Command::new(PERF)
            .args(["record", "-q", "-e", "cpu-clock", "-F", FREQUENCY, "-o"])
            .arg(&file)
            .args(["-p", &ids.join(","), "--", "sleep", &seconds.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Recording {
            perf,
            file,
            profiler: self,
        })
    }

    fn group(&self, line: &str) -> Group {
        let mut rules = self.rules.iter();
        let rule = rules.find(|(_, words)| words.iter().any(|word| line.contains(word)));
        rule.map_or(Group::Rest, |(group, _)| *group)
    }
}

impl Recording {
    /// How many samples there are, and their shares.
    pub(super) fn shares(mut self) -> io::Result<(u64, Vec<(Group, f64)>)> {
        self.perf.wait()?;
        let report = Command::new(PERF)
            .args(["report", "--stdio", "-q", "--no-inline", "-n"])
            .args(["--sort", "symbol,dso", "-i"])
            .arg(&self.file)
            .stderr(Stdio::null())
            .output()?;
        let report = String::from_utf8_lossy(&report.stdout);
        let mut samples = [0u64; Group::ALL.len()];
        for line in report.lines() {
            let mut columns = line.split_whitespace();
            let is_share = columns.next().is_some_and(|column| column.ends_with('%'));
            let count = columns.next().and_then(|count| count.parse::<u64>().ok());
            if let Some(count) = count.filter(|_| is_share) {
                samples[self.profiler.group(line) as usize] += count;
            }
        }
        let all: u64 = samples.iter().sum();
        let share = |group: Group| (group, samples[group as usize] as f64 / all.max(1) as f64);
        Ok((all, Group::ALL.map(share).to_vec()))
    }
}
