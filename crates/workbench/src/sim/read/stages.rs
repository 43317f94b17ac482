//! Reads the edges, and the nodes behind them.

use settings::{
    Item, Section,
    value::{integer, name, number, word},
};
use sim::{Capacity, Duty};

use super::super::scenario::{EdgesSetup, NodesSetup};

const DUTIES: [(&str, Duty); 3] = [
    ("proxy", Duty::Proxy),
    ("look-up", Duty::LookUp),
    ("register", Duty::Register),
];

/// Whether all nodes use one store.
const STORES: [(&str, bool); 2] = [("own", false), ("shared", true)];

/// Messages that may wait for a processor, about as many as fit into a socket's buffer.
const WAITING: usize = 200;

/// Reads `edges`: a number, a table with the nodes of a second stage, or a list of these.
pub(super) fn edges(root: &mut Section<'_>) -> Vec<EdgesSetup> {
    let mut all: Vec<EdgesSetup> = Vec::new();
    for item in root.items("edges") {
        match item {
            Item::Value(found) => match integer(1..=64)(found.value) {
                Ok(count) => all.push(one_stage(count)),
                Err(message) => root.problem_of("edges", found.at, &message),
            },
            Item::Table(section) => all.extend(two_stages(section)),
        }
    }
    if all.is_empty() {
        all.push(one_stage(1));
    }
    all
}

fn one_stage(count: usize) -> EdgesSetup {
    EdgesSetup {
        name: count.to_string(),
        count,
        nodes: 0,
        users: 10_000,
    }
}

fn two_stages(mut section: Section<'_>) -> Option<EdgesSetup> {
    let called = section.require("name", "write its name in plots", name);
    let count = section.get_or("count", 1, integer(0..=64));
    let nodes = section.get_or("nodes", 0, integer(0..=64));
    let users = section.get_or("users", 10_000, integer(1..=1_000_000));
    if count == 0 && nodes != 1 {
        section.problem("count = 0 needs nodes = 1, which the callers call");
    }
    section.finish();
    Some(EdgesSetup {
        name: called?.value.to_owned(),
        count,
        nodes,
        users: users as u32,
    })
}

/// Reads `[nodes]`: the common properties of the nodes of the second stage.
pub(super) fn nodes(mut section: Section<'_>) -> NodesSetup {
    let nodes = NodesSetup {
        duty: section.get_or("duty", Duty::Proxy, word("word", &DUTIES)),
        is_shared: section.get_or("store", false, word("word", &STORES)),
        capacity: processor(&mut section),
    };
    section.finish();
    nodes
}

/// Reads `processor`: its capacity, the messages of each call, and how many messages may wait.
pub(super) fn processor(section: &mut Section<'_>) -> Option<Capacity> {
    let mut section = section.given_table("processor")?;
    let per_s = section.require(
        "per_s",
        "write the calls or registrations per second that it carries",
        number(0.1..=1e6),
    );
    let messages = section.require(
        "messages",
        "write how many messages it gets for each",
        number(1.0..=100.0),
    );
    let waiting = section.get_or("waiting", WAITING, integer(1..=1_000_000));
    let new = section.get_or("waiting_new", waiting, integer(1..=1_000_000));
    section.finish();
    Some(Capacity {
        per_s: per_s?.value,
        messages: messages?.value,
        waiting_max: waiting,
        waiting_max_of_new: new,
    })
}
