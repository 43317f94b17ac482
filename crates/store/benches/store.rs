//! What a binding costs: memory with a million of them, CPU and time of a look-up and of a change.
//! `cargo bench -p store`
#![allow(clippy::unwrap_used, reason = "a bench that can't go on fails")]
#![allow(clippy::print_stdout, reason = "it prints a table")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    env, fs,
    sync::mpsc,
    task::Poll,
    time::{Duration, Instant},
};

use fastrand::Rng;
use location::{Aor, Binding, Location, UsedNonce, UsedNonces};
use report::Table;
use store::{Address, Limits, Next, Put, Store, Value};

const MANY: u64 = 1_000_000;
/// Changes that wait for their answer.
const QUEUE: usize = 4_096;
const CHANGES: u64 = 200_000;

fn main() {
    // `cargo test` runs it small.
    let many = if env::args().any(|argument| argument == "--bench") {
        MANY
    } else {
        1_000
    };
    let folder =
        tempfile::tempdir_in(env::var_os("STORE_FOLDER").unwrap_or_else(|| ".".into())).unwrap();
    let file = Address::File(folder.path().join("store"));
    let mut table = Table::new("", ["", "memory", "file"]);
    // The first stays, so that the second takes memory of its own.
    let (memory, _kept) = measure(&Address::Memory, many);
    let (file, _) = measure(&file, many);
    let columns = [memory, file];
    for (row, name) in columns[0].iter().map(|(name, _)| name).enumerate() {
        table.push([name.as_str(), &columns[0][row].1, &columns[1][row].1]);
    }
    println!(
        "{many} bindings, {QUEUE} changes at a time\n\n{}",
        table.markdown()
    );
}

/// What was measured, and its value.
type Rows = Vec<(String, String)>;

fn measure(address: &Address, many: u64) -> (Rows, Store) {
    let before = resident_bytes();
    let store = Store::open(address, &Limits::default()).unwrap();
    let mut rows = Rows::new();
    let mut row = |name: &str, value: String| rows.push((name.into(), value));
    change(&store, 0..many);
    let bytes = (resident_bytes() - before) as f64 / many as f64;
    row("memory a binding, bytes", format!("{bytes:.0}"));

    let mut rng = Rng::with_seed(1);
    let begin = (Instant::now(), cpu());
    for _ in 0..CHANGES {
        assert!(found(&store, aor(rng.u64(..many)).key()).is_some());
    }
    let (_, cpu_each) = each(begin, CHANGES);
    row("CPU of a look-up, us", format!("{cpu_each:.2}"));

    let begin = (Instant::now(), cpu());
    let mut latencies = change(&store, (0..CHANGES).map(|_| rng.u64(..many)));
    let (wall_each, cpu_each) = each(begin, CHANGES);
    row("CPU of a change, us", format!("{cpu_each:.2}"));
    row("changes a second", format!("{:.0}", 1e6 / wall_each));
    latencies.sort_unstable();
    for (name, part) in [("50 %", 50), ("99 %", 99)] {
        let latency = latencies[latencies.len() * part / 100 - 1].as_secs_f64() * 1e3;
        row(
            &format!("{name} of the changes answered within, ms"),
            format!("{latency:.1}"),
        );
    }
    let Address::File(path) = address else {
        return (rows, store);
    };
    drop(store);
    let began = Instant::now();
    let store = Store::open(address, &Limits::default()).unwrap();
    let opened = began.elapsed();
    assert_eq!(store.entries(b"aor:").unwrap().len() as u64, many);
    let size = fs::metadata(path).unwrap().len() / 1_000_000;
    println!("the file of {size} MB is opened in {opened:.1?}");
    (rows, store)
}

/// Wall and CPU time of each of so many, in microseconds.
fn each(begin: (Instant, f64), count: u64) -> (f64, f64) {
    let wall_us = begin.0.elapsed().as_secs_f64() * 1e6;
    (wall_us / count as f64, (cpu() - begin.1) / count as f64)
}

fn aor(number: u64) -> Aor {
    Aor::new(&format!("user{number:07}"), "example.com").unwrap()
}

/// Registers each of these anew, so many at a time; returns how long each waited.
fn change(store: &Store, numbers: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    let (sender, answers) = mpsc::channel();
    let mut latencies = Vec::new();
    let mut waiting = 0;
    let mut cseq = 0;
    for number in numbers {
        if waiting == QUEUE {
            latencies.push(answers.recv().unwrap());
            waiting -= 1;
        }
        let aor = aor(number);
        cseq += 1;
        let record = binding(number, cseq);
        let seen = found(store, aor.key());
        let next = Next {
            value: &record,
            expires: Some(Duration::from_secs(4_000_000_000)),
        };
        let (began, sender) = (Instant::now(), sender.clone());
        let put = store.put(aor.key(), seen.as_ref(), Some(next), move |put| {
            // One that was drawn twice has changed meanwhile.
            assert!(matches!(put, Ok(Put::Stored | Put::Changed(_))));
            sender.send(began.elapsed()).unwrap();
        });
        match put {
            Poll::Ready(put) => {
                assert_eq!(put, Ok(Put::Stored));
                latencies.push(began.elapsed());
            }
            Poll::Pending => waiting += 1,
        }
    }
    latencies.extend(answers.iter().take(waiting));
    latencies
}

/// What a phone behind an edge registers.
fn binding(number: u64, cseq: u32) -> Vec<u8> {
    let phone = Binding {
        contact: &format!("sip:user{number:07}@198.51.100.77:5060;transport=udp"),
        q: 1000,
        expires: Duration::from_secs(4_000_000_000),
        call_id: &format!("{number:07}-3848276298220188511@198.51.100.77"),
        cseq,
        path: &format!("<sip:{number:064}@edge.example.com;lr;ob>"),
        received: "198.51.100.77:5060".parse().unwrap(),
        updated: Duration::from_secs(3_999_996_400),
        device: number,
        reg_id: 1,
    };
    let nonce = UsedNonce {
        issued_s: 4_000_000_000,
        random: number,
        count: cseq,
    };
    let nonces = UsedNonces {
        known: vec![nonce],
        forgotten_s: 0,
    };
    let bindings = vec![phone];
    Location { bindings, nonces }.write()
}

fn found(store: &Store, key: &[u8]) -> Option<Value> {
    match store.get(key, |_| ()) {
        Poll::Ready(found) => found.unwrap(),
        Poll::Pending => panic!("all is in memory"),
    }
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

/// CPU time of all threads, in microseconds.
fn cpu() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of_task = |task: fs::DirEntry| {
        let path = task.path().join("schedstat");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.split(' ')
            .next()
            .and_then(|ns| ns.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    tasks.flatten().map(of_task).sum::<f64>() / 1e3
}
