//! The processor time that a call needs at each station: one table and one JSON form for all
//! sources.

use capture::Demand;
use report::Table;
use serde::Serialize;

/// The demand of a call at a station, as JSON.
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

/// The demands in a model.
pub(super) fn stations(demands: &[Demand]) -> Table {
    let columns = [
        "station",
        "servers",
        "demand of a call, ms",
        "carries at most, calls/s",
    ];
    let mut table = Table::new("Demand of a call", columns);
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
