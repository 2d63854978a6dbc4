//! Runs a benchmark: prepares, warms up, measures, reports.

use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;

use super::options::Options;
use super::prepare::{fetch_tickets, open_activity, reservation_requests, sell_out};
use super::report::Report;
use super::results::Results;
use super::rounds::Bench;
use super::server::Server;
use super::spawned_app::SpawnedApp;
use crate::app::App;
use crate::simulation::{buyers, progress::style, setup};

/// Number of pauses of the order writer, each followed by a measurement of how fast it drains the queue.
const WRITER_PAUSES: u32 = 3;
/// Seconds per measurement and reservations of the round that warms up, at most.
const WARM_UP: (f64, usize) = (0.3, 2_000);

/// Measures the app. For a spawned app also measures how fast the order writer drains the queue after a pause.
pub async fn run(options: Options, spawned_app: Option<&SpawnedApp>) -> Result<Report> {
    options.validate()?;
    let target = options.target.resolve()?;
    let connections = options.most_connections();
    let app = App::new(&target, connections, Duration::from_secs(10))?;
    setup::check_reachable(&app, &target.url).await?;
    let server = Server::new(&target.url)?;
    let floors = options.floors.as_deref().map(Server::new).transpose()?;

    let (rounds, reserves, tables) = (options.rounds, options.reserves as usize, options.connections.clone());
    let bar = ProgressBar::new(u64::from(rounds) * tables.len() as u64);
    bar.set_style(style("{bar:32} {pos}/{len} {msg} {elapsed}"));
    bar.set_message("preparing");
    let per_user = (rounds + 1) * u32::try_from(tables.len())? + WRITER_PAUSES;
    let in_stock = open_activity(&app, i64::from(options.reserves) * i64::from(per_user), per_user).await?;
    let sold_out = open_activity(&app, 1, 1).await?;
    let user_tokens = buyers::sign_in(&app, &target, &in_stock.activity, reserves, &ProgressBar::hidden()).await?;
    let refused_users = &user_tokens[..reserves.min(usize::from(connections) + 1)];
    let sold_out_tickets = fetch_tickets(&server, connections, &sold_out, refused_users).await?;
    sell_out(&app, &sold_out, &sold_out_tickets).await?;
    let sold_out_requests = reservation_requests(&server, &sold_out, &sold_out_tickets[1..])?;

    let bench = Bench { options, spawned_app, app, server, floors, in_stock, sold_out, user_tokens, sold_out_requests };
    let on_postgres = spawned_app.is_some_and(SpawnedApp::uses_postgres);
    let mut report = Report {
        stack: spawned_app
            .map(|app| format!("{} engine, {}", app.engine(), if on_postgres { "PostgreSQL" } else { "SQLite" })),
        cores: available_parallelism()?.get(),
        writer_goal: if on_postgres { 25_000.0 } else { 32_000.0 },
        ..Report::default()
    };
    for connections in tables {
        let (seconds, warm_up) = WARM_UP;
        let warm_up = (seconds.min(bench.options.seconds), reserves.min(warm_up));
        bench.run_round(connections, warm_up, &mut Results::default(), &ProgressBar::hidden()).await?;
        let mut results = Results::default();
        for _ in 0..rounds {
            bench.run_round(connections, (bench.options.seconds, reserves), &mut results, &bar).await?;
            bar.inc(1);
        }
        for (what, count) in std::mem::take(&mut results.unexpected) {
            *report.unexpected.entry(what).or_default() += count;
        }
        report.tables.push(results.into_table(connections, on_postgres));
    }
    if let Some(spawned_app) = spawned_app {
        bar.set_message("order writer");
        for _ in 0..WRITER_PAUSES {
            let drain = bench.measure_drain_after_pause(spawned_app, &mut report.unexpected).await?;
            report.drains_after_pause.extend(drain);
        }
    }
    bar.finish_and_clear();
    for opened in [&bench.in_stock, &bench.sold_out] {
        setup::close(&bench.app, &opened.activity).await?;
    }
    Ok(report)
}
