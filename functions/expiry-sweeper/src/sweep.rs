//! `POST /api/tasks/sweep`: runs one sweep and returns its report (G3).

use std::time::Instant;

use domain::http::routes::ExpirySweeper;
use operations::{
    commands::documents::{NotSwept, Swept},
    upkeep::{
        report::{Notice, Report},
        sweep::{SweepOutcome, Sweeper},
    },
};
use orders::event_delivery::WebhookTarget;
use payments::provider::RetryPolicy;
use platform::{
    auth, clock, counts,
    http::{ApiError, Request, Response},
    http_client::SpinHttpClient,
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    log, provider, random,
    redis::SpinRedis,
    settings::{self, Retention},
};
use stores::{counts::Count, ledger};
use ulid::Ulid;

/// Runs a sweep, unless another sweeper is at work.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    let (ExpirySweeper::Sweep, _) = request.route()?;
    auth::require_cron_token(request).await?;
    let started = Instant::now();
    let result = sweep(started).await;
    if !matches!(result, Ok(None)) {
        counts::add_work("sweep", &result);
    }
    let Some(report) = result? else {
        return Ok(Response::json(200, &NotSwept { swept: false, because: "another sweeper is at work" }));
    };
    for (result, messages) in [
        ("written", report.written),
        ("redelivered", report.redelivered),
        ("resent", report.resent),
        ("failed", report.failed),
        ("unanswered", report.unanswered),
        ("newer", report.newer),
        ("unreadable", report.unreadable),
    ] {
        counts::add(Count::Work { kind: "message", result }, messages);
    }
    let duration_ms = started.elapsed().as_millis() as i64;
    Ok(Response::json(200, &Swept { swept: true, report: &report, duration_ms }))
}

/// Returns the report of a sweep; `None` if another sweeper is at work.
async fn sweep(started: Instant) -> Result<Option<Box<Report>>, ApiError> {
    let ticket_secret = settings::load(settings::TICKET_SECRET).await?;
    let provider = provider::from_settings(RetryPolicy::SWEEPER).await.ok();
    let url = settings::load(settings::EVENTS_URL).await?;
    let secrets = settings::load(settings::EVENTS_SECRETS).await?;
    let sql = SpinLedger::open_for_batch().await;
    // Without Redis nothing is erased.
    let redis_now = SpinRedis.now().await.ok();
    let now = ledger::clock::now(&sql).await?;
    let sweeper = Sweeper {
        redis: &SpinRedis,
        key_value: &SpinKeyValue,
        sql: &sql,
        provider: provider.as_ref(),
        http: &SpinHttpClient,
        events: (!url.is_empty()).then_some(WebhookTarget { url: &url, secrets: &secrets }),
        ticket_secret: &ticket_secret,
        // With a wrong variable, nothing of its kind is erased.
        retention: Retention {
            address_days: settings::load(settings::ADDRESS_DAYS).await.map_or(None, |days| *days),
            activity_days: settings::load(settings::ACTIVITY_DAYS).await.map_or(None, |days| *days),
        },
        owner: &Ulid::from_parts(clock::now().0.unsigned_abs(), random::bits()).to_string(),
        clock: &clock::now,
        redis_ahead_ms: redis_now.map(|redis_now| redis_now.0 - now.0),
        stopwatch: &|| started.elapsed(),
        log: &|Notice { event, subject: (kind, id), because }| {
            log::error(event, &[(*kind, id.as_str().into()), ("because", because.as_str().into())]);
        },
    };
    let SweepOutcome::Swept(report, error) = sweeper.run(now).await? else {
        return Ok(None);
    };
    error.map_or(Ok(Some(report)), |error| Err(error.into()))
}
