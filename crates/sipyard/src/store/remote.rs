//! Asks a running node for its records through the Unix socket of its admin API.

use std::{collections::VecDeque, time::Duration};

use ::store::{Put, Value};
use admin_client::Client;
use serde::{Deserialize, Serialize};

use super::{
    Failure,
    fill::{Filled, Record},
};
use crate::{config::Configuration, view::Refused};

/// The path of the admin API that takes an [`Ask`].
pub(crate) const PATH: &str = "/api/v1/records";

/// The longest [`Ask`] that a node takes.
pub(crate) const ASK_BYTES_MAX: usize = 8 << 20;

/// The most bytes of records in one [`Ask`]. A byte takes at most four in JSON, and half of the
/// bytes are there twice.
const BATCH_BYTES: usize = 512 << 10;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request for records or for changes of them.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask {
    /// The record of a key.
    Read(Vec<u8>),
    /// All records whose keys begin with this.
    List(Vec<u8>),
    Change(Vec<Change>),
}

/// A change of a key's record, which applies only if the present record is the one that was seen.
#[derive(Serialize, Deserialize)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    pub(crate) seen: Option<Record>,
    pub(crate) next: Option<Record>,
}

/// The answer of a node.
#[derive(Serialize, Deserialize)]
pub(crate) enum Told {
    Records(Vec<Record>),
    /// The outcome of each change, in order.
    Outcomes(Vec<Outcome>),
}

/// The outcome of a change.
#[derive(Serialize, Deserialize)]
pub(crate) enum Outcome {
    Stored,
    /// The change was refused, because the key has this record.
    Changed(Option<Record>),
}

/// A running node.
pub(crate) struct Remote {
    client: Client,
}

impl Remote {
    /// The node that runs with this configuration.
    pub(crate) fn of(configuration: &Configuration) -> Self {
        Self {
            client: Client::of_socket(&configuration.admin.socket, PATIENCE),
        }
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Value>, Failure> {
        let records = self.records(&Ask::Read(key.to_vec()))?;
        let value = records.first().map(Record::value);
        Ok(value.transpose()?)
    }

    pub(super) fn entries(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Value)>, Failure> {
        let records = self.records(&Ask::List(prefix.to_vec()))?;
        let entry = |record: Record| Ok((record.key.clone(), record.value()?));
        records.into_iter().map(entry).collect()
    }

    pub(super) fn put(
        &self,
        key: &[u8],
        seen: Option<&Value>,
        next: Option<&Record>,
    ) -> Result<Put, Failure> {
        let change = Change {
            key: key.to_vec(),
            seen: seen.map(|value| Record::of(key, value)),
            next: next.cloned(),
        };
        match self.change(vec![change])?.pop() {
            Some(Outcome::Stored) => Ok(Put::Stored),
            Some(Outcome::Changed(record)) => {
                let value = record.as_ref().map(Record::value);
                Ok(Put::Changed(value.transpose()?))
            }
            None => Err(self.failed("the answer lacks an outcome")),
        }
    }

    pub(super) fn fill(&self, records: Vec<Record>) -> Result<Filled, Failure> {
        let mut filled = Filled::default();
        let mut waiting: VecDeque<(Record, Option<Record>)> =
            records.into_iter().map(|record| (record, None)).collect();
        while !waiting.is_empty() {
            let batch = next_batch(&mut waiting);
            let change = |(next, seen): &(Record, Option<Record>)| Change {
                key: next.key.clone(),
                seen: seen.clone(),
                next: Some(next.clone()),
            };
            let outcomes = self.change(batch.iter().map(change).collect())?;
            for ((next, seen), outcome) in batch.into_iter().zip(outcomes) {
                match outcome {
                    Outcome::Stored => filled.count(seen.is_none()),
                    Outcome::Changed(current) => waiting.push_back((next, current)),
                }
            }
        }
        Ok(filled)
    }

    fn records(&self, ask: &Ask) -> Result<Vec<Record>, Failure> {
        match self.ask(ask)? {
            Told::Records(records) => Ok(records),
            Told::Outcomes(_) => Err(self.failed("the answer does not match the question")),
        }
    }

    fn change(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, Failure> {
        let number = changes.len();
        match self.ask(&Ask::Change(changes))? {
            Told::Outcomes(outcomes) if outcomes.len() == number => Ok(outcomes),
            _ => Err(self.failed("the answer does not match the question")),
        }
    }

    fn ask(&self, ask: &Ask) -> Result<Told, Failure> {
        let body = serde_json::to_vec(ask).map_err(|error| self.failed(error))?;
        let headers = [("Content-Type", "application/json")];
        let answer = self.client.ask("POST", PATH, &headers, &body);
        let answer = answer.map_err(|error| {
            self.failed(format!(
                "{error}; check that the node of this configuration runs, and that you are its \
                 user or root"
            ))
        })?;
        if answer.is_success {
            serde_json::from_slice(&answer.body).map_err(|error| self.failed(error))
        } else {
            let problems = Refused::read(&answer.body).problems;
            Err(self.failed(problems.join("; ")))
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::Failed(format!("{}: {why}", self.client.address()))
    }
}

fn next_batch(waiting: &mut VecDeque<(Record, Option<Record>)>) -> Vec<(Record, Option<Record>)> {
    let (mut bytes, mut batch) = (0, Vec::new());
    while bytes < BATCH_BYTES
        && let Some((next, seen)) = waiting.pop_front()
    {
        bytes += next.key.len() + next.value.len();
        batch.push((next, seen));
    }
    batch
}
