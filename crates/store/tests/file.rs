//! The store in a file, over restarts, damage and a full queue.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tests wait for the store's thread"
)]

use std::{
    fs,
    path::Path,
    sync::mpsc,
    task::Poll,
    time::{Duration, SystemTime},
};

use store::{Address, Error, Limits, Next, OpenError, Put, Store, Value};

const PATIENCE: Duration = Duration::from_secs(20);

fn open(path: &Path) -> Result<Store, OpenError> {
    Store::open(&Address::File(path.to_owned()), &Limits::default())
}

fn get(store: &Store, key: &str) -> Option<Value> {
    match store.get(key.as_bytes(), |_| ()) {
        Poll::Ready(found) => found.unwrap(),
        Poll::Pending => panic!("all is in memory"),
    }
}

fn put(store: &Store, key: &str, seen: Option<&Value>, value: Option<&str>) -> Result<Put, Error> {
    let next = value.map(|value| Next {
        value: value.as_bytes(),
        expires: None,
    });
    let (sender, receiver) = mpsc::channel();
    match store.put(key.as_bytes(), seen, next, move |put| {
        sender.send(put).unwrap();
    }) {
        Poll::Ready(put) => put,
        Poll::Pending => receiver.recv_timeout(PATIENCE).unwrap(),
    }
}

fn text(value: Option<Value>) -> Option<String> {
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(put(&store, name, None, Some(name)), Ok(Put::Stored));
    }
    let seen = get(&store, "b");
    assert_eq!(put(&store, "b", seen.as_ref(), None), Ok(Put::Stored));
    let seen = get(&store, "c");
    assert_eq!(put(&store, "c", seen.as_ref(), Some("C")), Ok(Put::Stored));
    drop(store);
    let store = open(&path).unwrap();
    let all = store.entries(b"").unwrap();
    let all: Vec<(&[u8], &[u8])> = all.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(all, [(&b"a"[..], &b"a"[..]), (b"c", b"C")]);
}

#[test]
fn a_change_upon_an_older_value_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("store")).unwrap();
    assert_eq!(put(&store, "a", None, Some("1")), Ok(Put::Stored));
    let one = get(&store, "a");
    assert_eq!(
        put(&store, "a", None, Some("2")),
        Ok(Put::Changed(one.clone()))
    );
    assert_eq!(put(&store, "a", one.as_ref(), Some("2")), Ok(Put::Stored));
    let two = get(&store, "a");
    assert_eq!(
        put(&store, "a", one.as_ref(), Some("3")),
        Ok(Put::Changed(two))
    );
    assert_eq!(text(get(&store, "a")).as_deref(), Some("2"));
}

#[test]
fn ended_values_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    for (key, expires) in [("ended", wall), ("lives", wall + PATIENCE)] {
        let (sender, receiver) = mpsc::channel();
        let next = Next {
            value: b"x",
            expires: Some(expires),
        };
        let done = move |put| sender.send(put).unwrap();
        assert_eq!(
            store.put(key.as_bytes(), None, Some(next), done),
            Poll::Pending
        );
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(Put::Stored)));
    }
    for store in [store, open(&folder.path().join("other")).unwrap()] {
        assert_eq!(get(&store, "ended"), None);
    }
    let store = open(&path).unwrap();
    assert_eq!(get(&store, "ended"), None);
    assert_eq!(text(get(&store, "lives")).as_deref(), Some("x"));
}

#[test]
fn a_file_has_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(OpenError::InUse(_))));
}

