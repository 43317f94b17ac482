//! Draws nodes and paths.

use std::fmt::Write;

use report::escape;
use topology::{Load, Topology};

const WIDTH: usize = 150;
const HEIGHT: usize = 62;
const GAP_X: usize = 70;
const GAP_Y: usize = 24;
const MARGIN: usize = 16;

/// One line for each path.
pub(super) fn text(topology: &Topology, loads: &[Load]) -> String {
    let of_path = |path: &topology::Path| {
        let nodes = path.nodes.iter().map(|&index| {
            let (name, held) = (&topology.nodes[index].name, loads[index].held_per_s);
            format!("[{name}: holds {held:.0}/s]")
        });
        let nodes: Vec<String> = nodes.collect();
        let share = 100.0 * topology.share(path);
        format!("{share:5.1} %  -> {}\n", nodes.join(" -> "))
    };
    topology.paths.iter().map(of_path).collect()
}

/// Boxes in columns by how far a node is from where calls come in; fuller ones are darker.
pub(super) fn svg(topology: &Topology, loads: &[Load]) -> String {
    let places = places(topology);
    let right = places.iter().map(|(x, _)| x + WIDTH).max().unwrap_or(0);
    let bottom = places.iter().map(|(_, y)| y + HEIGHT).max().unwrap_or(0);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {}\" style=\"width: {width}px; max-width: none\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"system-ui, \
         sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"nodes and paths\">\n",
        bottom + MARGIN,
        width = right + MARGIN,
    );
    for pair in topology.paths.iter().flat_map(|path| path.nodes.windows(2)) {
        let ((x1, y1), (x2, y2)) = (places[pair[0]], places[pair[1]]);
        let (x1, y1, y2) = (x1 + WIDTH, y1 + HEIGHT / 2, y2 + HEIGHT / 2);
        let line = format!("<path d=\"M{x1} {y1}L{x2} {y2}\" stroke=\"var(--quiet, #555)\"/>\n");
        if !svg.contains(&line) {
            svg += &line;
        }
    }
    for ((node, load), (x, y)) in topology.nodes.iter().zip(loads).zip(&places) {
        let light = 100.0 - 45.0 * load.utilisation.clamp(0.0, 1.0);
        let lines = [
            escape(&node.name),
            format!("holds {:.0} of {:.0}/s", load.held_per_s, load.calls_per_s),
            format!("{:.1} % busy", 100.0 * load.utilisation),
        ];
        let middle = x + WIDTH / 2;
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"2\" \
             fill=\"hsl(30 90% {light:.0}%)\" stroke=\"#333\"/>"
        )
        .expect("a string takes all");
        for (number, line) in lines.iter().enumerate() {
            let y = y + 18 * (number + 1);
            writeln!(
                svg,
                "<text x=\"{middle}\" y=\"{y}\" text-anchor=\"middle\">{line}</text>"
            )
            .expect("a string takes all");
        }
    }
    svg + "</svg>\n"
}

/// The upper left corner of each node's box.
fn places(topology: &Topology) -> Vec<(usize, usize)> {
    let columns = columns(topology);
    let mut rows = vec![0; topology.nodes.len()];
    let place = |&column: &usize| {
        let row = rows[column];
        rows[column] += 1;
        (
            MARGIN + column * (WIDTH + GAP_X),
            MARGIN + row * (HEIGHT + GAP_Y),
        )
    };
    columns.iter().map(place).collect()
}

/// How far each node is on the first path that has it.
fn columns(topology: &Topology) -> Vec<usize> {
    let of_node = |node: usize| {
        let mut paths = topology.paths.iter();
        let place = paths.find_map(|path| path.nodes.iter().position(|&other| other == node));
        place.unwrap_or(0)
    };
    (0..topology.nodes.len()).map(of_node).collect()
}
