//! The costs of requests, from the report of `scripts/bench`.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    bench::{
        kind::Kind,
        report::{Report, Table},
        results::Row,
    },
    statistics::Spread,
};

/// The report of docs/performance.md.
const COMMITTED: &str = include_str!("../../../../docs/bench.json");
/// The number of connections whose costs are used, if they were measured.
const CONNECTIONS: u16 = 64;

/// Processor time of one request, in µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Of the engine's process that serves HTTP, at half load if that costs more, and of the kernel for it.
    pub functions_us: f64,
    /// Of Redis, with what the order writer asks of it.
    pub redis_us: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Where they were measured.
    pub source: String,
    pub ticket: Cost,
    pub reserve: Cost,
    /// A refusal from the instance's memory.
    pub refusal: Cost,
    pub status: Cost,
    pub checkout: Cost,
    pub callback: Cost,
    /// Highest rates of the ledger.
    pub checkout_per_second: f64,
    pub callback_per_second: f64,
    /// Latencies at the highest rate.
    pub checkout_ms: f64,
    pub callback_ms: f64,
    /// Orders that the order writer writes in a second.
    pub writer_per_second: f64,
}

impl Costs {
    /// Reads a `bench.json`, or the committed one.
    ///
    /// # Errors
    /// If a figure is missing: the benchmark starts its own app to measure all of them.
    pub fn read(path: Option<&Path>) -> Result<Self> {
        let report = match path {
            Some(path) => Report::read(path)?,
            None => serde_json::from_str(COMMITTED).context("docs/bench.json is not of this version")?,
        };
        let measured = report.tables.iter().find(|table| table.connections == CONNECTIONS);
        let table = measured.or(report.tables.first()).context("the report has no table")?;
        let [checkout, callback] = [find(table, Kind::Checkout)?, find(table, Kind::Callback)?];
        let name = path.map_or("docs/bench.json".to_owned(), |path| path.display().to_string());
        let stack = report.stack.as_deref().unwrap_or("unknown engine and ledger");
        Ok(Self {
            source: format!("{name} ({stack}, {} connections)", table.connections),
            ticket: cost(table, Kind::Ticket)?,
            reserve: cost(table, Kind::Reserve)?,
            refusal: cost(table, Kind::SoldOut)?,
            status: cost(table, Kind::Status)?,
            checkout: cost(table, Kind::Checkout)?,
            callback: cost(table, Kind::Callback)?,
            checkout_per_second: checkout.per_second.median,
            callback_per_second: callback.per_second.median,
            checkout_ms: checkout.p50_ms,
            callback_ms: callback.p50_ms,
            writer_per_second: Spread::of(&report.writer_per_second).context("no order writer was measured")?.median,
        })
    }
}

fn find(table: &Table, kind: Kind) -> Result<&Row> {
    table.row(kind).with_context(|| format!("the report has no {}", kind.name()))
}

fn cost(table: &Table, kind: Kind) -> Result<Cost> {
    let row = find(table, kind)?;
    let measured = row.machine_us.zip(row.engine_us).zip(row.redis_us);
    let ((machine_us, engine_us), redis_us) = measured.with_context(|| {
        format!("the report has no processor time for {}: measure on Linux, without --url", kind.name())
    })?;
    // The kernel's network belongs to no process.
    let others_us = redis_us + row.writer_us.unwrap_or_default() + row.own_load * 1e6 / row.per_second.median;
    // Fewer requests share a wake-up at half load.
    let dearer_us = row.half_load_us.map_or(0.0, |half_load_us| (half_load_us - engine_us).max(0.0));
    Ok(Cost { functions_us: engine_us.max(machine_us - others_us) + dearer_us, redis_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_report_has_every_cost() {
        let costs = Costs::read(None).unwrap();
        assert!(costs.reserve.functions_us > costs.refusal.functions_us, "{costs:?}");
        assert!(costs.writer_per_second > 0.0, "{costs:?}");
    }
}
