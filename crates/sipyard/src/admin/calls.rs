//! Finds recorded calls and shows one.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Query, State},
    http::{
        StatusCode,
        header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    },
    response::{IntoResponse, Response},
};
use recorder::{Order, Search, State as CallState};
use serde::Deserialize;
use socket::wall;
use tokio::task::spawn_blocking;

use super::refusal::refused;
use crate::{
    calls::{Call, listeners},
    serve::Control,
};

/// The most calls of one answer.
const CALLS_MAX: usize = 1_000;

/// Which calls are wanted. Times are seconds since the UNIX epoch.
#[derive(Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    search: String,
    #[serde(default)]
    state: String,
    since: Option<f64>,
    until: Option<f64>,
    order: Option<String>,
    limit: Option<usize>,
}

/// Calls that match.
pub(super) async fn list(
    State(control): State<Arc<Control>>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let now = control.now();
    let most = wanted.limit.unwrap_or(100).min(CALLS_MAX);
    let search = match search(&wanted, wall().saturating_sub(now)) {
        Ok(search) => search,
        Err(problem) => return refused(StatusCode::UNPROCESSABLE_ENTITY, vec![problem]),
    };
    let (recording, snapshot) = (Arc::clone(control.calls()), control.shared().snapshot());
    let found = spawn_blocking(move || recording.find(&snapshot, &search, now, most)).await;
    Json(found.expect("a search does not panic")).into_response()
}

fn search(wanted: &Wanted, zero: Duration) -> Result<Search, String> {
    let names = wanted.state.split(',').filter(|name| !name.is_empty());
    let state = |name: &str| {
        let known = CallState::ALL.into_iter().find(|(_, known)| *known == name);
        known.map(|(state, _)| state).ok_or_else(|| {
            let known = CallState::ALL.map(|(_, known)| known);
            format!(
                "there is no state {name}: write some of {}",
                known.join(",")
            )
        })
    };
    let moment = |seconds: Option<f64>| {
        let since_epoch = Duration::try_from_secs_f64(seconds?).ok()?;
        Some(since_epoch.saturating_sub(zero))
    };
    Ok(Search {
        words: wanted
            .search
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        states: names.map(state).collect::<Result<_, _>>()?,
        since: moment(wanted.since),
        until: moment(wanted.until),
        order: match wanted.order.as_deref() {
            None | Some("trouble") => Order::Trouble,
            Some("newest") => Order::Newest,
            Some(other) => {
                return Err(format!(
                    "there is no order {other}: write trouble or newest"
                ));
            }
        },
    })
}

/// Which call, and how.
#[derive(Deserialize)]
pub(super) struct Which {
    call_id: String,
    #[serde(default)]
    format: Format,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    #[default]
    Json,
    Text,
    Pcapng,
}

/// One call; none if it is not known.
fn draw(control: &Control, call_id: &str, format: Format) -> Option<Response> {
    let (snapshot, now) = (control.shared().snapshot(), control.now());
    let show = |ladder: &recorder::Ladder, zero| match format {
        Format::Json => Json(Call::new(ladder, &snapshot, zero, now)).into_response(),
        Format::Text => {
            let media = [(CONTENT_TYPE, "text/plain; charset=utf-8")];
            (media, ladder.full_text()).into_response()
        }
        Format::Pcapng => {
            let file = ladder.pcapng(zero, &listeners(&snapshot));
            let headers = [
                (CONTENT_TYPE, "application/x-pcapng"),
                (CONTENT_DISPOSITION, "attachment; filename=\"call.pcapng\""),
            ];
            (headers, file).into_response()
        }
    };
    control.calls().call(&snapshot, call_id, now, show)
}

/// One call with all its messages.
pub(super) async fn show(
    State(control): State<Arc<Control>>,
    Query(Which { call_id, format }): Query<Which>,
) -> Response {
    let of = Arc::clone(&control);
    let wanted = call_id.clone();
    let shown = spawn_blocking(move || draw(&of, &wanted, format)).await;
    let shown = shown.expect("a ladder does not panic");
    shown.unwrap_or_else(|| {
        let why = match control.calls().counts(control.now()).map(|it| it.one_in) {
            None => {
                "the node records no calls: calls.record is false in its configuration".to_owned()
            }
            Some(0 | 1) => "it never came here, or was forgotten".to_owned(),
            Some(one_in) => format!(
                "it never came here, was forgotten, or was left out, as one call in {one_in} is recorded"
            ),
        };
        let message = format!("no call with Call-ID {call_id} is recorded: {why}");
        refused(StatusCode::NOT_FOUND, vec![message])
    })
}
