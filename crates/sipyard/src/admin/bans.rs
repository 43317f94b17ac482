//! Lists and lifts bans.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use node::Source;

use super::refusal::refused;
use crate::{
    serve::Control,
    view::{Done, bans},
};

/// All bans.
pub(super) async fn list(State(control): State<Arc<Control>>) -> Response {
    Json(bans(control.shared(), control.now())).into_response()
}

/// Lifts the ban of a source.
pub(super) async fn lift(
    State(control): State<Arc<Control>>,
    Path(source): Path<String>,
) -> Response {
    let lifted = source.parse::<Source>().ok().filter(|source| {
        let guard = control.shared().guard();
        guard.unban(control.now(), *source)
    });
    match lifted {
        Some(source) => done(format!("the ban of {source} is lifted")),
        None => {
            let message = format!("{source} is not banned; `sipyard ctl bans` lists who is");
            refused(StatusCode::NOT_FOUND, vec![message])
        }
    }
}

/// Lifts all bans.
pub(super) async fn lift_all(State(control): State<Arc<Control>>) -> Response {
    let (guard, now) = (control.shared().guard(), control.now());
    let bans = guard.bans(now).into_iter();
    let lifted = bans.filter(|ban| guard.unban(now, ban.source)).count();
    done(format!("{lifted} bans are lifted"))
}

fn done(done: String) -> Response {
    Json(Done { done }).into_response()
}
