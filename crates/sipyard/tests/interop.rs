//! Overload control with sipx, which has RFC 7339 and RFC 7415 of its own.

#![allow(
    clippy::disallowed_methods,
    reason = "tests of processes wait for them on the real clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use common::{Edge, PATIENCE, Settings};
use rustix::process::{Pid, Signal, kill_process};
use sipx_sip::{
    HeaderName, Host, HostName, Method, Request, RequestBuilder, Response, ResponseBuilder,
    StatusCode, Uri,
};
use sipx_transport::{Config, Handle, OverloadFeedback, Target, bind};
use tokio::{task::JoinSet, time};

/// The time between two calls.
const PACE: Duration = Duration::from_millis(2);

/// How long a node that hardly runs may take.
const LIMIT: Duration = Duration::from_secs(30);

/// A call's INVITE. Whom it asks for is busy, so that nothing follows it.
fn invite(number: usize) -> Request {
    let uri = Uri::sip(Host::Name(HostName::new("example.com").unwrap()));
    RequestBuilder::new(Method::Invite, uri)
        .header(HeaderName::To, "<sip:bob@example.com>")
        .and_then(|it| it.header(HeaderName::From, "<sip:alice@example.com>;tag=1"))
        .and_then(|it| it.header(HeaderName::CallId, format!("call-{number}")))
        .and_then(|it| it.header(HeaderName::Contact, "<sip:alice@127.0.0.1>"))
        .and_then(|it| it.cseq(1, &Method::Invite))
        .unwrap()
        .max_forwards(70)
        .build()
}

fn busy(request: &Request) -> Response {
    let status = StatusCode::new(486).unwrap();
    let response = ResponseBuilder::to_request(request, status, "Busy Here");
    response.unwrap().build()
}

/// A server whose application takes a request in so long each. What waits beyond its limit sipx refuses.
struct Server {
    handle: Handle,
    /// How many INVITEs the application took.
    taken: Arc<AtomicUsize>,
}

impl Server {
    async fn start(config: Config, each: Duration) -> Self {
        let (handle, mut requests) = bind(config).await.unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let (replies, count) = (handle.clone(), Arc::clone(&taken));
        tokio::spawn(async move {
            while let Some(incoming) = requests.recv().await {
                if incoming.request.method != Method::Invite {
                    continue;
                }
                count.fetch_add(1, Relaxed);
                replies
                    .respond(&incoming.key, busy(&incoming.request))
                    .await
                    .unwrap();
                if !each.is_zero() {
                    time::sleep(each).await;
                }
            }
        });
        Self { handle, taken }
    }

    /// A node before it.
    fn edge(&self, pool: &str) -> Edge {
        let settings = Settings::new();
        settings.write(
            &format!(
                "servers = [ \"{}\" ]\nprobe = false\nlearn_room = false\n{pool}",
                self.handle.local_addr()
            ),
            "trust = { peers = [\"127.0.0.1\"] }",
        );
        settings.start()
    }

    /// How many INVITEs came to it, those it refused included.
    fn heard(&self) -> u64 {
        self.taken.load(Relaxed) as u64 + self.handle.counters().shed.requests
    }
}

fn here() -> Config {
    Config::new("127.0.0.1:0".parse().unwrap())
}

/// Callers who keep to what they are told.
struct Callers {
    client: Handle,
    to: Target,
    number: usize,
    /// What became of the calls that were sent.
    open: JoinSet<Option<u16>>,
}

impl Callers {
    async fn before(node: SocketAddr, obey: bool) -> Self {
        let mut config = here();
        config.overload.advertise = obey;
        let (client, _) = bind(config).await.unwrap();
        Self {
            client,
            to: Target::udp(node),
            number: 0,
            open: JoinSet::new(),
        }
    }

    /// How many calls they did not make, as they were told to.
    fn withheld(&self) -> u64 {
        self.client.counters().overload_rejections
    }

