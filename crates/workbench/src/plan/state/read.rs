//! Reads nodes and paths.

use std::path::Path as FilePath;

use settings::{
    Problem, Section, hint,
    value::{list, name, number},
};
use topology::{Node, Path, Topology};

/// Calls per second of a node.
const RATES: std::ops::RangeInclusive<f64> = 0.1..=1e7;

/// Nodes and paths at most: the best fixed assignment is searched for.
const NODES_MAX: usize = 40;
const PATHS_MAX: usize = 200;

/// Reads and checks the file at `path`.
///
/// # Errors
/// Every problem, in the order of the file.
pub(super) fn load(path: &FilePath) -> Result<Topology, Vec<Problem>> {
    settings::load(path, topology)
}

fn topology(mut root: Section<'_>) -> Option<Topology> {
    let sections = root.named_tables("node");
    if sections.is_empty() || sections.len() > NODES_MAX {
        root.problem(&format!(
            "there must be 1 to {NODES_MAX} nodes: write [node.NAME] for each"
        ));
    }
    let nodes: Vec<Node> = sections
        .into_iter()
        .filter_map(|(name, section)| node(name, section))
        .collect();
    let sections = root.tables("path");
    if sections.is_empty() || sections.len() > PATHS_MAX {
        root.problem(&format!(
            "there must be 1 to {PATHS_MAX} paths: write [[path]] with nodes = [\"A\", \"B\"]"
        ));
    }
    let paths: Vec<Path> = sections
        .into_iter()
        .filter_map(|section| path(section, &nodes))
        .collect();
    root.finish();
    Some(Topology { nodes, paths })
}

fn node(name: String, mut section: Section<'_>) -> Option<Node> {
    let stateless = section.require(
        "stateless",
        "write the calls per second that the node carries when others hold them",
        number(RATES),
    );
    let stateful = section.require(
        "stateful",
        "write the calls per second that the node carries when it holds them",
        number(RATES),
    );
    if let (Some(stateless), Some(stateful)) = (&stateless, &stateful)
        && stateful.value > stateless.value
    {
        let message = "a node can't carry more calls when it holds them than when others do";
        section.problem_of("stateful", stateful.at, message);
    }
    section.finish();
    Some(Node {
        name,
        stateless: stateless?.value,
        stateful: stateful?.value,
    })
}

fn path(mut section: Section<'_>, nodes: &[Node]) -> Option<Path> {
    let index = |value: &_| {
        let wanted = name(value)?;
        let place = nodes.iter().position(|node| node.name == wanted);
        let known = || nodes.iter().map(|node| node.name.as_str());
        place.ok_or_else(|| {
            let known: Vec<&str> = known().collect();
            format!("there is no node \"{wanted}\"; {}", hint(wanted, &known))
        })
    };
    let passed = section.require("nodes", "write nodes = [\"A\", \"B\"]", list(index));
    let share = section.get_or("share", 1.0, number(1e-6..=1e9));
    if let Some(passed) = &passed {
        let mut sorted = passed.value.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if passed.value.is_empty() || sorted.len() < passed.value.len() {
            let message = "a path has one node at least, and each of its nodes once";
            section.problem_of("nodes", passed.at, message);
        }
    }
    section.finish();
    Some(Path {
        nodes: passed?.value,
        share,
    })
}
