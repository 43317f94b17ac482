//! The whole answer.

use serde::Serialize;

use super::{
    design::Design,
    limits::{Limit, Setting},
    loss::Loss,
    size::Sized,
    words::{figure, grouped},
};

/// What is printed as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Answer {
    /// What is needed, and what breaks first.
    pub(super) summary: String,
    pub(super) design: Design,
    pub(super) sites: Vec<Sized>,
    pub(super) losses: Vec<Loss>,
    pub(super) times: f64,
    /// What is full first on the nodes as planned.
    pub(super) limits_of_nodes: Vec<Limit>,
    /// What is in the way of more nodes.
    pub(super) limits_of_design: Vec<Limit>,
    pub(super) settings: Vec<Setting>,
}

impl Answer {
    pub(super) fn new(design: Design, times: f64) -> Self {
        let sites = design.sized();
        let limits_of_nodes = design.limits_of_nodes(&sites);
        let limits_of_design = design.limits_of_design();
        Self {
            summary: summary(&design, &sites, times, &limits_of_nodes, &limits_of_design),
            losses: design.losses(&sites),
            settings: design.settings(&sites),
            limits_of_nodes,
            limits_of_design,
            times,
            sites,
            design,
        }
    }
}

/// One sentence: what is needed, and what breaks first.
fn summary(
    design: &Design,
    sites: &[Sized],
    times: f64,
    of_nodes: &[Limit],
    of_design: &[Limit],
) -> String {
    let sum = |count: fn(&Sized) -> f64| sites.iter().map(count).sum::<f64>();
    let edges = sum(|site| site.edges.nodes);
    let registrars = sum(|site| site.registrars.nodes);
    let shards = sum(|site| site.stores.clusters * site.stores.shards);
    let stores = sum(|site| site.stores.clusters);
    let cores = edges * design.edge.cores
        + registrars * design.registrar.cores
        + shards * (1.0 + design.store.replicas);
    let breaks = |limits: &[Limit]| {
        let first = limits
            .first()
            .filter(|it| it.at_times.is_some_and(|at| at <= times))?;
        Some(format!(
            "{} (at {} times)",
            first.what,
            figure(first.at_times?)
        ))
    };
    let growth = match (breaks(of_nodes), breaks(of_design)) {
        (None, None) => "nothing breaks".to_owned(),
        (Some(nodes), None) => format!("{nodes} is full first, and nodes can be added"),
        (None, Some(design)) => format!("{design} breaks first"),
        (Some(nodes), Some(design)) => {
            format!("{nodes} is full first, and if nodes are added, {design} breaks first")
        }
    };
    format!(
        "{} users and {} calls/s need {edges:.0} edges, {registrars:.0} registrars and {stores:.0} stores \
         of {shards:.0} shards in all, {cores:.0} cores in {} sites; on the way to {} times the demand, {growth}.",
        grouped(design.demand.users),
        grouped(design.demand.calls_per_s),
        sites.len(),
        figure(times),
    )
}
