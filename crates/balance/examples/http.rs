//! Least work left without SIP and without sessions: HTTP requests, each placed for itself.
//!
//! Four HTTP servers on loopback, a front end that forwards each request to one of them, and a
//! client that sends requests at random moments whether or not earlier ones were answered. Each
//! server works on one request at a time; one is half as fast as the others, and each stops
//! everything now and then, as collectors of garbage do. The front end learns nothing from the
//! servers but when a response comes, which is all that `tjsq` needs; `tlwl` also looks at the
//! path, as pages made by a program cost more than files.
//!
//! `cargo run --release -p balance --example http [SECONDS]`, by default 10 in all.
#![allow(clippy::print_stdout, reason = "its table is what the example is for")]

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use balance::{Arrival, Cost, Policy, Pool, Server, ServerId};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// What is compared, by the name shown. Hashing a number that is new each time is a random choice.
const POLICIES: [(&str, Policy); 4] = [
    ("tlwl", Policy::Tlwl),
    ("tjsq", Policy::Tjsq),
    ("round-robin", Policy::RoundRobin),
    ("random", Policy::FnvHash),
];

/// How much slower than the fastest each server is.
const SLOWNESS: [u32; 4] = [1, 1, 1, 2];
const FILE: Duration = Duration::from_millis(4);
/// What a page made by a program costs, in files.
const PROGRAM_COST: u32 = 3;
const PROGRAM_SHARE: f64 = 0.3;
/// Every server stops for this long after so many requests.
const STALL: Duration = Duration::from_millis(150);
const REQUESTS_BETWEEN_STALLS: u32 = 100;
const REQUESTS_PER_SECOND: f64 = 240.0;

type Failure = Box<dyn Error + Send + Sync>;
type HttpClient = Client<HttpConnector, Body>;

fn main() -> Result<(), Failure> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(10.0), |arg| arg.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    println!("{REQUESTS_PER_SECOND} requests/s to four servers, the last at half speed");
    println!(
        "{:<12} {:>8} {:>9} {:>9}   placed",
        "policy", "requests", "mean", "p99"
    );
    for (name, policy) in POLICIES {
        let duration = Duration::from_secs_f64(seconds / POLICIES.len() as f64);
        let run = runtime.block_on(measure(policy, duration))?;
        println!(
            "{name:<12} {:>8} {:>6.1} ms {:>6.1} ms   {:?}",
            run.latencies.len(),
            run.mean().as_secs_f64() * 1e3,
            run.quantile(0.99).as_secs_f64() * 1e3,
            run.placed,
        );
    }
    Ok(())
}

/// What one policy achieved.
struct Run {
    /// Ascending.
    latencies: Vec<Duration>,
    /// Requests placed on each server.
    placed: Vec<u64>,
}

impl Run {
    fn mean(&self) -> Duration {
        let requests = self.latencies.len().max(1) as u32;
        self.latencies.iter().sum::<Duration>() / requests
    }

    fn quantile(&self, quantile: f64) -> Duration {
        let rank = (self.latencies.len() as f64 * quantile) as usize;
        self.latencies.get(rank).copied().unwrap_or_default()
    }
}

/// Starts servers and front end, and sends requests for `duration`. Every policy meets the same
/// requests at the same moments.
async fn measure(policy: Policy, duration: Duration) -> Result<Run, Failure> {
    let mut tasks = JoinSet::new();
    let mut servers = Vec::new();
    for (i, slowness) in (0..).zip(SLOWNESS) {
        let backend = Arc::new(Backend::new(slowness));
        let router = Router::new().fallback(work).with_state(backend);
        let address = serve(&mut tasks, router).await?;
        servers.push(Arc::new(Server::new(
            ServerId(i),
            &address.to_string(),
            1.0,
        )));
    }
    let front = Arc::new(FrontEnd {
        pool: Pool::new(policy, servers, Duration::ZERO),
        rng: Mutex::new(fastrand::Rng::with_seed(1)),
        client: client(),
    });
    let router = Router::new()
        .fallback(forward)
        .with_state(Arc::clone(&front));
    let address = serve(&mut tasks, router).await?;
    let mut latencies = send_requests(address, duration).await?;
    latencies.sort();
    let servers = front.pool.servers();
    debug_assert!(servers.iter().all(|server| server.work() == 0.0));
    Ok(Run {
        latencies,
        placed: servers.iter().map(|server| server.placed()).collect(),
    })
}

