//! Runs a benchmark: prepares, warms up, measures, reports.

use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;

use super::options::Options;
use super::prepare::{fetch_tickets, open_activity, reservation_requests, sell_out};
use super::report::{Report, Results};
use super::rounds::Bench;
use super::server::Server;
use super::spawned_app::SpawnedApp;
use crate::app::App;
use crate::simulation::{buyers, progress::style, setup};

/// Number of pauses of the order writer, each followed by a measurement of how fast it drains the queue.
const WRITER_PAUSES: u32 = 3;
/// Progress bar steps per round: seven hello-world measurements and four others. Tickets and reservations do not
/// advance the bar.
const STEPS_PER_ROUND: u64 = 11;

/// Measures the app. For a spawned app also measures how fast the order writer drains the queue after a pause.
pub async fn run(options: Options, spawned_app: Option<&SpawnedApp>) -> Result<Report> {
    options.validate()?;
    let target = options.target.resolve()?;
    let app = App::new(&target, options.connections, Duration::from_secs(10))?;
    setup::check_reachable(&app, &target.url).await?;
    let server = Server::new(&target.url)?;

    let bar = ProgressBar::new(STEPS_PER_ROUND * u64::from(options.rounds));
    bar.set_style(style("{bar:32} {pos}/{len} {msg} {elapsed}"));
    bar.set_message("preparing");
    let (rounds, reserves) = (options.rounds, options.reserves as usize);
    // Each user reserves one unit per round, one in the warm-up, and one per pause of the writer.
    let per_user = rounds + 1 + WRITER_PAUSES;
    let in_stock = open_activity(&app, i64::from(options.reserves) * i64::from(per_user), per_user).await?;
    let sold_out = open_activity(&app, 1, 1).await?;
    let user_tokens = buyers::sign_in(&app, &target, &in_stock.activity, reserves, &ProgressBar::hidden()).await?;
    let (_, sold_out_tickets) =
        fetch_tickets(&server, &options, &sold_out, &user_tokens[..usize::from(options.connections) + 1]).await?;
    sell_out(&app, &sold_out, &sold_out_tickets).await?;
    let sold_out_requests = reservation_requests(&server, &sold_out, &sold_out_tickets[1..])?;

    let bench = Bench { options, app, server, in_stock, sold_out, user_tokens, sold_out_requests };
    let warm_up = reserves.min(2000);
    bench.run_round(0.3, warm_up, &mut Results::default(), &ProgressBar::hidden()).await?;
    let mut results = Results::default();
    for _ in 0..rounds {
        bench.run_round(bench.options.seconds, reserves, &mut results, &bar).await?;
    }
    if let Some(spawned_app) = spawned_app {
        bar.set_message("order writer");
        for _ in 0..WRITER_PAUSES {
            bench.measure_drain_after_pause(spawned_app, &mut results).await?;
        }
        results.report.writer_goal = if spawned_app.uses_postgres() { 10_000.0 } else { 20_000.0 };
        if bench.options.endurance {
            bar.set_message("endurance");
            results.report.endurance = Some(bench.measure_endurance(spawned_app).await?);
        }
    }
    bar.finish_and_clear();
    for opened in [&bench.in_stock, &bench.sold_out] {
        setup::close(&bench.app, &opened.activity).await?;
    }

    Ok(results.into_report())
}
