//! The admin API: health, metrics, status, and the changes that an operator can make while calls
//! continue.

mod api;
mod bans;
mod calls;
mod configuration;
mod door;
mod guard;
mod live;
mod metrics;
mod patience;
mod places;
mod records;
mod refusal;
mod response_times;
mod users;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, Query, State},
    http::{StatusCode, header::CONTENT_TYPE},
    middleware::{from_fn_with_state, map_response},
    response::{IntoResponse, Response},
    routing::get,
};
use node::{Forecast, Member};
use serde::Deserialize;
use tokio::net::{TcpListener, UnixListener};

use crate::{
    dashboard::{files, keeper::status_of},
    explain::Explanation,
    serve::{Control, open_calls},
    view::{Done, ServerState, members, state_of},
};
use api::Who;
pub(crate) use api::page;
use door::Door;
use guard::{audit, guard, require};
use metrics::{MEDIA_TYPE, Metrics};
use patience::{PATIENCE, serve};
pub(crate) use places::Places;
use refusal::{in_json, refused};

/// Answers the API on TCP, where clients need tokens, and on the Unix socket, which only the node's
/// user can open.
pub(crate) fn spawn(control: &Arc<Control>, tcp: TcpListener, socket: UnixListener) {
    let on_tcp = |who: Who| {
        let routes = routes_of(who, control);
        match who.access() {
            Some(access) => {
                routes.route_layer(from_fn_with_state((Arc::clone(control), access), require))
            }
            None => routes,
        }
    };
    let merged = |routes: &dyn Fn(Who) -> Router<Arc<Control>>| {
        let all = Who::ALL.into_iter().map(routes);
        all.fold(dashboard(), Router::merge)
    };
    let routes = merged(&on_tcp).layer(from_fn_with_state(Arc::clone(control), guard));
    let all_routes = merged(&|who| routes_of(who, control));
    let door = Door::open(control, tcp);
    let routes = routes.with_state(Arc::clone(control));
    tokio::spawn(serve(door, routes, PATIENCE));
    let all_routes = all_routes.with_state(Arc::clone(control));
    tokio::spawn(serve(socket, all_routes, PATIENCE));
}

/// What these may ask. What changes the node is noted. Programs that watch health read plain text, others JSON.
fn routes_of(who: Who, control: &Arc<Control>) -> Router<Arc<Control>> {
    let routes = match who {
        Who::Anybody => return api::routes(who),
        Who::Readers | Who::Witnesses => api::routes(who),
        Who::Operators => {
            api::routes(who).route_layer(from_fn_with_state(Arc::clone(control), audit))
        }
    };
    routes.route_layer(map_response(in_json))
}

fn dashboard() -> Router<Arc<Control>> {
    Router::new()
        .route("/", get(files::index))
        .route("/web/{*name}", get(files::asset))
}

async fn readyz(State(control): State<Arc<Control>>) -> (StatusCode, String) {
    let (shared, now) = (control.shared(), control.now());
    let snapshot = shared.snapshot();
    let servers = members(&snapshot).filter(|member| !member.server.is_removed());
    let servers: Vec<&Arc<Member>> = servers.collect();
    let takes_calls = |member: &&Arc<Member>| member.server.eligibility(now).is_ok();
    let registers = snapshot.config().registrar.is_some();
    if shared.is_draining() {
        let calls = open_calls(shared);
        let told = format!("draining: {calls} open calls\n");
        (StatusCode::SERVICE_UNAVAILABLE, told)
    } else if !(servers.is_empty() || registers || servers.iter().any(takes_calls)) {
        let told = "no server of any pool takes calls\n".to_owned();
        (StatusCode::SERVICE_UNAVAILABLE, told)
    } else {
        (StatusCode::OK, "ready\n".to_owned())
    }
}

#[derive(Deserialize)]
struct Levels {
    levels: String,
}

/// Changes what is logged, until the node's end.
async fn set_levels(
    State(control): State<Arc<Control>>,
    Query(Levels { levels }): Query<Levels>,
) -> Response {
    match crate::serve::levels(&levels).map(|targets| control.set_levels(targets)) {
        Ok(true) => {
            let done = format!("logs {levels}");
            Json(Done { done }).into_response()
        }
        Ok(false) => {
            let message = "this node has no log".to_owned();
            refused(StatusCode::CONFLICT, vec![message])
        }
        Err(problem) => refused(StatusCode::UNPROCESSABLE_ENTITY, vec![problem]),
    }
}

/// Lets the node itself take no new calls.
async fn drain_node(State(control): State<Arc<Control>>) -> Response {
    control.shared().drain();
    let calls = open_calls(control.shared());
    let done = format!("the node takes no new calls; {calls} are open");
    Json(Done { done }).into_response()
}

/// Lets the node take calls again.
async fn undrain_node(State(control): State<Arc<Control>>) -> Response {
    control.shared().undrain();
    let done = "the node takes calls".to_owned();
    Json(Done { done }).into_response()
}

