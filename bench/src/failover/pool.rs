//! Nodes announce themselves and leave with their lease: the paper's reliable server pooling (paper 001 §3.5).

use std::{
    io,
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use super::{
    nodes::{Death, Node, status, until},
    redis::{self, users_through},
    run::{PATIENCE, Run},
};

/// How long calls run with the node that came.
const WITH_THIRD: Duration = Duration::from_secs(5);

pub(super) fn killed(round: u64) -> io::Result<Run> {
    run(round, Death::Killed)
}

pub(super) fn silent(round: u64) -> io::Result<Run> {
    run(round, Death::Silent)
}

fn run(round: u64, death: Death) -> io::Result<Run> {
    let redis = redis::start(&[])?;
    let store = redis.url();
    let registrar = format!(
        "[registrar]\nauth = false\ndomains = [\"example.com\", \"example.net\"]\nstore = \"{store}\"\n\
         [cluster]\nstore = \"{store}\"\nannounce = \"core\"\n[[route]]\nto = \"registrar\"\n"
    );
    let first = Node::start(&registrar)?;
    let _second = Node::start(&registrar)?;
    let edge = Node::start(&format!(
        "[pool.core]\npolicy = \"user-hash\"\nservers = \"pool:core\"\n[cluster]\nstore = \"{store}\"\n\
         [[route]]\nto = \"core\"\n"
    ))?;
    until("both registrars are found", || {
        Ok(edge.status()?.contains("core has 2 servers of pool:core"))
    })?;
    let admin = edge.admin();
    let mut _third = None;
    users_through(
        round,
        &edge,
        &store,
        || {
            death.strike(first.process.id());
            Ok(watch(admin, "core has 1 server of pool:core"))
        },
        |traffic, leaving| {
            _third = Some(Node::start(&registrar)?);
            let coming = watch(admin, "core has 2 servers of pool:core");
            traffic.run(WITH_THIRD)?;
            let (left, came) = (told(leaving)?, told(coming)?);
            Ok(format!(
                "the dead node was off the edge's list after {left:.1} s, a third one on it after {came:.1} s"
            ))
        },
    )
}

type Watch = thread::JoinHandle<io::Result<Duration>>;

/// How long it takes until a node's status has these words.
fn watch(admin: SocketAddr, words: &'static str) -> Watch {
    let began = Instant::now();
    thread::spawn(move || {
        while !status(admin)?.contains(words) {
            if began.elapsed() > PATIENCE {
                return Err(io::Error::other("the edge's list never changed"));
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(began.elapsed())
    })
}

/// What was watched, in seconds.
fn told(watch: Watch) -> io::Result<f64> {
    let ended = watch.join();
    let took = ended.map_err(|_| io::Error::other("the watch ended in a panic"))??;
    Ok(took.as_secs_f64())
}
