//! The store in Redis: real servers, single, behind sentinels and as a cluster; two nodes of ours.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests wait for other processes"
)]

mod servers;

use std::{
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::{Duration, Instant, SystemTime},
};

use servers::{cluster, sentinel, start};
use store::{Error, Known, Limits, Next, Put, Store, Value};
use testbed::Redis;

const PATIENCE: Duration = Duration::from_secs(20);
const WAIT_MAX: Duration = Duration::from_secs(1);

fn open(address: &str) -> Store {
    let limits = Limits {
        wait_max: WAIT_MAX,
        ..Limits::default()
    };
    Store::open(&address.parse().unwrap(), &limits).unwrap()
}

fn get(store: &Store, key: &str) -> Result<Option<Value>, Error> {
    let (sender, receiver) = mpsc::channel();
    match store.get(key.as_bytes(), move |got| sender.send(got).unwrap()) {
        Poll::Ready(got) => got,
        Poll::Pending => receiver.recv_timeout(PATIENCE).unwrap(),
    }
}

fn put(store: &Store, key: &str, seen: Option<&Value>, value: Option<&str>) -> Result<Put, Error> {
    put_until(store, key, seen, value, None)
}

fn put_until(
    store: &Store,
    key: &str,
    seen: Option<&Value>,
    value: Option<&str>,
    expires: Option<Duration>,
) -> Result<Put, Error> {
    let next = value.map(|value| Next {
        value: value.as_bytes(),
        expires,
    });
    let (sender, receiver) = mpsc::channel();
    match store.put(key.as_bytes(), seen, next, move |put| {
        sender.send(put).unwrap()
    }) {
        Poll::Ready(put) => put,
        Poll::Pending => receiver.recv_timeout(PATIENCE).unwrap(),
    }
}

