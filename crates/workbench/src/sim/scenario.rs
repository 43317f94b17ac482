//! A scenario: experiments that differ along axes, and what to show of their results.

use std::time::Duration;

use load::{Law, Retransmission, Stream};
use node::config::Pool;
use sim::{
    Action, Calls, Capacity, Criterion, Duty, Experiment, Link, Noise, Search, Second, ServerSetup,
    Setup, Span,
};

/// A file under experiments/.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// The heading of its results.
    pub(crate) title: String,
    /// A description in paragraphs.
    pub(crate) about: Vec<String>,
    pub(crate) seeds: usize,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Span,
    pub(crate) edges: Vec<EdgesSetup>,
    pub(crate) edge_capacity: Option<Capacity>,
    pub(crate) nodes: NodesSetup,
    /// How often edges report their open calls and transactions to each other; none: never.
    pub(crate) exchanges: Vec<(String, Option<Duration>)>,
    pub(crate) policies: Vec<PolicySetup>,
    pub(crate) servers: Vec<ServersSetup>,
    pub(crate) streams: Vec<(String, Stream)>,
    pub(crate) offered: Offered,
    pub(crate) holding: Law,
    pub(crate) retransmission: Retransmission,
    pub(crate) link: Link,
    pub(crate) actions: Vec<Action>,
    pub(crate) watches_occupancy: bool,
    pub(crate) plots: Vec<Plot>,
    pub(crate) bars: Vec<Bar>,
}

/// The policies that place calls, each with its name in plots.
#[derive(Debug)]
pub(crate) struct PolicySetup {
    pub(crate) name: String,
    pub(crate) pool: Pool,
}

/// The servers of the scenario.
#[derive(Debug)]
pub(crate) struct ServersSetup {
    pub(crate) name: String,
    pub(crate) servers: Vec<ServerSetup>,
    pub(crate) noise: Option<Noise>,
}

/// The numbers of edges, with the nodes behind them, each with its name in plots.
#[derive(Debug)]
pub(crate) struct EdgesSetup {
    pub(crate) name: String,
    pub(crate) count: usize,
    /// Nodes of the second stage; 0 if there is none.
    pub(crate) nodes: usize,
    pub(crate) users: u32,
}

/// The common properties of the nodes of a second stage.
#[derive(Debug)]
pub(crate) struct NodesSetup {
    pub(crate) duty: Duty,
    pub(crate) is_shared: bool,
    pub(crate) capacity: Option<Capacity>,
}

/// How many calls start per second.
#[derive(Debug)]
pub(crate) enum Offered {
    /// This number.
    Rate(Vec<f64>),
    /// This share of the servers' capacity.
    Load(Vec<f64>),
    /// As many as the system carries: the run searches for this rate.
    Peak(Search),
}

/// A plot of results.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) title: String,
    /// An axis of the scenario; none for the occupancy of the first server.
    pub(crate) x: Option<AxisName>,
    /// Metrics. If there are several, the plot shows the first as marks and the others as lines.
    pub(crate) y: Vec<String>,
    pub(crate) is_log: bool,
    /// Whether an interval covers one more run, not the mean.
    pub(crate) is_of_one_run: bool,
    /// The values to show of each axis. An axis without values is shown whole.
    pub(crate) only: Selection,
    pub(crate) stated: Vec<Stated>,
}

/// A number that the paper states in its text.
#[derive(Debug)]
pub(crate) struct Stated {
    pub(crate) curve: String,
    pub(crate) x: String,
    pub(crate) y: f64,
}

/// A claim about the results, which holds or does not.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) says: String,
    pub(crate) metric: String,
    pub(crate) of: Selection,
    /// If given, the results above are divided by the results of this.
    pub(crate) over: Option<Selection>,
    pub(crate) bound: Bound,
}

/// The bounds of the value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    Least(f64),
    Most(f64),
}

/// The things that can vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AxisName {
    Policy,
    Servers,
    Edges,
    Exchange,
    Arrivals,
    Offered,
}

/// The values of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) name: AxisName,
    /// The name in the file and in the results.
    pub(crate) key: &'static str,
    pub(crate) values: Vec<String>,
}

/// Values of some axes.
pub(crate) type Selection = Vec<(AxisName, Vec<String>)>;

/// The index of a point on each axis.
pub(crate) type Place = [usize; AxisName::ALL.len()];

impl AxisName {
    pub(crate) const ALL: [Self; 6] = [
        Self::Policy,
        Self::Servers,
        Self::Edges,
        Self::Exchange,
        Self::Arrivals,
        Self::Offered,
    ];
}