/// Serves on a free port for as long as `tasks` lives.
async fn serve(tasks: &mut JoinSet<()>, router: Router) -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tasks.spawn(async move {
        // It runs until the task is dropped and has no error to tell of.
        let _ = axum::serve(listener, router).await;
    });
    Ok(address)
}

fn client() -> HttpClient {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Poisson arrivals; a request's latency counts from the moment it was to be sent.
async fn send_requests(front: SocketAddr, duration: Duration) -> Result<Vec<Duration>, Failure> {
    let client = client();
    let mut rng = fastrand::Rng::with_seed(2);
    let mut requests = JoinSet::new();
    let (start, mut after) = (Instant::now(), 0.0);
    while after < duration.as_secs_f64() {
        let due = start + Duration::from_secs_f64(after);
        sleep_until(due).await;
        let kind = if rng.f64() < PROGRAM_SHARE {
            "program"
        } else {
            "file"
        };
        let uri: Uri = format!("http://{front}/{kind}/{}", rng.u32(..)).parse()?;
        let response = client.get(uri);
        requests.spawn(async move {
            let status = response.await.map(|response| response.status());
            (status, due.elapsed())
        });
        after -= (1.0 - rng.f64()).ln() / REQUESTS_PER_SECOND;
    }
    let mut latencies = Vec::new();
    while let Some(request) = requests.join_next().await {
        let (status, latency) = request?;
        match status? {
            StatusCode::OK => latencies.push(latency),
            other => return Err(format!("the front end answered {other}").into()),
        }
    }
    Ok(latencies)
}

/// A server that works on one request at a time, first come, first served.
struct Backend {
    slowness: u32,
    served: tokio::sync::Mutex<u32>,
}

impl Backend {
    fn new(slowness: u32) -> Self {
        Self {
            slowness,
            served: tokio::sync::Mutex::new(0),
        }
    }
}

async fn work(State(backend): State<Arc<Backend>>, uri: Uri) -> &'static str {
    let mut served = backend.served.lock().await;
    *served += 1;
    if served.is_multiple_of(REQUESTS_BETWEEN_STALLS) {
        sleep(STALL).await;
    }
    let files = if is_program(&uri) { PROGRAM_COST } else { 1 };
    sleep(FILE * files * backend.slowness).await;
    "done\n"
}

fn is_program(uri: &Uri) -> bool {
    uri.path().starts_with("/program/")
}

/// The balancer: all that is of this crate in the example is here and below.
struct FrontEnd {
    pool: Pool,
    rng: Mutex<fastrand::Rng>,
    client: HttpClient,
}

async fn forward(State(front): State<Arc<FrontEnd>>, mut request: Request<Body>) -> Response {
    let Some(placed) = front.place(request.uri()) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let uri = format!("http://{}{}", placed.server.name(), request.uri().path());
    let Ok(uri) = uri.parse() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = uri;
    match front.client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

impl FrontEnd {
    /// Without sessions each request is placed for itself, so no call is opened.
    fn place(&self, uri: &Uri) -> Option<Placed<'_>> {
        let cost = if is_program(uri) {
            f64::from(PROGRAM_COST)
        } else {
            1.0
        };
        let cost = Cost::new(cost)?;
        let arrival = Arrival {
            key: uri.path().as_bytes(),
            cost,
            call: false,
            avoid: &[],
        };
        let mut rng = self.rng.lock().ok()?;
        let server = self.pool.place(Duration::ZERO, &arrival, &mut rng)?;
        Some(Placed { server, cost })
    }
}

/// An open transaction, closed when it is dropped: at the response, an error, or when the client
/// goes away.
struct Placed<'a> {
    server: &'a Server,
    cost: Cost,
}

impl Drop for Placed<'_> {
    fn drop(&mut self) {
        self.server.close_transaction(self.cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_placed_and_every_one_is_answered() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for (name, policy) in POLICIES {
            let duration = Duration::from_millis(200);
            let run = runtime.block_on(measure(policy, duration)).unwrap();
            let placed: u64 = run.placed.iter().sum();
            assert_eq!(placed, run.latencies.len() as u64, "{name}");
            assert!(placed > 10, "{name}");
            assert!(run.mean() >= FILE, "{name}");
        }
    }
}