async fn show_metrics(State(control): State<Arc<Control>>) -> Response {
    match Metrics::new(control).text() {
        Ok(text) => ([(CONTENT_TYPE, MEDIA_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn show_status(State(control): State<Arc<Control>>) -> Response {
    Json(status_of(&control)).into_response()
}

async fn drain(State(control): State<Arc<Control>>, Path(address): Path<String>) -> Response {
    change(&control, &address, |member| {
        member.server.drain();
        "drains".to_owned()
    })
}

async fn undrain(State(control): State<Arc<Control>>, Path(address): Path<String>) -> Response {
    let now = control.now();
    change(&control, &address, |member| {
        member.server.undrain(now);
        match state_of(member, Duration::ZERO, now) {
            ServerState::Up | ServerState::SlowStart => "takes calls".to_owned(),
            other => format!(
                "drains no more, but gets no new calls yet: {}",
                other.label()
            ),
        }
    })
}

#[derive(Deserialize)]
struct Weight {
    value: f64,
}

async fn weight(
    State(control): State<Arc<Control>>,
    Path(address): Path<String>,
    Query(Weight { value }): Query<Weight>,
) -> Response {
    if !balance::CAPACITY.contains(&value) {
        let (low, high) = (balance::CAPACITY.start(), balance::CAPACITY.end());
        let message = format!("{value} is out of range: give a number from {low} to {high}");
        return refused(StatusCode::UNPROCESSABLE_ENTITY, vec![message]);
    }
    change(&control, &address, |member| {
        member.weigh(value);
        format!("has capacity {value} until the next reload")
    })
}

/// Changes a server in all pools that contain it. `apply` says what holds then.
fn change(control: &Control, address: &str, apply: impl Fn(&Member) -> String) -> Response {
    let snapshot = control.shared().snapshot();
    let wanted = address.parse::<SocketAddr>().ok();
    let mut changed = Vec::new();
    for member in members(&snapshot).filter(|member| !member.server.is_removed()) {
        if Some(member.address) == wanted {
            let done = apply(member);
            changed.push(format!("{address} ({}) {done}", member.pool));
        }
    }
    if changed.is_empty() {
        let message =
            format!("no pool has a server {address}; `sipyard ctl status` lists the servers");
        return refused(StatusCode::NOT_FOUND, vec![message]);
    }
    let done = changed.join("; ");
    Json(Done { done }).into_response()
}

async fn reload(State(control): State<Arc<Control>>) -> Response {
    match Control::reload(&control).await {
        Ok(done) => Json(Done { done }).into_response(),
        Err(refusal) => {
            let status = if refusal.needs_restart {
                StatusCode::CONFLICT
            } else {
                StatusCode::UNPROCESSABLE_ENTITY
            };
            refused(status, refusal.problems)
        }
    }
}

#[derive(Deserialize)]
struct Which {
    call_id: String,
}

async fn explain_call(
    State(control): State<Arc<Control>>,
    Query(Which { call_id }): Query<Which>,
) -> Response {
    let key = call_id.clone();
    let answers = control
        .ask(move |node, now| node.explain_call(now, key.as_bytes()))
        .await;
    match answers.into_iter().flatten().next() {
        Some(call) => Json(Explanation::Call(call.into())).into_response(),
        None => {
            let message = format!(
                "no worker has a call with Call-ID {call_id}: the call never reached this node, or \
                 it ended more than 64*T1 ago"
            );
            refused(StatusCode::NOT_FOUND, vec![message])
        }
    }
}

/// How a message comes; by default from where its Via says, to the first listener.
#[derive(Deserialize)]
struct Way {
    from: Option<SocketAddr>,
    listener: Option<SocketAddr>,
}

async fn explain_message(
    State(control): State<Arc<Control>>,
    Query(Way { from, listener }): Query<Way>,
    body: Bytes,
) -> Response {
    let snapshot = control.shared().snapshot();
    let mut listeners = snapshot.config().listeners.iter();
    let place = listener.map_or(Some(0), |wanted| {
        listeners.position(|known| known.address == wanted)
    });
    let Some(place) = place else {
        let message = "no listener has that address; `sipyard ctl status` lists the listeners";
        return refused(StatusCode::NOT_FOUND, vec![message.to_owned()]);
    };
    let bytes = as_sent(&body);
    let answers = control
        .ask(move |node, now| node.explain_message(now, &bytes, from, place as u8))
        .await;
    // The owner of its call knows that; what else there is to say, all workers say alike.
    let known = |forecast: &Forecast| matches!(forecast, Forecast::Session(_));
    let best = answers.iter().position(known).unwrap_or_default();
    match answers.into_iter().nth(best) {
        Some(forecast) => Json(Explanation::from(forecast)).into_response(),
        None => {
            let message = "the workers are too busy to answer; try again".to_owned();
            refused(StatusCode::SERVICE_UNAVAILABLE, vec![message])
        }
    }
}

/// A message as it was on the wire. A pasted message may lack carriage returns and the empty line
/// at its end; this adds them.
fn as_sent(pasted: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pasted.len() + 64);
    for &byte in pasted {
        if byte == b'\n' && bytes.last() != Some(&b'\r') {
            bytes.push(b'\r');
        }
        bytes.push(byte);
    }
    if !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        while bytes.ends_with(b"\r\n") {
            bytes.truncate(bytes.len() - 2);
        }
        bytes.extend_from_slice(b"\r\n\r\n");
    }
    bytes
}