impl Scenario {
    /// The things that vary, or can vary.
    pub(crate) fn axes(&self) -> [Axis; AxisName::ALL.len()] {
        let numbers = |values: &[f64]| values.iter().map(ToString::to_string).collect();
        let (offered, rates) = match &self.offered {
            Offered::Rate(rates) => ("rate", numbers(rates)),
            Offered::Load(loads) => ("load", numbers(loads)),
            Offered::Peak(_) => ("rate", vec!["peak".to_owned()]),
        };
        let policies = self.policies.iter().map(|policy| policy.name.clone());
        let servers = self.servers.iter().map(|servers| servers.name.clone());
        let exchanges = self.exchanges.iter().map(|(name, _)| name.clone());
        let streams = self.streams.iter().map(|(name, _)| name.clone());
        let axis = |name, key, values| Axis { name, key, values };
        [
            axis(AxisName::Policy, "policy", policies.collect()),
            axis(AxisName::Servers, "servers", servers.collect()),
            axis(
                AxisName::Edges,
                "edges",
                self.edges.iter().map(|edges| edges.name.clone()).collect(),
            ),
            axis(AxisName::Exchange, "exchange", exchanges.collect()),
            axis(AxisName::Arrivals, "arrivals", streams.collect()),
            axis(AxisName::Offered, offered, rates),
        ]
    }

    /// All points, with the policies side by side.
    pub(crate) fn places(&self) -> Vec<Place> {
        let axes = self.axes();
        let mut places = vec![[0; AxisName::ALL.len()]];
        for axis in AxisName::ALL.into_iter().rev() {
            let count = axes[axis as usize].values.len();
            let with = |place: &Place, value| {
                let mut place = *place;
                place[axis as usize] = value;
                place
            };
            places = places
                .iter()
                .flat_map(|place| (0..count).map(move |value| with(place, value)))
                .collect();
        }
        places
    }

    /// The experiment of a point.
    pub(crate) fn experiment(&self, place: &Place) -> Experiment {
        let [policy, servers, edges, exchange, arrivals, offered] = *place;
        let servers = &self.servers[servers];
        let edges = &self.edges[edges];
        let calls = Calls {
            rate: 0.0,
            stream: self.streams[arrivals].1,
            holding: self.holding,
            retransmission: self.retransmission,
        };
        let mut setup = Setup {
            edges: edges.count,
            edge_capacity: self.edge_capacity,
            second: self.second(edges),
            workers: 1,
            pool: self.policies[policy].pool.clone(),
            servers: servers.servers.clone(),
            exchange: self.exchanges[exchange].1,
            calls,
            link: self.link,
        };
        setup.calls.rate = match &self.offered {
            Offered::Rate(rates) => rates[offered],
            Offered::Load(loads) => loads[offered] * setup.capacity(),
            Offered::Peak(search) => search.high,
        };
        Experiment {
            setup,
            warm_up: self.warm_up,
            measured: self.measured,
            actions: self.actions.clone(),
            noise: servers.noise,
            watches_occupancy: self.watches_occupancy,
        }
    }

    fn second(&self, edges: &EdgesSetup) -> Option<Second> {
        (edges.nodes > 0).then_some(Second {
            nodes: edges.nodes,
            duty: self.nodes.duty,
            users: edges.users,
            is_shared: self.nodes.is_shared,
            capacity: self.nodes.capacity,
        })
    }

    /// The search for a point's peak, if the scenario has one. Its bounds are shares of the
    /// capacity.
    pub(crate) fn search(&self, experiment: &Experiment) -> Option<Search> {
        let Offered::Peak(search) = &self.offered else {
            return None;
        };
        let capacity = experiment.setup.capacity();
        Some(Search {
            low: search.low * capacity,
            high: search.high * capacity,
            step: search.step * capacity,
            ..*search
        })
    }

    /// Shortens the scenario: enough to see that it works.
    pub(crate) fn hurry(&mut self) {
        self.seeds = self.seeds.min(2);
        self.warm_up /= 4;
        self.measured = match self.measured {
            Span::Time(time) => Span::Time(time / 10),
            Span::Calls(calls) => Span::Calls(calls / 10),
        };
        for action in &mut self.actions {
            action.at /= 10;
        }
    }
}

/// The default criterion of a carried rate: the paper's share, and SIP's own timeout.
pub(crate) const CRITERION: Criterion = Criterion {
    within: Duration::from_secs(32),
    share: 0.9999,
};
