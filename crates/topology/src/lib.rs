//! Paths of nodes, and where the state of their requests is held best.
//!
//! §2.3 of Balasubramaniyan et al., "SERvartuka: Enhancing SIP server scalability with dynamic state
//! management", as a linear program. The paper adds up the state of all nodes. Here it is added up path by
//! path, since a node can hold only what passes it: of two branches of a tree, one can't hold the state
//! of the other.
//!
//! A node spends `1 / stateless` seconds on a call that others hold, and `1 / stateful` on one that it
//! holds.
//!
//! ```
//! use topology::{Node, Path, Topology};
//!
//! let node = |name: &str| Node { name: name.to_owned(), stateless: 5700.0, stateful: 4700.0 };
//! let path = Path { nodes: vec![0, 1], share: 1.0 };
//! let two = Topology { nodes: vec![node("one"), node("two")], paths: vec![path] };
//! assert_eq!(two.best().unwrap().calls_per_s.round(), 5152.0);
//! assert_eq!(two.fixed().unwrap().calls_per_s.round(), 4700.0);
//! ```

use good_lp::{
    Expression, ProblemVariables, Solution as _, SolverModel, Variable, constraint, microlp,
    variable,
};
use serde::Serialize;

/// A node, and what it carries alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Calls per second, if others hold all of them.
    pub stateless: f64,
    /// Calls per second, if it holds all of them.
    pub stateful: f64,
}

/// The nodes that a part of the calls passes, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// Indices of nodes.
    pub nodes: Vec<usize>,
    /// The share of all calls; all shares are scaled to a sum of 1.
    pub share: f64,
}

/// Nodes, and the paths over them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The paths; a node may be on several.
    pub paths: Vec<Path>,
}

/// An assignment of state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assignment {
    /// Calls per second that all nodes together carry.
    pub calls_per_s: f64,
    /// Calls per second that each node holds, by path and by the place on it.
    pub held_per_s: Vec<Vec<f64>>,
}

/// What a node does under an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Calls per second that pass it.
    pub calls_per_s: f64,
    /// Those that it holds.
    pub held_per_s: f64,
    /// How busy that keeps it, from 0 to 1.
    pub utilisation: f64,
}

/// Why there is no assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer(String);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the program has no answer: {}", self.0)
    }
}

impl std::error::Error for NoAnswer {}

impl Node {
    /// Seconds for a call that others hold.
    fn pass_s(&self) -> f64 {
        1.0 / self.stateless
    }

    /// Seconds more for one that it holds.
    fn hold_s(&self) -> f64 {
        1.0 / self.stateful - 1.0 / self.stateless
    }
}

impl Topology {
    /// The assignment that carries the most.
    ///
    /// # Errors
    /// If the solver finds none.
    pub fn best(&self) -> Result<Assignment, NoAnswer> {
        self.best_for(f64::INFINITY)
    }

    /// The assignment for so many calls per second, or for as many as can be carried, that holds as much as
    /// possible at the first nodes.
    ///
    /// # Errors
    /// If the solver finds none.
    pub fn best_for(&self, offered_per_s: f64) -> Result<Assignment, NoAnswer> {
        // In units of what the largest node carries, which keeps the numbers near 1.
        let unit = self.unit();
        let mut variables = ProblemVariables::new();
        let all = variables.add(variable().min(0.0).max((offered_per_s / unit).min(1e6)));
        let held = self.held_variables(&mut variables);
        let mut late = Expression::default();
        for held in &held {
            for (place, share) in held.iter().enumerate() {
                late += 1e-6 * place as f64 * *share;
            }
        }
        let mut model = variables.maximise(all - late).using(microlp);
        for (path, held) in self.paths.iter().zip(&held) {
            let sum: Expression = held.iter().copied().sum();
            model = model.with(constraint!(sum == self.share(path) * all));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let mut time = node.pass_s() * unit * self.passes(index) * all;
            for (path, held) in self.paths.iter().zip(&held) {
                for (_, held) in path.nodes.iter().zip(held).filter(|(at, _)| **at == index) {
                    time += node.hold_s() * unit * *held;
                }
            }
            model = model.with(constraint!(time <= 1.0));
        }
        let solution = model.solve().map_err(|why| NoAnswer(why.to_string()))?;
        let value = |held: &Variable| (solution.value(*held) * unit).max(0.0);
        Ok(Assignment {
            calls_per_s: solution.value(all) * unit,
            held_per_s: held
                .iter()
                .map(|held| held.iter().map(value).collect())
                .collect(),
        })
    }

    /// The best assignment in which each node either holds all calls that no node before it holds, or none:
    /// what can be configured by hand.
    ///
    /// # Errors
    /// If the solver finds none.
    pub fn fixed(&self) -> Result<Assignment, NoAnswer> {
        let mut variables = ProblemVariables::new();
        let longest = variables.add(variable().min(0.0));
        let holds: Vec<Variable> = (self.nodes.iter())
            .map(|_| variables.add(variable().binary()))
            .collect();
        let unit = self.unit();
        let few: Expression = holds.iter().map(|held| 1e-6 * *held).sum();
        let mut model = variables.minimise(longest + few).using(microlp);
        for path in &self.paths {
            let holders: Expression = path.nodes.iter().map(|&node| holds[node]).sum();
            model = model.with(constraint!(holders >= 1.0));
        }
        for (index, (node, holds)) in self.nodes.iter().zip(&holds).enumerate() {
            let passes = self.passes(index) * unit;
            let time = passes * node.pass_s() + passes * node.hold_s() * *holds;
            model = model.with(constraint!(longest >= time));
        }
        let solution = model.solve().map_err(|why| NoAnswer(why.to_string()))?;
        let calls_per_s = unit / solution.value(longest);
        let holds: Vec<bool> = (holds.iter())
            .map(|holds| solution.value(*holds) > 0.5)
            .collect();
        Ok(self.first_holds(calls_per_s, &holds))
    }

