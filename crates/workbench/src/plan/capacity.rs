//! Calculates how many nodes a demand needs, and their response times.

use serde::Serialize;

use super::queue::{Queue, quantiles_ms};

/// The demand of the users in the busy hour.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Demand {
    pub(crate) calls_per_s: f64,
    pub(crate) registrations_per_s: f64,
    /// Calls open at a time (Little's law).
    pub(crate) open_calls: f64,
    /// The mean cost of a message on the transports in use, in messages of UDP.
    pub(crate) transport_factor: f64,
    /// Transactions of a call: those of an INVITE and a BYE are two.
    pub(crate) transactions_per_call: f64,
}

/// Nodes with the same function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Stage {
    pub(crate) name: String,
    /// Processor time of a call over UDP, in milliseconds.
    pub(crate) call_ms: f64,
    /// Processor time of a registration over UDP, in milliseconds.
    pub(crate) registration_ms: f64,
    /// Of each node.
    pub(crate) cores: u32,
    /// The number of nodes; if none, as many as the demand needs.
    pub(crate) nodes: Option<u32>,
}

/// A farm under a demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Outlook {
    /// How this farm differs from the plan.
    pub(crate) what: String,
    pub(crate) calls_per_s: f64,
    pub(crate) stages: Vec<StageOutlook>,
    /// The stage with the highest utilisation.
    pub(crate) bottleneck: String,
    pub(crate) utilisation: f64,
    /// The most calls per second that the farm can carry with the same mix.
    pub(crate) calls_per_s_max: f64,
    /// The response time through all stages; none if one is overloaded.
    pub(crate) response: Option<Response>,
}

/// A stage under a demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct StageOutlook {
    pub(crate) name: String,
    pub(crate) nodes: u32,
    pub(crate) utilisation: f64,
    /// Processor time of a transaction, in milliseconds.
    pub(crate) service_ms: f64,
    /// None if the stage is overloaded.
    pub(crate) response: Option<Response>,
}

/// Processor time of a transaction's messages, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Response {
    pub(crate) mean_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Demand {
    /// The same mix, multiplied by a factor.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            calls_per_s: self.calls_per_s * factor,
            registrations_per_s: self.registrations_per_s * factor,
            open_calls: self.open_calls * factor,
            ..self
        }
    }

    fn transactions_per_s(&self) -> f64 {
        self.calls_per_s * self.transactions_per_call + self.registrations_per_s
    }

    /// How many cores of a stage it keeps busy.
    fn load(&self, stage: &Stage) -> f64 {
        let work_ms =
            self.calls_per_s * stage.call_ms + self.registrations_per_s * stage.registration_ms;
        work_ms * self.transport_factor / 1e3
    }
}

impl Stage {
    /// The number of nodes; if it is not given, as many as keep each core at most this busy.
    pub(crate) fn sized(&self, demand: &Demand, utilisation_max: f64) -> Self {
        let needed = self.needed(demand, utilisation_max);
        Self {
            nodes: self.nodes.or(Some(needed)),
            ..self.clone()
        }
    }

    /// The number of nodes that keeps each core at most this busy.
    pub(crate) fn needed(&self, demand: &Demand, utilisation_max: f64) -> u32 {
        let needed = demand.load(self) / (f64::from(self.cores) * utilisation_max);
        needed.ceil().clamp(1.0, f64::from(1_u32 << 30)) as u32
    }

    fn outlook(&self, demand: &Demand) -> (StageOutlook, Option<Queue>) {
        let nodes = self.nodes.unwrap_or(0);
        let load = demand.load(self);
        let service_ms = 1e3 * load / demand.transactions_per_s();
        // The load is spread over the nodes; each queues for itself.
        let queue =
            (nodes > 0).then(|| Queue::new(self.cores, load / f64::from(nodes), service_ms));
        let queue = queue.flatten();
        let outlook = StageOutlook {
            name: self.name.clone(),
            nodes,
            utilisation: load / f64::from(nodes * self.cores),
            service_ms,
            response: queue.map(|queue| Response::of(&[queue])),
        };
        (outlook, queue)
    }
}

impl Response {
    fn of(queues: &[Queue]) -> Self {
        let [p50_ms, p99_ms] = quantiles_ms(queues, [0.5, 0.99]);
        Self {
            mean_ms: queues.iter().map(Queue::mean_ms).sum(),
            p50_ms,
            p99_ms,
        }
    }
}

