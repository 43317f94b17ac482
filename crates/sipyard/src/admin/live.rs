//! The state as it changes, and the history, for the dashboard.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Query, State},
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{KeepAlive, Sse},
    },
};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::refusal::refused;
use crate::{dashboard::live::watch_live, serve::Control};

/// How often a silent stream tells that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Server-sent events: `state` has the whole, `patch` what has changed (RFC 7396), `log` lines of the log.
pub(super) async fn stream(State(control): State<Arc<Control>>) -> Response {
    match watch_live(control.live(), control.log()) {
        Some(events) => {
            let (calls, snapshot) = (Arc::clone(control.calls()), control.shared().snapshot());
            // Who looks at the node may search for a call next.
            spawn_blocking(move || calls.prepare(&snapshot));
            let alive = KeepAlive::new().interval(KEEP_ALIVE);
            Sse::new(events).keep_alive(alive).into_response()
        }
        None => {
            let message = "too many look at the node already: close a window".to_owned();
            refused(StatusCode::SERVICE_UNAVAILABLE, vec![message])
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Length {
    Hour,
    Day,
}

/// Which history: of the node, or of a server its last hour.
#[derive(Deserialize)]
pub(super) struct Which {
    span: Option<Length>,
    pool: Option<String>,
    server: Option<SocketAddr>,
}

/// The history of the node or of a server.
pub(super) async fn history(
    State(control): State<Arc<Control>>,
    Query(Which { span, pool, server }): Query<Which>,
) -> Response {
    let history = control.history();
    match (server, span) {
        (Some(server), _) => {
            Json(history.server(&pool.unwrap_or_default(), server)).into_response()
        }
        (None, Some(Length::Day)) => Json(history.day()).into_response(),
        (None, _) => Json(history.hour()).into_response(),
    }
}
