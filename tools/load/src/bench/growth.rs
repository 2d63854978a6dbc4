//! Measures a table for each size, as the sale's orders, the open activities or the app processes grow.

use std::time::Duration;

use anyhow::{Context, Result};
use dev::app::App as AppProcess;

use super::{context::Bench, dimension::Dimension, report::Report, rounds, sale::Sale, server::Server};
use crate::simulation::setup::{self, Rules, TestActivity, publish};

/// Reservations of a round. Few, because they add to the orders of the sale.
const RESERVES: usize = 2_000;

/// Measures the dimensions that `--growth` names, one after the other.
pub async fn measure(bench: &mut Bench<'_>, requested: &[Dimension], report: &mut Report) -> Result<()> {
    let connections = bench.options.most_connections();
    let requested = |dimension: &Dimension| requested.is_empty() || requested.contains(dimension);
    let sizes = |dimension: Dimension| dimension.sizes(bench.options.growth_orders).into_iter();
    let points: Vec<_> = Dimension::ALL
        .into_iter()
        .filter(requested)
        .flat_map(|dimension| sizes(dimension).map(move |size| (dimension, size)))
        .collect();
    bench.bar.set_length(points.len() as u64 * u64::from(bench.options.rounds));
    for points in points.chunk_by(|one, next| one.0 == next.0) {
        let (mut processes, mut activities) = (Vec::new(), Vec::new());
        for &(dimension, size) in points {
            let mut orders = 0;
            match dimension {
                Dimension::Orders => orders = size,
                Dimension::Activities => open_activities(bench, &mut activities, size - 1).await?,
                Dimension::Processes => start_processes(bench, &mut processes, size - 1)?,
            }
            let sale = Sale::open(bench, RESERVES, orders).await?;
            let results = rounds::measure(bench, &sale, connections).await?;
            report.add(results, format!("{size} {}", dimension.name()), Some(dimension), connections);
            sale.close(bench).await?;
        }
        bench.server = Server::new(&bench.target.url)?;
        for activity in activities {
            setup::close(&bench.app, &activity).await?;
        }
    }
    Ok(())
}

/// Opens activities until there are `count`.
async fn open_activities(bench: &Bench<'_>, activities: &mut Vec<TestActivity>, count: usize) -> Result<()> {
    for number in activities.len()..count {
        bench.bar.set_message(format!("opening activities: {number} of {count}"));
        let rules = Rules { start_in: Duration::ZERO, pay_timeout: 3600, per_user: 1, line: None };
        let mut activity = TestActivity::new(1, 10);
        activity.id = format!("{}-{number}", activity.id);
        publish(&bench.app, &activity, &rules).await?;
        activities.push(activity);
    }
    Ok(())
}

/// Starts app processes beside the first until there are `count`.
fn start_processes(bench: &mut Bench<'_>, processes: &mut Vec<AppProcess>, count: usize) -> Result<()> {
    let first = bench.spawned_app.context("an app of the benchmark's own")?;
    for number in processes.len()..count {
        bench.bar.set_message(format!("starting app processes: {number} of {count}"));
        let process = first.start_another_process(number + 1)?;
        bench.server.add_process(process.url())?;
        processes.push(process);
    }
    Ok(())
}
