//! Reads and changes the registrar's records for `sipyard user` and `sipyard store` while the node
//! has the store open.

use std::sync::Arc;

use ::store::{Error, Put, Store, Value};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use tokio::task::spawn_blocking;

use super::{guard::who, refusal::refused};
use crate::{
    answer::{answered, submit},
    serve::Control,
    store::{Ask, Change, Outcome, Record, Told},
};

/// Answers an operator. Changes are logged with who made them: how many, but not what, as records tell passwords.
pub(super) async fn records(
    State(control): State<Arc<Control>>,
    headers: HeaderMap,
    Json(ask): Json<Ask>,
) -> Response {
    let Some(store) = control.store() else {
        let message = "the node has no registrar: its configuration has no [registrar]".to_owned();
        return refused(StatusCode::NOT_FOUND, vec![message]);
    };
    let changes = matches!(ask, Ask::Change(_));
    let answer = answer(store, ask).await;
    if changes {
        audit(&who(&control.admin(), &headers), &answer);
    }
    match answer {
        Ok(told) => Json(told).into_response(),
        Err(error) => refused(StatusCode::SERVICE_UNAVAILABLE, vec![error.to_string()]),
    }
}

fn audit(who: &str, answer: &Result<Told, Error>) {
    match answer {
        Ok(Told::Outcomes(outcomes)) => {
            let stored = outcomes.iter().filter(|it| matches!(it, Outcome::Stored));
            tracing::info!("audit: {who}: {} records changed", stored.count());
        }
        Ok(Told::Records(_)) => {}
        Err(error) => tracing::info!("audit: {who}: records may have changed: {error}"),
    }
}

async fn answer(store: &Arc<Store>, ask: Ask) -> Result<Told, Error> {
    match ask {
        Ask::Read(key) => {
            let found = answered(submit(|done| store.get(&key, done))).await?;
            let record = found.map(|value| Record::of(&key, &value));
            Ok(Told::Records(record.into_iter().collect()))
        }
        Ask::List(prefix) => {
            let store = Arc::clone(store);
            let listed = spawn_blocking(move || store.entries(&prefix)).await;
            let entries = listed.expect("a listing does not panic")?;
            let record = |(key, value): &(Vec<u8>, Value)| Record::of(key, value);
            Ok(Told::Records(entries.iter().map(record).collect()))
        }
        Ask::Change(changes) => change(store, changes).await,
    }
}

/// Hands all changes to the store before it waits for the first, so that one sync of a file serves
/// many.
async fn change(store: &Store, changes: Vec<Change>) -> Result<Told, Error> {
    let mut submitted = Vec::new();
    for Change { key, seen, next } in changes {
        let seen = seen.as_ref().map(Record::value).transpose()?;
        let next = next.as_ref().map(Record::next);
        let receiver = submit(|done| store.put(&key, seen.as_ref(), next, done));
        submitted.push((key, receiver));
    }
    let mut outcomes = Vec::new();
    for (key, receiver) in submitted {
        outcomes.push(match answered(receiver).await? {
            Put::Stored => Outcome::Stored,
            Put::Changed(value) => Outcome::Changed(value.map(|value| Record::of(&key, &value))),
        });
    }
    Ok(Told::Outcomes(outcomes))
}