fn text(value: Result<Option<Value>, Error>) -> Option<String> {
    value
        .unwrap()
        .map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Asks again until the answer is as it must become.
#[track_caller]
fn until(what: &str, is_so: impl FnMut() -> bool) {
    testbed::within(PATIENCE, what, is_so);
}

/// Whether a key is answered from memory.
fn is_cached(store: &Store, key: &str) -> bool {
    store.get(key.as_bytes(), |_| ()).is_ready()
}

/// Two nodes: each sees what the other does, and neither undoes it.
fn two_nodes(address: &str, keys: &[&str]) {
    let (one, other) = (open(address), open(address));
    for key in keys {
        assert_eq!(put(&one, key, None, Some("1")), Ok(Put::Stored), "{key}");
        assert_eq!(text(get(&other, key)).as_deref(), Some("1"));
        until("both keep it", || {
            is_cached(&one, key) && is_cached(&other, key) || {
                get(&one, key).unwrap();
                get(&other, key).unwrap();
                false
            }
        });
        let seen = get(&one, key).unwrap();
        assert_eq!(put(&other, key, seen.as_ref(), Some("2")), Ok(Put::Stored));
        until("the news come", || {
            text(get(&one, key)).as_deref() == Some("2")
        });
        let two = get(&other, key).unwrap();
        assert_eq!(
            put(&one, key, seen.as_ref(), Some("3")),
            Ok(Put::Changed(two.clone()))
        );
        assert_eq!(put(&one, key, two.as_ref(), None), Ok(Put::Stored));
        until("the news come", || get(&other, key) == Ok(None));
        assert_eq!(put(&other, key, None, Some("4")), Ok(Put::Stored));
    }
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    let listed = one.entries(b"k").unwrap();
    let listed: Vec<&str> = listed
        .iter()
        .map(|(key, _)| std::str::from_utf8(key).unwrap())
        .collect();
    assert_eq!(listed, sorted);
}

#[test]
fn two_nodes_share_a_server() {
    let server = start(&[]);
    two_nodes(&server.url(), &["k1", "k*[?]\\"]);
}

#[test]
fn two_nodes_share_a_cluster() {
    let servers = cluster();
    let hosts: Vec<String> = servers
        .iter()
        .map(|server| server.address.to_string())
        .collect();
    // Keys of all three servers.
    two_nodes(
        &format!("redis://{}", hosts.join(",")),
        &["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"],
    );
}

#[test]
fn updates_at_once_are_all_kept() {
    let server = start(&[]);
    let address = server.url();
    thread::scope(|scope| {
        for node in 0..4 {
            let store = open(&address);
            scope.spawn(move || {
                for round in 0..50 {
                    loop {
                        let seen = get(&store, "all").unwrap();
                        let mut value = text(Ok(seen.clone())).unwrap_or_default();
                        value.push_str(&format!("{node}/{round} "));
                        if put(&store, "all", seen.as_ref(), Some(&value)) == Ok(Put::Stored) {
                            break;
                        }
                    }
                }
            });
        }
    });
    let all = text(get(&open(&address), "all")).unwrap();
    let mut updates: Vec<&str> = all.split_whitespace().collect();
    updates.sort_unstable();
    updates.dedup();
    assert_eq!(updates.len(), 4 * 50);
}

#[test]
fn values_end_on_the_server() {
    let server = start(&[]);
    let store = open(&server.url());
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let soon = Some(wall + Duration::from_millis(300));
    assert_eq!(
        put_until(&store, "ends", None, Some("x"), soon),
        Ok(Put::Stored)
    );
    assert_eq!(text(get(&store, "ends")).as_deref(), Some("x"));
    until("it ends here", || get(&store, "ends") == Ok(None));
    until("it ends there", || {
        server.ask("EXISTS sipyard:ends") == ":0"
    });
}

#[test]
fn a_server_that_is_down_is_told_at_once_and_found_again() {
    let server = start(&[]);
    let address = server.address;
    let store = open(&server.url());
    assert_eq!(put(&store, "a", None, Some("1")), Ok(Put::Stored));
    drop(server);
    until("it is noticed", || {
        matches!(get(&store, "b"), Err(Error::Unavailable(_)))
    });
    until("nothing is believed", || get(&store, "a").is_err());
    assert!(matches!(store.last_known(b"a"), Known::Value(value) if *value == *b"1"));
    assert_eq!(store.last_known(b"b"), Known::Unknown);
    let began = Instant::now();
    for _ in 0..100 {
        assert!(matches!(get(&store, "a"), Err(Error::Unavailable(_))));
    }
    assert!(began.elapsed() < 10 * WAIT_MAX, "{:?}", began.elapsed());
    let _server = Redis::start_at(address, &[]).unwrap();
    until("it is found again", || {
        put(&store, "b", None, Some("1")) == Ok(Put::Stored)
    });
}

/// A server that was replaced for an upgrade cost the requests of a third of a second, as each was refused at
/// once until the next attempt to connect.
#[test]
fn a_server_that_is_replaced_costs_nothing() {
    let mut server = start(&[]);
    let limits = Limits {
        wait_max: PATIENCE,
        ..Limits::default()
    };
    let store = Store::open(&server.url().parse().unwrap(), &limits).unwrap();
    assert_eq!(put(&store, "0", None, Some("1")), Ok(Put::Stored));
    let (asked, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let ask = |number: usize| {
        let (this, next) = (number.to_string(), (number + 1).to_string());
        assert_eq!(put(&store, &next, None, Some("1")), Ok(Put::Stored));
        // What is known is not waited for.
        let known =
            get(&store, &this).is_ok() || store.last_known(this.as_bytes()) != Known::Unknown;
        assert!(known, "{this}");
        assert_eq!(get(&store, &format!("not {this}")), Ok(None));
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                ask(asked.fetch_add(1, Ordering::Relaxed));
            }
        });
        for _ in 0..3 {
            server.replace().unwrap();
            let before = asked.load(Ordering::Relaxed);
            until("more was asked", || {
                asked.load(Ordering::Relaxed) > before + 10
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_server_that_hangs_costs_a_bounded_wait() {
    let server = start(&[]);
    let store = open(&server.url());
    assert_eq!(put(&store, "a", None, Some("1")), Ok(Put::Stored));
    server.signal("STOP").unwrap();
    let began = Instant::now();
    assert!(matches!(get(&store, "b"), Err(Error::Unavailable(_))));
    assert!(matches!(
        put(&store, "c", None, Some("1")),
        Err(Error::Unavailable(_))
    ));
    assert!(began.elapsed() < 8 * WAIT_MAX, "{:?}", began.elapsed());
    until("nothing is believed", || get(&store, "a").is_err());
    server.signal("CONT").unwrap();
    until("it is heard again", || get(&store, "a").is_ok());
}

#[test]
fn a_full_queue_is_told() {
    let server = start(&[]);
    let limits = Limits {
        queue: 10,
        ..Limits::default()
    };
    let address = server.url().parse();
    let store = Store::open(&address.unwrap(), &limits).unwrap();
    get(&store, "connected").unwrap();
    server.signal("STOP").unwrap();
    let (sender, receiver) = mpsc::channel();
    let asked = (0..100).map(|key: u32| {
        let sender = sender.clone();
        store.get(&key.to_be_bytes(), move |got| sender.send(got).unwrap())
    });
    let busy = asked.filter(|asked| *asked == Poll::Ready(Err(Error::Busy)));
    assert_eq!(busy.count(), 90);
    for _ in 0..10 {
        let got = receiver.recv_timeout(PATIENCE).unwrap();
        assert!(matches!(got, Err(Error::Unavailable(_))));
    }
    server.signal("CONT").unwrap();
}

#[test]
fn a_replica_takes_over() {
    let (mut servers, sentinel) = sentinel();
    let store = open(&sentinel.url());
    assert_eq!(put(&store, "a", None, Some("1")), Ok(Put::Stored));
    until("the replica has it", || {
        servers[1].ask("EXISTS sipyard:a") == ":1"
    });
    drop(servers.remove(0));
    until("the replica is asked", || {
        put(&store, "b", None, Some("1")) == Ok(Put::Stored)
    });
    assert_eq!(text(get(&store, "a")).as_deref(), Some("1"));
}

#[test]
fn a_password_is_needed() {
    let server = start(&["--requirepass", "p@ss"]);
    let port = server.address.port();
    let store = open(&format!("redis://:p@ss@127.0.0.1:{port}"));
    assert_eq!(put(&store, "a", None, Some("1")), Ok(Put::Stored));
    let store = open(&format!("redis://:wrong@127.0.0.1:{port}"));
    let Err(Error::Unavailable(why)) = get(&store, "a") else {
        panic!("it was let in");
    };
    assert!(
        why.contains(&port.to_string()) && !why.contains("wrong"),
        "{why}"
    );
}

#[test]
fn foreign_values_are_told() {
    let server = start(&[]);
    assert_eq!(server.ask("SET sipyard:a foreign"), "+OK");
    let store = open(&server.url());
    assert!(matches!(get(&store, "a"), Err(Error::Unavailable(_))));
}