    /// One call. Returns whether it was made.
    async fn call(&mut self) -> bool {
        self.number += 1;
        let sent = self.client.send(invite(self.number), self.to.clone()).await;
        let is_made = sent.is_ok();
        if let Ok(mut responses) = sent {
            self.open.spawn(async move {
                let response = responses.final_response().await?;
                Some(response.status.code())
            });
        }
        time::sleep(PACE).await;
        is_made
    }

    /// Calls until it holds.
    async fn call_until(&mut self, what: &str, mut holds: impl FnMut(&Self, bool) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            let is_made = self.call().await;
            if holds(self, is_made) {
                return;
            }
            assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        }
    }

    /// Calls for so long.
    async fn call_for(&mut self, span: Duration) {
        let end = Instant::now() + span;
        self.call_until("the span's end", |_, _| Instant::now() >= end)
            .await;
    }

    /// What became of all calls that were made.
    async fn outcomes(&mut self) -> Vec<Option<u16>> {
        let mut outcomes = Vec::new();
        while let Some(outcome) = self.open.join_next().await {
            outcomes.push(outcome.unwrap());
        }
        outcomes
    }
}

/// A node that gets a hundredth of its processor's time while this lives.
struct Held {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Held {
    fn new(edge: &Edge) -> Self {
        let process = Pid::from_raw(edge.pid().try_into().unwrap()).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !seen.load(Relaxed) {
                for (signal, span) in [(Signal::STOP, 199_000), (Signal::CONT, 1_000)] {
                    kill_process(process, signal).unwrap();
                    thread::sleep(Duration::from_micros(span));
                }
            }
        });
        Self {
            is_over,
            thread: Some(thread),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let thread = self.thread.take();
        thread.map(JoinHandle::join);
    }
}

#[tokio::test]
async fn a_client_sends_what_a_late_node_tells_it() {
    let server = Server::start(here(), Duration::ZERO).await;
    let edge = server.edge("");
    let mut callers = Callers::before(edge.sip(), true).await;

    callers
        .call_until("200 calls", |it, _| it.number == 200)
        .await;
    assert_eq!(callers.withheld(), 0);
    assert_eq!(callers.outcomes().await, vec![Some(486); 200]);

    let held = Held::new(&edge);
    callers
        .call_until("calls are withheld", |it, _| it.withheld() > 50)
        .await;
    drop(held);
    let mut in_a_row = 0;
    let is_well = |_: &Callers, is_made| {
        in_a_row = if is_made { in_a_row + 1 } else { 0 };
        in_a_row == 200
    };
    callers
        .call_until("the node wants all again", is_well)
        .await;
    let outcomes = callers.outcomes().await;
    let is_answered = |outcome: &Option<u16>| matches!(outcome, Some(486 | 503));
    assert!(outcomes.iter().all(is_answered), "{outcomes:?}");
}

/// What share of the calls a server hears of that has told this, and how many each second.
///
/// It is measured once a second of calls has passed: when the server first refuses, calls of before
/// are still on their way to it, and more of them the slower the machine is.
async fn heard_of(feedback: OverloadFeedback) -> (f64, f64) {
    let mut config = here();
    config.capacity = 4;
    config.overload.feedback = feedback;
    config.overload.validity = PATIENCE;
    let server = Server::start(config, Duration::from_millis(10)).await;
    let edge = server.edge("overload_control = true");
    let mut callers = Callers::before(edge.sip(), false).await;
    let is_told = |_: &Callers, _| server.handle.counters().shed.requests > 0;
    callers.call_until("the server refuses", is_told).await;
    callers.call_for(Duration::from_secs(1)).await;

    let (start, before, number) = (Instant::now(), server.heard(), callers.number);
    callers.call_for(Duration::from_secs(2)).await;
    let heard = (server.heard() - before) as f64;
    let made = (callers.number - number) as f64;
    (heard / made, heard / start.elapsed().as_secs_f64())
}

#[tokio::test]
async fn a_node_sends_what_a_server_tells_it() {
    let (share, _) = heard_of(OverloadFeedback::Loss(70)).await;
    assert!((share - 0.3).abs() < 0.1, "{share}");
    let (_, rate) = heard_of(OverloadFeedback::Rate(50)).await;
    assert!((rate - 50.0).abs() < 8.0, "{rate} a second");
}
