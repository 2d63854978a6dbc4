//! `GET /metrics`: metrics in Prometheus' text format.

use operations::commands::{
    metrics::{self, Figures, LedgerState},
    stats::{self, RecentStats},
};
use platform::{
    auth, clock,
    http::{ApiError, Request, Response},
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
    settings,
};
use sale::ledger::activities;
use stores::{
    StoreError,
    counts::{self, Count},
    ledger,
    shared_value::SharedValue,
};

/// The ledger's state, for all scrapers. While one scrape reads it, the others use the last one.
const LEDGER_STATE: SharedValue<'_> = SharedValue {
    key: "metrics:ledger",
    lease_key: "stampede:metrics",
    lease_ms: 15_000,
    fresh_ms: Some(3_000),
    max_age_ms: 10_000,
    max_wait_ms: 500,
};

/// The activities that Redis may have, for all scrapers. While the ledger is away, the last list is used.
const LISTED: SharedValue<'_> = SharedValue {
    key: "metrics:activities",
    lease_key: "stampede:metrics:activities",
    max_age_ms: 24 * 3_600 * 1_000,
    ..LEDGER_STATE
};

/// Returns the stats of the activities that have not ended, or ended within the last day, and the ledger's backlog.
/// Needs the admin or metrics token: the figures tell a competitor how a sale goes.
pub async fn get(request: &Request) -> Result<Response, ApiError> {
    if !auth::may_monitor(request).await {
        return Err(auth::missing_token());
    }
    let list = async || {
        let ledger = SpinLedger::open().await;
        activities::list_in_redis(&ledger, ledger::clock::Clock::Ledger).await
    };
    // Every activity is read by itself, so a Redis that is away is found out first.
    let redis = available("redis", SpinRedis.now().await);
    // A Redis that can write nothing answers all the same: one whose disk is full, or a replica.
    let scrape = [(Count::Work { kind: "scrape", result: "ok" }, 1)];
    let redis_writes = redis.is_some() && available("redis", counts::add(&SpinRedis, &scrape).await).is_some();
    let redis_ahead_ms = redis.map(|now| now.0 - clock::now().0);
    let counts = match redis {
        Some(_) => available("redis", counts::read(&SpinRedis).await).unwrap_or_default(),
        None => Vec::new(),
    };
    let activities = match available("ledger", LISTED.get(&SpinRedis, &SpinKeyValue, |_| true, list).await) {
        Some(listed) if redis.is_some() => Some(stats::recent_stats(&SpinRedis, listed).await),
        _ => None,
    };
    for (activity, error) in activities.iter().flat_map(|stats| &stats.failures) {
        let fields = [("activity", activity.as_str().into()), ("because", error.to_string().into())];
        log::error("metrics without an activity", &fields);
    }
    let ledger = available("ledger", ledger_state(activities.as_ref()).await);
    let text = metrics::text(Figures {
        version: env!("CARGO_PKG_VERSION"),
        redis: activities.as_ref(),
        redis_writes,
        counts: &counts,
        redis_ahead_ms,
        ledger: ledger.as_ref(),
        now: clock::now(),
    });
    let response = Response::with_body(200, "text/plain; version=0.0.4; charset=utf-8", text);
    Ok(response.header("cache-control", "no-store"))
}

/// Logs an error of a store.
fn available<T>(store: &str, result: Result<T, StoreError>) -> Option<T> {
    let log_error = |error: &StoreError| {
        let fields = [("store", store.into()), ("because", error.to_string().into())];
        log::error("metrics without a store", &fields);
    };
    result.inspect_err(log_error).ok()
}

async fn ledger_state(activities: Option<&RecentStats>) -> Result<LedgerState, StoreError> {
    // A wrong variable is for readiness to report.
    let url = settings::find(settings::EVENTS_URL).await.unwrap_or_default();
    let load = async || LedgerState::load(&SpinLedger::open().await, activities, &url).await;
    LEDGER_STATE.get(&SpinRedis, &SpinKeyValue, |_| true, load).await
}
