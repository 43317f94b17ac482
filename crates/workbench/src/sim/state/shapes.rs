//! The topologies that are measured.

use topology::{Node, Path, Topology};

/// Calls per second without and with state, §2.2 of the paper.
pub(super) const PAPER: (f64, f64) = (5700.0, 4700.0);

/// Those of Sipyard on one core, docs/results/modes.md.
const OURS: (f64, f64) = (33_333.0, 24_450.0);

/// Half as fast.
const SLOW: (f64, f64) = (2850.0, 2350.0);

pub(super) fn series(nodes: &[(f64, f64)]) -> Topology {
    let all: Vec<usize> = (0..nodes.len()).collect();
    topology(nodes, &[(&all, 1.0)])
}

/// Each with its name.
pub(super) fn all() -> Vec<(&'static str, Topology)> {
    let both: [(&[usize], f64); 2] = [(&[0, 1], 1.0), (&[1, 0], 1.0)];
    vec![
        ("2 in series", series(&[PAPER; 2])),
        ("2 in series, Sipyard's costs", series(&[OURS; 2])),
        ("3 in series", series(&[PAPER; 3])),
        ("4 in series", series(&[PAPER; 4])),
        ("5 in series", series(&[PAPER; 5])),
        (
            "2 in series, the first at half speed",
            series(&[SLOW, PAPER]),
        ),
        (
            "2 in series, the last at half speed",
            series(&[PAPER, SLOW]),
        ),
        (
            "a tree: 1 before 2",
            topology(&[PAPER; 3], &[(&[0, 1], 1.0), (&[0, 2], 1.0)]),
        ),
        (
            "the same, 3 : 1",
            topology(&[PAPER; 3], &[(&[0, 1], 3.0), (&[0, 2], 1.0)]),
        ),
        (
            "2 before 1, 2 : 1",
            topology(&[PAPER; 3], &[(&[0, 2], 2.0), (&[1, 2], 1.0)]),
        ),
        (
            "a diamond",
            topology(&[PAPER; 4], &[(&[0, 1, 3], 1.0), (&[0, 2, 3], 1.0)]),
        ),
        (
            "a diamond, one side at half speed",
            topology(
                &[PAPER, SLOW, PAPER, PAPER],
                &[(&[0, 1, 3], 1.0), (&[0, 2, 3], 2.0)],
            ),
        ),
        ("2, both directions", topology(&[PAPER; 2], &both)),
        (
            "3, both directions, 3 : 1",
            topology(&[PAPER; 3], &[(&[0, 1, 2], 3.0), (&[2, 1, 0], 1.0)]),
        ),
    ]
}

fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
    let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
        name: format!("S{}", index + 1),
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
