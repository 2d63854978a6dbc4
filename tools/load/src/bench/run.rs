//! The course of a benchmark: prepare, warm up, measure, tell.

use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};

use super::options::Options;
use super::own_app::OwnApp;
use super::prepare::{open_sale, reservations, sell_out, tickets};
use super::report::{Report, Results};
use super::rounds::Bench;
use super::server::Server;
use crate::app::App;
use crate::simulation::{buyers, setup};

/// Backlogs that the order writer drains.
const BACKLOGS: u32 = 3;
/// Measurements over HTTP per round: six, and hello world around each.
const STEPS_PER_ROUND: u64 = 11;

/// Measures; with an app of its own also how fast the order writer drains a backlog.
pub async fn run(options: Options, own: Option<&OwnApp>) -> Result<Report> {
    options.check()?;
    let target = options.target.resolve()?;
    let app = App::new(&target, options.connections, Duration::from_secs(10))?;
    setup::greet(&app, &target.url).await?;
    let server = Server::new(&target.url)?;

    let bar = ProgressBar::new(STEPS_PER_ROUND * u64::from(options.rounds));
    bar.set_style(
        ProgressStyle::with_template("{bar:32} {pos}/{len} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_message("preparing");
    let (rounds, reserves) = (options.rounds, options.reserves as usize);
    // Each user reserves one unit in each round, in the warm-up, and for each backlog.
    let per_user = rounds + 1 + BACKLOGS;
    let plenty = open_sale(&app, i64::from(options.reserves) * i64::from(per_user), per_user).await?;
    let sold_out = open_sale(&app, 1, 1).await?;
    let users = buyers::sign_in(&app, &target, &plenty.terms, reserves, &ProgressBar::hidden()).await?;
    let (_, some) = tickets(&server, &options, &sold_out, &users[..usize::from(options.connections) + 1]).await?;
    sell_out(&app, &sold_out, &some).await?;
    let refused = reservations(&server, &sold_out, &some[1..])?;

    let bench = Bench { options, app, server, plenty, sold_out, users, refused };
    let warm_up = reserves.min(2000);
    bench.round(0.3, warm_up, &mut Results::default(), &ProgressBar::hidden()).await?;
    let mut results = Results::default();
    for _ in 0..rounds {
        bench.round(bench.options.seconds, reserves, &mut results, &bar).await?;
    }
    if let Some(own) = own {
        bar.set_message("order writer");
        for _ in 0..BACKLOGS {
            bench.backlog(own, &mut results).await?;
        }
        results.writer_goal = if own.has_postgres() { 10_000.0 } else { 20_000.0 };
        if bench.options.endurance {
            bar.set_message("endurance");
            results.endurance = Some(bench.endurance(own).await?);
        }
    }
    bar.finish_and_clear();
    for sale in [&bench.plenty, &bench.sold_out] {
        setup::close(&bench.app, &sale.terms).await?;
    }

    Ok(results.report())
}
