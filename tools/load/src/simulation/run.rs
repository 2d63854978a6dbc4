//! The course of a sale, from the operator's first call to the verdict.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::gate::{Pollers, opening};
use super::observations::{Evidence, OrderSeen};
use super::plan::{Intent, crowd};
use super::progress::Progress;
use super::report::{Report, SaleFigures};
use super::rush::{VisitReport, rush};
use super::samples::{Sample, Sampler};
use super::session::Session;
use super::setup::{Rules, Terms};
use super::verdict::judge;
use super::{Options, buyers, reconcile, robots, settle, setup};
use crate::app::App;
use crate::meter::BUCKET;

/// How long after its start a gate may open: restarts are survived, a broken clock is not waited for.
const GATE_PATIENCE: Duration = Duration::from_secs(30);

/// Drives a sale and judges it.
pub async fn run(options: Options) -> Result<Report> {
    options.check()?;
    let target = options.target.resolve()?;
    let app = App::new(&target, options.connections, Duration::from_secs(options.timeout.into()))?;
    setup::greet(&app, &target.url).await?;

    let seed = options.seed.unwrap_or_else(|| fastrand::u64(..));
    let terms = Terms::new(options.skus, options.stock.into());
    let mut visits = crowd(&options, seed);
    if options.robots {
        robots::join(&mut visits, &options);
    }
    let progress = Progress::new(options.everybody(), visits.len());
    progress.say(&format!(
        "{}: {} buyers, {} × {} units, at most {} per user, seed {seed}",
        terms.activity, options.buyers, options.skus, options.stock, options.per_user
    ));

    progress.begin(&progress.signed_in);
    let users = buyers::sign_in(&app, &target, &terms, options.everybody(), &progress.signed_in).await?;
    progress.end(&progress.signed_in);

    setup::publish(&app, &terms, &Rules::of(&options)).await?;
    let starts = Instant::now() + options.start_in();
    let pollers = Pollers::start(&app, &terms);

    progress.begin(&progress.tickets);
    let holders = visits.iter().map(|visit| users[visit.buyer].clone()).collect();
    let passes = buyers::tickets(&app, &terms, holders, &progress.tickets).await?;
    progress.end(&progress.tickets);
    if Instant::now() > starts {
        progress.say("the tickets took longer than --start-in: the rush begins after the gate has opened");
    }

    let session =
        Arc::new(Session { app, options, terms, visits, users, passes, gate: pollers.view.clone(), progress });
    let verdict = hold(&session, starts).await?;
    let report = report(&session, target.url, seed, verdict);
    if !session.options.keep_open {
        setup::close(&session.app, &session.terms).await?;
    }
    Ok(report)
}

struct Course {
    opened: Instant,
    late: Duration,
    visits: BTreeMap<String, u64>,
    stock: Vec<Sample>,
    evidence: Evidence,
}

/// From the opening of the gate until the books are at rest.
async fn hold(session: &Arc<Session>, starts: Instant) -> Result<Course> {
    let progress = &session.progress;
    let swarm = session.options.robots.then(|| robots::Swarm::start(session, starts));
    let patience = starts.saturating_duration_since(Instant::now()) + GATE_PATIENCE;
    let (opened, gate) = opening(&mut session.gate.clone(), patience).await?;
    let sampler = Sampler::start(&session.app, &session.terms);

    progress.begin(&progress.reserved);
    progress.begin(&progress.orders);
    let mut reports = rush(session, opened.max(Instant::now()), gate.jitter).await?;
    if let Some(swarm) = swarm {
        reports.extend(swarm.end().await?);
    }
    progress.end(&progress.reserved);
    progress.end(&progress.orders);
    let visits = outcomes(&reports);
    progress.begin(&progress.settling);
    if !settle::settle(session).await {
        progress.say("the books did not come to rest in time: judged as they are");
    }
    progress.end(&progress.settling);
    let stock = sampler.stop();

    progress.begin(&progress.checking);
    let found = reconcile::reconcile(session, &reports).await;
    let samples = stock.iter().map(|sample| sample.stock.clone()).collect();
    let evidence = reconcile::gather(session, reports, found, samples).await?;
    progress.end(&progress.checking);
    Ok(Course { opened, late: gate.late, visits, stock, evidence })
}

fn report(session: &Session, url: String, seed: u64, course: Course) -> Report {
    let options = &session.options;
    let mut verdict = judge(&course.evidence);
    if options.robots {
        verdict.lines.push(robots::judge(session, &course.evidence.orders));
    }
    Report {
        activity: session.terms.activity.clone(),
        url,
        seed,
        sale: SaleFigures {
            buyers: options.buyers,
            skus: options.skus,
            stock: options.stock,
            per_user: options.per_user,
            pay_timeout: options.pay_timeout,
        },
        timeline_step_ms: BUCKET.as_millis() as u64,
        opened_at_ms: session.since_start(course.opened).as_millis() as u64,
        opened_late_ms: course.late.as_millis() as u64,
        steps: session.app.meter.summaries(),
        stock: course.stock,
        visits: course.visits,
        ends: ends(&course.evidence.orders),
        verdict,
        orders: course.evidence.orders,
    }
}

fn outcomes(reports: &[VisitReport]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for report in reports {
        *counts.entry(report.outcome.clone()).or_default() += 1;
    }
    counts
}

fn ends(orders: &[OrderSeen]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for order in orders {
        let wish = match order.intent {
            Intent::Pay => "to pay",
            Intent::Cancel => "to cancel",
            Intent::Leave => "to leave",
        };
        let end = order.status().map_or_else(|| "unseen".to_owned(), |status| status.to_string());
        *counts.entry(format!("{end} (meant {wish})")).or_default() += 1;
    }
    counts
}
