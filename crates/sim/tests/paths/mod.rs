//! Paths of nodes.

use topology::{Node, Path, Topology};

/// Nodes by what they carry without and with state, and paths by their nodes and shares.
pub(crate) fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
    let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
        name: format!("n{index}"),
        stateless,
        stateful,
    };
    let path = |(nodes, share): &(&[usize], f64)| Path {
        nodes: nodes.to_vec(),
        share: *share,
    };
    Topology {
        nodes: nodes.iter().enumerate().map(node).collect(),
        paths: paths.iter().map(path).collect(),
    }
}
