//! A process that writes at full load is killed, or its disk is full: nothing that was acknowledged is
//! lost. `cargo test -p store --test crash -- 50` kills it 50 times.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(clippy::print_stdout, reason = "it tells what it has seen")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test waits for another process"
)]

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    task::Poll,
    thread,
    time::Duration,
};

use fastrand::Rng;
use store::{Address, Error, Limits, Next, Put, Store, Value};
use testbed::Running;

const ROUNDS: u32 = 4;
const KEYS: u32 = 2_000;
/// What a binding takes, more or less.
const VALUE_BYTES: usize = 200;
const PATIENCE: Duration = Duration::from_secs(30);
/// What the writer says in the place of a key when the disk is full.
const REFUSED: u32 = u32::MAX;

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if let [_, command, path] = &arguments[..]
        && command == "write"
    {
        return write(Path::new(path));
    }
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    kills(rounds.unwrap_or(ROUNDS));
    full_disk();
}

fn kills(rounds: u32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut acknowledged = Acknowledged::default();
    let (mut changes, mut rewrites, mut size) = (0, 0, 0);
    let mut rng = Rng::with_seed(rounds.into());
    for round in 1..=rounds {
        let writer = Writer::start(&path, None);
        for _ in 0..rng.u32(1_000..60_000) {
            acknowledged.take(writer.hear());
            changes += 1;
        }
        changes += acknowledged.take_all(writer.kill());
        acknowledged.check(&path, round);
        let now = fs::metadata(&path).unwrap().len();
        rewrites += u32::from(now < size);
        size = now;
    }
    println!(
        "killed {rounds} times: {changes} changes acknowledged, 0 lost; the file was written anew in \
         {rewrites} of the rounds at least"
    );
}

fn full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut acknowledged = Acknowledged::default();
    let writer = Writer::start(&path, Some(8 * 1024));
    loop {
        match writer.hear() {
            (REFUSED, _) => break,
            said => acknowledged.take(said),
        }
    }
    let pid = writer.process.id().to_string();
    let limit = ["--fsize=unlimited:", "--pid", &pid];
    let raised = Command::new("prlimit").args(limit).status();
    assert!(raised.expect("util-linux has prlimit").success());
    for _ in 0..3 * KEYS {
        acknowledged.take(writer.hear());
    }
    acknowledged.take_all(writer.kill());
    acknowledged.check(&path, 0);
    println!("a full disk: refused, nothing acknowledged lost, went on when there was room");
}

/// The last number that was acknowledged of each key.
#[derive(Default)]
struct Acknowledged(BTreeMap<u32, u32>);

impl Acknowledged {
    fn take(&mut self, (key, number): (u32, u32)) {
        if key != REFUSED {
            self.0.insert(key, number);
        }
    }

    fn take_all(&mut self, said: Vec<(u32, u32)>) -> usize {
        let count = said.len();
        said.into_iter().for_each(|said| self.take(said));
        count
    }

    /// All is there, and goes on from what is.
    fn check(&mut self, path: &Path, round: u32) {
        let store = open(path);
        for (key, number) in &mut self.0 {
            let stored = get(&store, *key);
            let stored = stored.as_ref().map(number_of);
            // The one after it may have been on its way.
            assert!(
                stored == Some(*number) || stored == Some(*number + 1),
                "round {round}: key {key} is {stored:?}, {number} was acknowledged"
            );
            *number = stored.unwrap();
        }
    }
}

/// The process that writes, and what it says it has acknowledged: keys and numbers.
struct Writer {
    process: Running,
    said: mpsc::Receiver<(u32, u32)>,
}

impl Writer {
    /// Starts it, with a limit of its files in KiB.
    fn start(path: &Path, limit_kib: Option<u32>) -> Self {
        let me = env::current_exe().unwrap();
        let limit = limit_kib.map_or_else(|| "unlimited".to_owned(), |kib| kib.to_string());
        // A write beyond the limit shall fail, not kill.
        let script = "trap '' XFSZ; ulimit -S -f $1; exec \"$2\" write \"$3\"";
        let mut child = Command::new("bash")
            .args(["-c", script, "bash", &limit])
            .args([me.as_path(), path])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let (sender, said) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 8];
            while stdout.read_exact(&mut bytes).is_ok() {
                let [key, number] =
                    [0, 4].map(|at| u32::from_be_bytes(*bytes[at..].first_chunk().unwrap()));
                if sender.send((key, number)).is_err() {
                    return;
                }
            }
        });
        Self {
            process: child.into(),
            said,
        }
    }

    fn hear(&self) -> (u32, u32) {
        self.said
            .recv_timeout(PATIENCE)
            .expect("the writer goes on")
    }

    /// Kills it (SIGKILL) and returns what it had said before.
    fn kill(self) -> Vec<(u32, u32)> {
        drop(self.process);
        self.said.iter().collect()
    }
}

/// Writes for ever: each key's next number as soon as the last is acknowledged.
fn write(path: &Path) {
    let store = open(path);
    let (sender, answers) = mpsc::channel();
    let put = |key: u32| {
        let seen = get(&store, key);
        let number = seen.as_ref().map_or(0, number_of) + 1;
        let mut value = number.to_be_bytes().to_vec();
        value.resize(VALUE_BYTES, key as u8);
        let next = Next {
            value: &value,
            expires: None,
        };
        let sender = sender.clone();
        let asked = store.put(&key.to_be_bytes(), seen.as_ref(), Some(next), move |put| {
            sender.send((key, number, put)).unwrap();
        });
        assert_eq!(asked, Poll::Pending);
    };
    (0..KEYS).for_each(put);
    let mut stdout = io::stdout();
    while let Ok((key, number, answer)) = answers.recv() {
        let said = match answer {
            Ok(Put::Stored) => (key, number),
            Err(Error::Unavailable(why)) if why.contains("File too large") => (REFUSED, 0),
            other => panic!("{other:?}"),
        };
        let said = [said.0.to_be_bytes(), said.1.to_be_bytes()].concat();
        // Nobody listens when the test has failed.
        if stdout
            .write_all(&said)
            .and_then(|()| stdout.flush())
            .is_err()
        {
            return;
        }
        put(key);
    }
}

fn open(path: &Path) -> Store {
    Store::open(&Address::File(path.to_owned()), &Limits::default()).unwrap()
}

fn get(store: &Store, key: u32) -> Option<Value> {
    match store.get(&key.to_be_bytes(), |_| ()) {
        Poll::Ready(found) => found.unwrap(),
        Poll::Pending => panic!("all is in memory"),
    }
}

fn number_of(value: &Value) -> u32 {
    u32::from_be_bytes(*value.first_chunk().unwrap())
}
