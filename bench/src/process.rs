//! The programs that are measured: started on their core, watched, ended.

use std::{
    fs,
    io::{self, Read as _, Seek as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_setaffinity},
};

/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// A running program and the processes that it started. It is ended on drop.
pub(crate) struct Process {
    child: Child,
    log: fs::File,
}

impl Process {
    /// Starts a program on one core. It is told to end if this process dies.
    pub(crate) fn start(core: usize, program: &Path, args: &[&str]) -> io::Result<Self> {
        Self::start_on(&[core], program, args)
    }

    /// The same on several cores.
    pub(crate) fn start_on(cores: &[usize], program: &Path, args: &[&str]) -> io::Result<Self> {
        let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
        let log = tempfile::tempfile()?;
        let child = Command::new("setpriv")
            .args([
                "--pdeathsig",
                "TERM",
                "taskset",
                "--cpu-list",
                &cores.join(","),
            ])
            .arg(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        Ok(Self { child, log })
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and its descendants at once.
    pub(crate) fn kill(&self) {
        let processes = self.processes().into_iter();
        processes.for_each(|process| signal(process, Signal::KILL));
    }

    /// The end of what it wrote.
    pub(crate) fn log(&mut self) -> String {
        let mut text = Vec::new();
        let read = self
            .log
            .rewind()
            .and_then(|()| self.log.read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// The CPU time of all its processes and threads, as the scheduler accounts it.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = self.processes().into_iter().flat_map(tasks);
        tasks.map(on_cpu).sum()
    }

    /// The CPU time of the program in user mode and in the kernel, with that of threads that have ended; in steps of
    /// 10 ms.
    pub(crate) fn cpu_by_mode(&self) -> [Duration; 2] {
        const TICK_MS: u64 = 10;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        // Its name, in parentheses, may hold blanks.
        let figures = stat.rsplit(')').next().unwrap_or_default();
        let mut used = figures.split_whitespace().skip(11);
        [used.next(), used.next()].map(|ticks| {
            let ticks = ticks.and_then(|ticks| ticks.parse().ok());
            Duration::from_millis(ticks.unwrap_or(0) * TICK_MS)
        })
    }

    /// The CPU time of the thread that the program began with.
    pub(crate) fn cpu_of_first(&self) -> Duration {
        on_cpu((self.id(), self.id()))
    }

    /// The resident memory of all its processes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let resident = |process| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        self.processes()
            .into_iter()
            .filter_map(resident)
            .sum::<u64>()
            * 1024
    }

    /// The program and its descendants.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut processes = vec![self.child.id()];
        let mut next = 0;
        while let Some(&process) = processes.get(next) {
            for task in tasks(process) {
                let children = format!("/proc/{process}/task/{}/children", task.1);
                let children = fs::read_to_string(children).unwrap_or_default();
                processes.extend(
                    children
                        .split_whitespace()
                        .filter_map(|id| id.parse::<u32>().ok()),
                );
            }
            next += 1;
        }
        processes
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let processes = self.processes();
        signal(self.child.id(), Signal::TERM);
        let asked = Instant::now();
        while !self.has_ended() && asked.elapsed() < GRACE {
            thread::sleep(Duration::from_millis(2));
        }
        if !self.has_ended() {
            processes
                .into_iter()
                .for_each(|process| signal(process, Signal::KILL));
        }
        // It has ended already, or cannot refuse.
        let _ = self.child.wait();
    }
}

/// Keeps a core from sleeping, with what only runs when nobody else has anything to do. To wake up a core
/// that sleeps is charged to the one that wakes up: under a quota a stateless call took 54 us and not 38.
pub(crate) fn keep_awake(core: usize) -> io::Result<Process> {
    const SPIN: [&str; 5] = ["--idle", "0", "sh", "-c", "while :; do :; done"];
    Process::start(core, Path::new("chrt"), &SPIN)
}

/// Sends a signal to a process.
pub(crate) fn signal(process: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // A process that is gone needs no signal.
        let _ = kill_process(pid, signal);
    }
}

/// Lets a running process have one core only.
pub(crate) fn pin(process: u32, core: usize) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    for (_, task) in tasks(process) {
        let task = i32::try_from(task).ok().and_then(Pid::from_raw);
        sched_setaffinity(task, &cores)?;
    }
    Ok(())
}

/// The CPU time of a thread; none if it has ended.
fn on_cpu((process, task): (u32, u32)) -> Duration {
    let line = fs::read_to_string(format!("/proc/{process}/task/{task}/schedstat"));
    let line = line.unwrap_or_default();
    let ns = line.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// The threads of a process.
fn tasks(process: u32) -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let ids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.map(|task| (process, task)).collect()
}

/// Microseconds, with their fraction.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