/// On a busy machine the thread's first batch grew while the test submitted, so fewer changes were refused than it asked for.
#[test]
fn a_full_queue_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        queue: 10,
        ..Limits::default()
    };
    let address = Address::File(folder.path().join("store"));
    let store = Store::open(&address, &limits).unwrap();
    let submit = |number: u32, done: Box<dyn FnOnce(Result<Put, Error>) + Send>| {
        let next = Next {
            value: b"x",
            expires: None,
        };
        store.put(&number.to_be_bytes(), None, Some(next), done)
    };
    // The first answer holds the store's thread.
    let (release, held) = mpsc::channel::<()>();
    let (holds, is_held) = mpsc::channel();
    let first = submit(
        0,
        Box::new(move |_| {
            holds.send(()).unwrap();
            held.recv_timeout(PATIENCE).unwrap();
        }),
    );
    assert_eq!(first, Poll::Pending);
    is_held.recv_timeout(PATIENCE).unwrap();
    let (sender, receiver) = mpsc::channel();
    for number in 1..100 {
        let sender = sender.clone();
        let answer = submit(number, Box::new(move |put| sender.send(put).unwrap()));
        let expected = match number {
            ..=10 => Poll::Pending,
            _ => Poll::Ready(Err(Error::Busy)),
        };
        assert_eq!(answer, expected, "{number}");
    }
    release.send(()).unwrap();
    for _ in 0..10 {
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(Put::Stored)));
    }
}

#[test]
fn a_full_store_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        memory_bytes: 100_000,
        ..Limits::default()
    };
    let address = Address::File(folder.path().join("store"));
    let store = Store::open(&address, &limits).unwrap();
    let puts: Vec<_> = (0..2000)
        .map(|name| put(&store, &name.to_string(), None, Some("x")))
        .collect();
    assert!(puts.contains(&Err(Error::Full)));
    let stored = puts.iter().filter(|put| **put == Ok(Put::Stored)).count();
    assert_eq!(store.entries(b"").unwrap().len(), stored);
}

/// Ten batches of one entry each, and where the file ended after each.
fn ten(path: &Path) -> Vec<usize> {
    let store = open(path).unwrap();
    let ends = (0..10).map(|name| {
        let name = name.to_string();
        assert_eq!(put(&store, &name, None, Some(&name)), Ok(Put::Stored));
        fs::metadata(path).unwrap().len() as usize
    });
    ends.collect()
}

#[test]
fn a_write_cut_short_costs_only_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let ends = ten(&path);
    let whole = fs::read(&path).unwrap();
    for len in ends[7]..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        let kept = ends.iter().filter(|end| **end <= len).count();
        let store = open(&path).unwrap();
        assert_eq!(store.entries(b"").unwrap().len(), kept, "{len} bytes");
        assert_eq!(put(&store, "next", None, Some("x")), Ok(Put::Stored));
        drop(store);
        let store = open(&path).unwrap();
        assert_eq!(store.entries(b"").unwrap().len(), kept + 1, "{len} bytes");
    }
}

#[test]
fn damage_is_told_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let ends = ten(&path);
    let whole = fs::read(&path).unwrap();
    // The last frame's damage can't be told from a write cut short.
    for at in 0..ends[8] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, bytes).unwrap();
        let error = open(&path).err().unwrap_or_else(|| panic!("byte {at}"));
        let told = match error {
            OpenError::Foreign(_) => at < 16,
            OpenError::Damaged { from, to, .. } => (from..to).contains(&(at as u64)),
            _ => false,
        };
        assert!(told, "byte {at}: {error}");
    }
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for text in ["", "SIPYARD", "[node]\nname = \"a file of another kind\"\n"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(open(&path), Err(OpenError::Foreign(_))), "{text}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn an_outdated_file_is_written_anew() {
    const VALUE: usize = 64 * 1024;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = open(&path).unwrap();
    let size = || fs::metadata(&path).unwrap().len();
    assert_eq!(put(&store, "kept", None, Some("kept")), Ok(Put::Stored));
    let (mut largest, mut rewritten) = (0, false);
    for round in 0..1_000 {
        let value = round.to_string().repeat(VALUE / 3);
        let seen = get(&store, "changed");
        assert_eq!(
            put(&store, "changed", seen.as_ref(), Some(&value)),
            Ok(Put::Stored)
        );
        let size = size();
        rewritten |= size < largest;
        largest = largest.max(size);
    }
    assert!(rewritten, "{largest} bytes");
    assert!(largest < 40 << 20, "{largest} bytes");
    drop(store);
    let store = open(&path).unwrap();
    assert_eq!(text(get(&store, "kept")).as_deref(), Some("kept"));
    let changed = text(get(&store, "changed")).unwrap();
    assert!(changed.starts_with("999"));
    assert!(!folder.path().join("store.new").exists());
}
