//! Runs a sale, from the operator's first request to the verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{
    Options, buyers,
    context::RunContext,
    finish,
    gate::{GatePoller, wait_until_open},
    line::{state::LineState, summary::LineSummary},
    observations::{Observations, ObservedOrder},
    plan::{Intent, draw_visits},
    progress::Progress,
    reconcile,
    report::{Report, SaleParameters},
    samples::{StockSample, StockSampler},
    setup::{self, Rules, TestActivity},
    verdict::evaluate,
    visits::run_visits,
};
use crate::{app::App, meter::BUCKET};

/// How long after its start the gate may open. Covers a restart of the app, but not a wrong clock.
const GATE_TIMEOUT: Duration = Duration::from_secs(30);

/// Simulates a sale and checks it. However that ends, the sale is closed.
pub async fn run(options: Options) -> Result<Report> {
    options.validate()?;
    let target = options.target.resolve()?;
    let app = App::new(&target, options.connections, Duration::from_secs(options.timeout.into()))?;
    setup::check_reachable(&app, &target.url).await?;

    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let activity = TestActivity::new(options.skus, options.stock.into());
    let visits = draw_visits(&options, seed);
    let buyer_count = (options.buyers + options.line.robots) as usize;
    let progress = Progress::new(buyer_count, visits.len());
    progress.print(&format!(
        "{}: {} buyers, {} × {} units, at most {} per user, seed {seed}",
        activity.id, options.buyers, options.skus, options.stock, options.per_user
    ));

    progress.begin(&progress.signed_in);
    let user_tokens = buyers::sign_in(&app, &target, &activity, 0..buyer_count, &progress.signed_in).await?;
    progress.end(&progress.signed_in);

    let sale = async {
        setup::publish(&app, &activity, &Rules::from_options(&options)).await?;
        let starts_at = Instant::now() + options.start_in();
        let poller = GatePoller::start(&app, &activity);
        progress.begin(&progress.tickets);
        let tokens = visits.iter().map(|visit| user_tokens[visit.buyer].clone()).collect();
        let tickets = buyers::fetch_tickets(&app, &activity, tokens, &progress.tickets).await?;
        progress.end(&progress.tickets);
        if Instant::now() > starts_at {
            progress.print("the tickets took longer than --start-in: the rush begins after the gate has opened");
        }
        let acting = visits.iter().filter(|visit| !visit.is_robot).count();
        let run = Arc::new(RunContext {
            app: app.clone(),
            options,
            activity: activity.clone(),
            visits,
            user_tokens,
            tickets,
            gate: poller.view.clone(),
            line: LineState::new(acting),
            progress,
        });
        let outcome = run_sale(&run, starts_at).await?;
        build_report(&run, target.url, seed, outcome)
    };
    let report = sale.await;
    let closed = setup::close(&app, &activity).await;
    let state = if closed.is_ok() { "closed" } else { "perhaps still published" };
    let report = report.with_context(|| format!("the sale {} broke off and is {state}", activity.id))?;
    closed.map(|()| report)
}

struct SaleOutcome {
    opened_at: Instant,
    opened_late: Duration,
    visits: BTreeMap<String, u64>,
    stock: Vec<StockSample>,
    observations: Observations,
}

/// Runs the sale from the opening of the gate until it is finished, and collects the observations.
async fn run_sale(run: &Arc<RunContext>, starts_at: Instant) -> Result<SaleOutcome> {
    let progress = &run.progress;
    let timeout = starts_at.saturating_duration_since(Instant::now()) + GATE_TIMEOUT;
    let (opened_at, gate) = wait_until_open(&mut run.gate.clone(), timeout).await?;
    let sampler = StockSampler::start(&run.app, &run.activity);

    progress.begin(&progress.reserved);
    progress.begin(&progress.orders);
    let visits = run_visits(run, opened_at.max(Instant::now()), gate.jitter);
    let (reports, unoffered) = if run.options.line.is_on() {
        let (reports, unoffered) = tokio::try_join!(visits, end_line(run))?;
        (reports, Some(unoffered))
    } else {
        (visits.await?, None)
    };
    progress.end(&progress.reserved);
    progress.end(&progress.orders);
    let visits = count(reports.iter().map(|report| report.outcome.clone()));
    progress.begin(&progress.finishing);
    if !finish::wait_until_finished(run).await.is_finished {
        progress.print("orders were still open at the deadline");
    }
    progress.end(&progress.finishing);
    let stock = sampler.stop();

    progress.begin(&progress.checking);
    let recovered = reconcile::recover_orders(run, &reports).await?;
    let stock_samples = stock.iter().map(|sample| sample.stock.clone()).collect();
    let observations =
        Observations { unoffered, ..reconcile::collect_observations(run, reports, recovered, stock_samples).await? };
    progress.end(&progress.checking);
    Ok(SaleOutcome { opened_at, opened_late: gate.opened_late, visits, stock, observations })
}

/// Waits until the line moves no more and closes the sale, which ends it. Returns the SKUs whose units stayed free.
async fn end_line(run: &RunContext) -> Result<BTreeSet<String>> {
    let finish = finish::wait_until_finished(run).await;
    setup::close(&run.app, &run.activity).await?;
    run.line.end();
    Ok(finish.unoffered)
}

fn build_report(run: &RunContext, url: String, seed: u64, outcome: SaleOutcome) -> Result<Report> {
    let options = &run.options;
    Ok(Report {
        activity: run.activity.id.clone(),
        url,
        seed,
        sale: SaleParameters {
            buyers: options.buyers,
            skus: options.skus,
            stock: options.stock,
            per_user: options.per_user,
            pay_timeout: options.pay_timeout,
        },
        timeline_step_ms: BUCKET.as_millis() as u64,
        opened_at_ms: run.since_start(outcome.opened_at).as_millis() as u64,
        opened_late_ms: outcome.opened_late.as_millis() as u64,
        steps: run.app.meter.summaries()?,
        stock: outcome.stock,
        visits: outcome.visits,
        line: options.line.is_on().then(|| LineSummary::of(&outcome.observations.orders)),
        ends: count(outcome.observations.orders.iter().map(describe_end)),
        verdict: evaluate(&outcome.observations),
        orders: outcome.observations.orders,
    })
}

/// What an order's buyer wanted, and how it ended.
fn describe_end(order: &ObservedOrder) -> String {
    if let Some(reason) = order.reason.as_ref().filter(|_| order.is_entry()) {
        return format!("{reason} (in line)");
    }
    let intent = match order.intent {
        Intent::Pay => "to pay",
        Intent::Open => "to open the payment page",
        Intent::Cancel => "to cancel",
        Intent::Leave => "to leave",
    };
    let end = order.status().map_or_else(|| "unseen".to_owned(), |status| status.to_string());
    format!("{end} (meant {intent})")
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}