/// The stages under the demand.
pub(crate) fn outlook(what: impl Into<String>, demand: &Demand, stages: &[Stage]) -> Outlook {
    let (stages, queues): (Vec<_>, Vec<_>) =
        stages.iter().map(|stage| stage.outlook(demand)).unzip();
    let busiest = stages
        .iter()
        .max_by(|one, other| one.utilisation.total_cmp(&other.utilisation));
    let (bottleneck, utilisation) = busiest.map_or_else(Default::default, |stage| {
        (stage.name.clone(), stage.utilisation)
    });
    let queues: Option<Vec<Queue>> = queues.into_iter().collect();
    Outlook {
        what: what.into(),
        calls_per_s: demand.calls_per_s,
        stages,
        bottleneck,
        utilisation,
        calls_per_s_max: demand.calls_per_s / utilisation,
        response: queues.map(|queues| Response::of(&queues)),
    }
}

/// The stages as planned, each with one node fewer, and under a demand that is multiplied by a
/// factor.
pub(crate) fn outlooks(demand: &Demand, stages: &[Stage], growth: f64) -> Vec<Outlook> {
    let mut all = vec![outlook("as planned", demand, stages)];
    for (at, stage) in stages.iter().enumerate() {
        let mut fewer = stages.to_vec();
        fewer[at].nodes = stage.nodes.map(|nodes| nodes.saturating_sub(1));
        all.push(outlook(format!("one {} fewer", stage.name), demand, &fewer));
    }
    let what = format!("+{:.0} %", growth * 100.0);
    all.push(outlook(what, &demand.times(1.0 + growth), stages));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand {
        calls_per_s: 100.0,
        registrations_per_s: 50.0,
        open_calls: 18_000.0,
        transport_factor: 1.0,
        transactions_per_call: 2.0,
    };

    fn stage(name: &str, call_ms: f64, registration_ms: f64) -> Stage {
        Stage {
            name: name.to_owned(),
            call_ms,
            registration_ms,
            cores: 2,
            nodes: None,
        }
    }

    fn farm() -> Vec<Stage> {
        let stages = [stage("edge", 1.0, 0.4), stage("app", 40.0, 0.0)];
        stages.map(|stage| stage.sized(&DEMAND, 0.7)).to_vec()
    }

    #[test]
    fn stages_get_the_nodes_that_they_need() {
        // 0.12 of 2 cores at the edge; 4 cores of work at the applications, on 2 * 0.7 a node.
        let nodes: Vec<_> = farm().iter().map(|stage| stage.nodes).collect();
        assert_eq!(nodes, [Some(1), Some(3)]);
    }

    #[test]
    fn a_farm_is_as_strong_as_its_busiest_stage() {
        let planned = outlook("x", &DEMAND, &farm());
        assert_eq!(planned.bottleneck, "app");
        assert!((planned.utilisation - 4.0 / 6.0).abs() < 1e-9);
        assert!((planned.calls_per_s_max - 150.0).abs() < 1e-9);
        let response = planned.response.unwrap();
        let sum: f64 = planned
            .stages
            .iter()
            .map(|stage| stage.response.unwrap().mean_ms)
            .sum();
        assert!((response.mean_ms - sum).abs() < 1e-9);
        assert!(response.p50_ms < response.mean_ms && response.mean_ms < response.p99_ms);
    }

    #[test]
    fn fewer_nodes_and_more_calls_show() {
        let outlooks = outlooks(&DEMAND, &farm(), 0.2);
        let names: Vec<&str> = outlooks
            .iter()
            .map(|outlook| outlook.what.as_str())
            .collect();
        assert_eq!(
            names,
            ["as planned", "one edge fewer", "one app fewer", "+20 %"]
        );
        // The only edge is gone; two of three applications are just full.
        assert!(outlooks[1].response.is_none() && outlooks[1].utilisation.is_infinite());
        assert!(outlooks[2].response.is_none());
        assert!((outlooks[3].utilisation - 0.8).abs() < 1e-9);
    }

    #[test]
    fn dearer_transports_cost_more() {
        let dearer = Demand {
            transport_factor: 1.5,
            ..DEMAND
        };
        let planned = outlook("x", &dearer, &farm());
        assert!((planned.utilisation - 1.0).abs() < 1e-9);
    }
}