    /// What each node does under an assignment.
    #[must_use]
    pub fn loads(&self, assignment: &Assignment) -> Vec<Load> {
        let mut loads: Vec<Load> = (0..self.nodes.len())
            .map(|index| Load {
                calls_per_s: self.passes(index) * assignment.calls_per_s,
                held_per_s: 0.0,
                utilisation: 0.0,
            })
            .collect();
        for (path, held) in self.paths.iter().zip(&assignment.held_per_s) {
            for (&node, held) in path.nodes.iter().zip(held) {
                loads[node].held_per_s += held;
            }
        }
        for (load, node) in loads.iter_mut().zip(&self.nodes) {
            load.utilisation = load.calls_per_s * node.pass_s() + load.held_per_s * node.hold_s();
        }
        loads
    }

    /// A path's share of all calls.
    #[must_use]
    pub fn share(&self, path: &Path) -> f64 {
        path.share / self.paths.iter().map(|path| path.share).sum::<f64>()
    }

    /// The share of all calls that pass a node.
    fn passes(&self, node: usize) -> f64 {
        let passing = self.paths.iter().filter(|path| path.nodes.contains(&node));
        passing.map(|path| self.share(path)).sum()
    }

    fn unit(&self) -> f64 {
        let largest = self.nodes.iter().map(|node| node.stateless);
        largest.fold(0.0, f64::max)
    }

    fn held_variables(&self, variables: &mut ProblemVariables) -> Vec<Vec<Variable>> {
        let mut of_path = |path: &Path| {
            (path.nodes.iter())
                .map(|_| variables.add(variable().min(0.0)))
                .collect()
        };
        self.paths.iter().map(&mut of_path).collect()
    }

    fn first_holds(&self, calls_per_s: f64, holds: &[bool]) -> Assignment {
        let of_path = |path: &Path| {
            let first = path.nodes.iter().position(|&node| holds[node]);
            let calls = self.share(path) * calls_per_s;
            (0..path.nodes.len())
                .map(|place| if Some(place) == first { calls } else { 0.0 })
                .collect()
        };
        Assignment {
            calls_per_s,
            held_per_s: self.paths.iter().map(of_path).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
        let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
            name: format!("n{index}"),
            stateless,
            stateful,
        };
        Topology {
            nodes: nodes.iter().enumerate().map(node).collect(),
            paths: (paths.iter())
                .map(|(nodes, share)| Path {
                    nodes: nodes.to_vec(),
                    share: *share,
                })
                .collect(),
        }
    }

    const PAPER: (f64, f64) = (5700.0, 4700.0);

    /// In series, n nodes carry n / (1/stateful + (n-1)/stateless).
    #[test]
    fn nodes_in_series_share_the_state_evenly() {
        for count in 1..=5_usize {
            let all: Vec<usize> = (0..count).collect();
            let series = topology(&vec![PAPER; count], &[(&all, 1.0)]);
            let best = series.best().unwrap();
            let n = count as f64;
            let expected = n / (1.0 / PAPER.1 + (n - 1.0) / PAPER.0);
            assert!((best.calls_per_s - expected).abs() < 0.1, "{best:?}");
            assert!((series.fixed().unwrap().calls_per_s - 4700.0).abs() < 0.1);
            for load in series.loads(&best) {
                assert!((load.utilisation - 1.0).abs() < 1e-6, "{load:?}");
                assert!((load.held_per_s - expected / n).abs() < 0.1, "{load:?}");
            }
        }
    }

    /// The paper's program adds up the state of all nodes, so one branch could hold the other's.
    #[test]
    fn no_branch_holds_what_does_not_pass_it() {
        let slow = (2600.0, 1300.0);
        let tree = topology(&[PAPER, slow, PAPER], &[(&[0, 1], 1.0), (&[0, 2], 1.0)]);
        let best = tree.best().unwrap();
        for (path, held) in tree.paths.iter().zip(&best.held_per_s) {
            let sum: f64 = held.iter().sum();
            assert!((sum - tree.share(path) * best.calls_per_s).abs() < 1e-3);
        }
        assert!(best.held_per_s[0][1] < 40.0, "{best:?}");
    }

    #[test]
    fn below_the_best_the_first_node_holds() {
        let two = topology(&[PAPER, PAPER], &[(&[0, 1], 1.0)]);
        let low = two.best_for(3000.0).unwrap();
        assert!((low.held_per_s[0][0] - 3000.0).abs() < 0.1, "{low:?}");
        let high = two.best_for(5000.0).unwrap();
        assert!((two.loads(&high)[0].utilisation - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_fixed_assignment_covers_each_path() {
        // Either both edges hold or the core does.
        let merging = topology(
            &[PAPER, PAPER, (20_000.0, 10_000.0)],
            &[(&[0, 2], 1.0), (&[1, 2], 1.0)],
        );
        let fixed = merging.fixed().unwrap();
        assert!((fixed.calls_per_s - 10_000.0).abs() < 1.0, "{fixed:?}");
        let both = topology(&[PAPER, PAPER], &[(&[0, 1], 1.0), (&[1, 0], 1.0)]);
        assert!((both.fixed().unwrap().calls_per_s - 4700.0).abs() < 0.1);
        assert!((both.best().unwrap().calls_per_s - 5152.0).abs() < 1.0);
    }
}
