//! What nodes are compared with: a controller that knows all of them and sets their shares.

use topology::{Path, Topology};

use super::Farm;

/// How busy it lets a node become, as the nodes themselves do: chance would fill the queue of one without time to spare.
const TARGET: f64 = 0.97;

/// Solves the linear program anew each second, for the calls that have come, and has each node leave open
/// what the answer says. §2.3.1 of the paper thinks of one.
///
/// It sets one share for each node. So it fits chains, and trees whose branches are alike.
#[derive(Debug)]
pub struct Controller {
    topology: Topology,
    is_dead: bool,
}

impl Controller {
    /// A controller that knows the nodes' costs.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let mut controller = Self {
            topology: topology.clone(),
            is_dead: false,
        };
        for node in 0..topology.nodes.len() {
            controller.set_speed(node, TARGET);
        }
        controller
    }

    /// It does nothing from here on; the shares stay as they are.
    pub fn kill(&mut self) {
        self.is_dead = true;
    }

    /// A node is faster or slower than the controller knew.
    pub fn set_speed(&mut self, node: usize, speed: f64) {
        if !self.is_dead {
            let node = &mut self.topology.nodes[node];
            node.stateless *= speed;
            node.stateful *= speed;
        }
    }

    /// Sets the shares for so many calls per second, unless it is dead. It is to be called each second.
    pub fn set(&self, farm: &mut Farm, offered_per_s: f64) {
        if self.is_dead {
            return;
        }
        // Where as much comes as can be carried, rounding shall not make it more.
        let Ok(best) = self.topology.best_for(offered_per_s.max(1.0)) else {
            return;
        };
        let mut open = vec![0.0; self.topology.nodes.len()];
        let mut left = open.clone();
        for (path, held) in self.topology.paths.iter().zip(&best.held_per_s) {
            let Path { nodes, .. } = path;
            let mut rest = self.topology.share(path) * best.calls_per_s;
            for (&node, held) in nodes.iter().zip(held) {
                open[node] += rest;
                rest = (rest - held).max(0.0);
                left[node] += rest;
            }
        }
        for (node, (open, left)) in open.iter().zip(&left).enumerate() {
            let share = if *open > 0.0 { left / open } else { 0.0 };
            farm.fix(node, Some(share));
        }
    }
}
