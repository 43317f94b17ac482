//! Where a user is: the bindings of an address-of-record, and how to remove one.

use std::sync::Arc;

use ::store::{Error, Next, Put, Store, Value};
use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use location::{Aor, Location, Subscriber};
use serde::{Deserialize, Serialize};
use socket::wall;

use super::refusal::refused;
use crate::{
    answer::{answered, submit},
    serve::Control,
    store::read_aor,
    view::Done,
};

/// How often a removal is tried, as phones refresh the same record.
const TRIES: usize = 5;

/// A user and the phones that are registered.
#[derive(Serialize)]
struct User {
    user: String,
    /// Whether this store has a password of the user.
    has_password: bool,
    bindings: Vec<Bound>,
}

#[derive(Serialize)]
struct Bound {
    contact: String,
    /// Where the REGISTER came from.
    received: String,
    path: String,
    q: f64,
    expires_in_seconds: f64,
    /// Seconds since the UNIX epoch.
    updated: f64,
    call_id: String,
}

#[derive(Deserialize)]
pub(super) struct Which {
    contact: String,
}

/// The user and the store that knows.
fn find(control: &Control, user: &str) -> Result<(Aor, Arc<Store>), Box<Response>> {
    let refuse = |status, message: String| Box::new(refused(status, vec![message]));
    let aor = read_aor(user);
    let aor = aor.map_err(|problem| refuse(StatusCode::UNPROCESSABLE_ENTITY, problem))?;
    let store = control.store().ok_or_else(|| {
        let message = "the node has no registrar: its configuration has no [registrar]";
        refuse(StatusCode::NOT_FOUND, message.to_owned())
    })?;
    Ok((aor, Arc::clone(store)))
}

async fn get(store: &Store, key: &[u8]) -> Result<Option<Value>, Error> {
    answered(submit(|done| store.get(key, done))).await
}

fn failed(error: impl ToString) -> Response {
    refused(StatusCode::SERVICE_UNAVAILABLE, vec![error.to_string()])
}

/// A user's bindings.
pub(super) async fn show(
    State(control): State<Arc<Control>>,
    Path(user): Path<String>,
) -> Response {
    let (aor, store) = match find(&control, &user) {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    let found = get(&store, aor.key()).await;
    let password = get(&store, &Subscriber::key_of(&aor)).await;
    let (value, password) = match (found, password) {
        (Ok(value), Ok(password)) => (value, password),
        (Err(error), _) | (_, Err(error)) => return failed(error),
    };
    let mut bindings = Vec::new();
    if let Some(value) = &value {
        match Location::read(value) {
            Ok(location) => bindings.extend(location.bindings.iter().map(bound)),
            Err(error) => return failed(error),
        }
    }
    Json(User {
        user: aor.as_str().to_owned(),
        has_password: password.is_some(),
        bindings,
    })
    .into_response()
}

fn bound(binding: &location::Binding<'_>) -> Bound {
    Bound {
        contact: binding.contact.to_owned(),
        received: binding.received.to_string(),
        path: binding.path.to_owned(),
        q: f64::from(binding.q) / 1_000.0,
        expires_in_seconds: binding.expires.saturating_sub(wall()).as_secs_f64(),
        updated: binding.updated.as_secs_f64(),
        call_id: binding.call_id.to_owned(),
    }
}

/// Removes a binding of a user.
pub(super) async fn remove(
    State(control): State<Arc<Control>>,
    Path(user): Path<String>,
    Query(Which { contact }): Query<Which>,
) -> Response {
    let (aor, store) = match find(&control, &user) {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    for _ in 0..TRIES {
        let seen = match get(&store, aor.key()).await {
            Ok(Some(seen)) => seen,
            Ok(None) => break,
            Err(error) => return failed(error),
        };
        let Ok(mut location) = Location::read(&seen) else {
            break;
        };
        let before = location.bindings.len();
        location
            .bindings
            .retain(|binding| binding.contact != contact);
        if location.bindings.len() == before {
            break;
        }
        let (value, expires) = (location.write(), location.expires());
        let next = expires.map(|expires| Next {
            value: &value,
            expires: Some(expires),
        });
        let put = answered(submit(|done| store.put(aor.key(), Some(&seen), next, done))).await;
        match put {
            Ok(Put::Stored) => {
                let done = format!("{} is at {contact} no longer", aor.as_str());
                return Json(Done { done }).into_response();
            }
            // A phone was faster.
            Ok(Put::Changed(_)) => {}
            Err(error) => return failed(error),
        }
    }
    let message = format!("{} has no binding {contact}", aor.as_str());
    refused(StatusCode::NOT_FOUND, vec![message])
}
