//! `GET /metrics`: metrics in Prometheus' text format.
//!
//! Label values are ids, which contain no characters that need escaping.

use std::fmt::Write as _;

use domain::ids::ActivityId;
use platform::{clock, http::Response, ledger::SpinLedger, log, redis::SpinRedis, shared_value::SharedValue};
use serde::{Deserialize, Serialize};
use workflows::{
    StoreError,
    ledger::backlog::{self, Backlog},
    operator::{
        audit::{self, Audit},
        stats,
    },
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

/// A metric: name, type, help text and sample lines.
type Metric = (&'static str, &'static str, &'static str, String);

/// Returns the stats of every activity with a gate, and the ledger's backlog. The metrics of an unavailable store are
/// omitted.
pub async fn get() -> Response {
    let mut metrics = Vec::new();
    let mut up = String::new();
    for (store, result) in [("redis", activity_metrics().await), ("ledger", ledger_metrics().await)] {
        let _ = writeln!(up, "stampede_store_up{{store=\"{store}\"}} {}", i64::from(result.is_ok()));
        match result {
            Ok(result) => metrics.extend(result),
            Err(error) => {
                log::error(
                    "metrics without a store",
                    &[("store", store.into()), ("because", error.to_string().into())],
                );
            }
        }
    }
    metrics.insert(0, ("stampede_store_up", "gauge", "Whether the store answered what these figures need.", up));
    let mut text = String::new();
    for (name, kind, help, lines) in metrics.iter().filter(|(.., lines)| !lines.is_empty()) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
    Response::with_body(200, "text/plain; version=0.0.4; charset=utf-8", text).header("cache-control", "no-store")
}

async fn activity_metrics() -> Result<Vec<Metric>, StoreError> {
    let mut metrics = [
        ("stampede_stock_left", "gauge", "Units left.", String::new()),
        ("stampede_units_held", "gauge", "Units queued or waiting for payment.", String::new()),
        ("stampede_units_sold", "gauge", "Units sold.", String::new()),
        ("stampede_queue_length", "gauge", "Orders waiting for the order writer.", String::new()),
        ("stampede_orders_enqueued_total", "counter", "Orders that ever entered the queue.", String::new()),
        ("stampede_orders_written_total", "counter", "Orders that left the queue.", String::new()),
        ("stampede_refusals_total", "counter", "Refusals that Redis decided, by code.", String::new()),
    ];
    for (activity, stats) in stats::all_stats(&SpinRedis).await? {
        let mut add = |at: usize, labels: String, value: i64| {
            let (name, ..) = metrics[at];
            let _ = writeln!(metrics[at].3, "{name}{{activity=\"{activity}\"{labels}}} {value}");
        };
        for sku in &stats.skus {
            let label = format!(",sku=\"{}\"", sku.sku);
            if let Some(left) = sku.left {
                add(0, label.clone(), left);
            }
            add(1, label.clone(), sku.held);
            add(2, label, sku.sold);
        }
        add(3, String::new(), stats.queue);
        add(4, String::new(), stats.enqueued);
        add(5, String::new(), stats.written);
        for (code, count) in &stats.refusals {
            add(6, format!(",code=\"{code}\""), *count);
        }
    }
    Ok(metrics.into())
}

/// Returns the metrics of the ledger's backlog, and of its audits against Redis.
async fn ledger_metrics() -> Result<Vec<Metric>, StoreError> {
    let now = clock::now();
    let LedgerState { backlog, audits } = match LEDGER_STATE.get(|_| true, load_ledger_state).await {
        // Without Redis there is no lease.
        Err(StoreError::RedisUnavailable(_) | StoreError::RedisRefused(_)) => load_ledger_state().await?,
        other => other?,
    };
    let oldest = if backlog.events == 0 { now } else { backlog.oldest_event_at };
    let gauge = |name, help, value: i64| (name, "gauge", help, format!("{name} {value}\n"));
    let (mut ok, mut drift) = (String::new(), String::new());
    for (activity, audit) in &audits {
        let _ = writeln!(ok, "stampede_audit_ok{{activity=\"{activity}\"}} {}", i64::from(audit.ok));
        for (sku, units) in &audit.drift {
            let _ = writeln!(drift, "stampede_drift{{activity=\"{activity}\",sku=\"{sku}\"}} {units}");
        }
    }
    Ok(vec![
        ("stampede_audit_ok", "gauge", "Whether I1 and I2 hold in the sale, by its counters.", ok),
        ("stampede_drift", "gauge", "Units by which Redis and the ledger differ; at rest 0.", drift),
        gauge("stampede_events_waiting", "Events waiting to be sent to the shop.", backlog.events),
        gauge(
            "stampede_events_oldest_age_seconds",
            "Age of the oldest event waiting to be sent; 0 where none waits.",
            (now.0 - oldest.0).max(0) / 1_000,
        ),
        gauge("stampede_refunds_open", "Refunds that no provider has confirmed.", backlog.refunds),
        gauge("stampede_refunds_stuck", "Open refunds whose last try failed.", backlog.stuck_refunds),
        gauge("stampede_callbacks_held", "Payment callbacks held for an operator.", backlog.held_callbacks),
        gauge("stampede_dead_letters", "Dead letters that were not put back.", backlog.dead_letters),
    ])
}

/// The backlog, and the audits of the activities that have a gate.
#[derive(Serialize, Deserialize)]
struct LedgerState {
    backlog: Backlog,
    audits: Vec<(ActivityId, AuditSummary)>,
}

/// The part of an audit that becomes metrics.
#[derive(Serialize, Deserialize)]
struct AuditSummary {
    ok: bool,
    drift: Vec<(String, i64)>,
}

async fn load_ledger_state() -> Result<LedgerState, StoreError> {
    let ledger = SpinLedger::open().await;
    let backlog = backlog::load(&ledger).await?;
    let audits = match audit::audit_counters(&SpinRedis, &ledger).await {
        Ok(audits) => audits,
        // Without Redis no activity can be audited; the backlog is returned all the same.
        Err(StoreError::RedisUnavailable(_) | StoreError::RedisRefused(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let summarize = |(activity, audit): (ActivityId, Audit)| {
        let drift = audit.skus.into_iter().map(|sku| (sku.redis.sku, sku.drift)).collect();
        (activity, AuditSummary { ok: audit.ok, drift })
    };
    Ok(LedgerState { backlog, audits: audits.into_iter().map(summarize).collect() })
}
