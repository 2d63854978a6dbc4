//! Runs a benchmark: a table for each number of connections and the order writer's rate, or the tables of growth.

use std::{collections::BTreeMap, thread::available_parallelism};

use anyhow::Result;

use super::{context::Bench, growth, options::Options, report::Report, rounds, sale::Sale, spawned_app::SpawnedApp};
use crate::target::Target;

/// Number of pauses of the order writer, each followed by a measurement of how fast it drains the queue.
const WRITER_PAUSES: u32 = 3;

/// Measures the app at `target` and the floors beside it. For a spawned app also measures how fast the order writer
/// drains the queue.
pub async fn run(
    options: &Options,
    target: Target,
    floors: Option<&str>,
    spawned_app: Option<&SpawnedApp>,
) -> Result<Report> {
    let mut bench = Bench::new(options, target, floors, spawned_app).await?;
    let on_postgres = spawned_app.is_some_and(SpawnedApp::uses_postgres);
    let ledger = if on_postgres { "PostgreSQL" } else { "SQLite" };
    let mut report = Report {
        stack: spawned_app.map(|app| format!("{} engine, {ledger}", app.engine())),
        on_postgres,
        cores: available_parallelism()?.get(),
        ..Report::default()
    };
    if let Some(dimensions) = &options.growth {
        growth::measure(&mut bench, dimensions, &mut report).await?;
    } else {
        bench.bar.set_length(u64::from(options.rounds) * options.connections.len() as u64);
        for &connections in &options.connections {
            let sale = Sale::open(&bench, options.reserves as usize, 0).await?;
            let results = rounds::measure(&bench, &sale, connections).await?;
            report.add(results, format!("{connections} connections"), None, connections);
            if let Some(spawned_app) = spawned_app {
                bench.bar.set_message("order writer");
                for _ in 0..WRITER_PAUSES {
                    let rate = drain_after_pause(&bench, &sale, spawned_app, &mut report.unexpected).await?;
                    report.writer_per_second.push(rate);
                }
            }
            sale.close(&bench).await?;
        }
    }
    bench.bar.finish_and_clear();
    Ok(report)
}

/// Pauses the order writer while reservations fill the queue, and measures how fast the writer drains it. Adds
/// unexpected responses to `unexpected`.
async fn drain_after_pause(
    bench: &Bench<'_>,
    sale: &Sale,
    spawned_app: &SpawnedApp,
    unexpected: &mut BTreeMap<String, u64>,
) -> Result<f64> {
    let tickets = bench.fetch_tickets(&sale.in_stock, &sale.buyers).await?;
    spawned_app.pause_writer(true)?;
    let reservations = bench.reserve(&sale.in_stock, &tickets).await;
    spawned_app.pause_writer(false)?;
    for (what, count) in reservations?.unexpected {
        *unexpected.entry(format!("reserve, writer paused: {what}")).or_default() += count;
    }
    bench.wait_until_drained(&sale.in_stock).await
}
