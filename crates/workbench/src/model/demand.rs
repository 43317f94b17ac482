//! What a call asks of each station: the same table and JSON, whatever it was found from.

use capture::Demand;
use report::Table;
use serde::Serialize;

/// A demand as JSON.
#[derive(Serialize)]
pub(super) struct Station<'d> {
    station: &'d str,
    servers: u32,
    demand_ms: f64,
    calls_per_s: Option<f64>,
}

impl<'d> From<&'d Demand> for Station<'d> {
    fn from(demand: &'d Demand) -> Self {
        Self {
            station: &demand.station,
            servers: demand.servers,
            demand_ms: demand.demand_ms,
            calls_per_s: Some(demand.calls_per_s).filter(|rate| rate.is_finite()),
        }
    }
}

/// The demands of a model.
pub(super) fn stations(demands: &[Demand]) -> Table {
    let columns = [
        "station",
        "servers",
        "demand of a call, ms",
        "carries at most, calls/s",
    ];
    let mut table = Table::new("What a call asks for", columns);
    for demand in demands {
        table.push([
            demand.station.clone(),
            demand.servers.to_string(),
            format!("{:.4}", demand.demand_ms),
            match demand.calls_per_s.is_finite() {
                true => format!("{:.1}", demand.calls_per_s),
                false => "-".to_owned(),
            },
        ]);
    }
    table
}
