//! `GET /metrics`: Prometheus text. Labels are ids, which hold nothing that would need escaping.

use std::fmt::Write as _;

use domain::{ids::ActivityId, time::Millis};
use platform::{clock, http::Answer, key_value, ledger::SpinLedger, log, redis::SpinRedis};
use serde::{Deserialize, Serialize};
use workflows::{
    StoreError,
    ledger::{
        activities,
        backlog::{self, Backlog},
    },
    operator::audit,
};

/// How long the ledger is not asked again, in milliseconds, however many scrape: audits count every live order.
const FRESH_MS: i64 = 3_000;

/// Where the copy of what it said is kept.
const COPY: &str = "metrics:ledger";

/// A metric: its name, its kind, what it says, and its samples.
type Metric = (&'static str, &'static str, &'static str, String);

/// Figures of every sale that has a gate, and what waits in the ledger. What a store that is away would say is missing.
pub async fn get() -> Answer {
    let mut metrics = Vec::new();
    let mut up = String::new();
    for (store, said) in [("redis", sales().await), ("ledger", ledger().await)] {
        let _ = writeln!(up, "stampede_store_up{{store=\"{store}\"}} {}", i64::from(said.is_ok()));
        match said {
            Ok(said) => metrics.extend(said),
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
    Answer::text(200, "text/plain; version=0.0.4; charset=utf-8", text).header("cache-control", "no-store")
}

async fn sales() -> Result<Vec<Metric>, StoreError> {
    let mut metrics = [
        ("stampede_stock_left", "gauge", "Units left.", String::new()),
        ("stampede_units_held", "gauge", "Units queued or waiting for payment.", String::new()),
        ("stampede_units_sold", "gauge", "Units sold.", String::new()),
        ("stampede_queue_length", "gauge", "Orders waiting for the order writer.", String::new()),
        ("stampede_orders_enqueued_total", "counter", "Orders that ever entered the queue.", String::new()),
        ("stampede_orders_written_total", "counter", "Orders that left the queue.", String::new()),
        ("stampede_refusals_total", "counter", "Refusals that Redis decided, by code.", String::new()),
    ];
    for (activity, figures) in audit::all_stats(&SpinRedis).await? {
        let mut add = |at: usize, labels: String, value: i64| {
            let (name, ..) = metrics[at];
            let _ = writeln!(metrics[at].3, "{name}{{activity=\"{activity}\"{labels}}} {value}");
        };
        for sku in &figures.skus {
            let label = format!(",sku=\"{}\"", sku.sku);
            if let Some(left) = sku.left {
                add(0, label.clone(), left);
            }
            add(1, label.clone(), sku.held);
            add(2, label, sku.sold);
        }
        add(3, String::new(), figures.queue);
        add(4, String::new(), figures.enqueued);
        add(5, String::new(), figures.written);
        for (code, count) in &figures.refusals {
            add(6, format!(",code=\"{code}\""), *count);
        }
    }
    Ok(metrics.into())
}

/// What waits in the ledger, and whether it agrees with Redis.
async fn ledger() -> Result<Vec<Metric>, StoreError> {
    let now = clock::now();
    let Seen { waiting, audits } = seen(now).await?.seen;
    let since = if waiting.events == 0 { now } else { waiting.oldest_event_at };
    let gauge = |name, help, value: i64| (name, "gauge", help, format!("{name} {value}\n"));
    let (mut ok, mut drift) = (String::new(), String::new());
    for (activity, audit) in &audits {
        let _ = writeln!(ok, "stampede_audit_ok{{activity=\"{activity}\"}} {}", i64::from(audit.ok));
        for (sku, units) in &audit.drift {
            let _ = writeln!(drift, "stampede_drift{{activity=\"{activity}\",sku=\"{sku}\"}} {units}");
        }
    }
    Ok(vec![
        ("stampede_audit_ok", "gauge", "Whether every invariant of the sale holds.", ok),
        ("stampede_drift", "gauge", "Units by which Redis and the ledger differ; at rest 0.", drift),
        gauge("stampede_events_waiting", "Events waiting to be sent to the shop.", waiting.events),
        gauge(
            "stampede_events_oldest_age_seconds",
            "Age of the oldest event waiting to be sent; 0 where none waits.",
            (now.0 - since.0).max(0) / 1_000,
        ),
        gauge("stampede_refunds_open", "Refunds that no provider has confirmed.", waiting.refunds),
        gauge("stampede_refunds_stuck", "Open refunds whose last try failed.", waiting.stuck_refunds),
        gauge("stampede_callbacks_held", "Payment callbacks held for an operator.", waiting.held_callbacks),
        gauge("stampede_dead_letters", "Dead letters that were not put back.", waiting.dead_letters),
    ])
}

/// A copy of what was seen in the ledger.
#[derive(Serialize, Deserialize)]
struct Copy {
    at: Millis,
    seen: Seen,
}

/// What waits, and the audits of the sales that have a gate.
#[derive(Serialize, Deserialize)]
struct Seen {
    waiting: Backlog,
    audits: Vec<(ActivityId, Brief)>,
}

/// What is told of an audit.
#[derive(Serialize, Deserialize)]
struct Brief {
    ok: bool,
    drift: Vec<(String, i64)>,
}

async fn seen(now: Millis) -> Result<Copy, StoreError> {
    let copy = key_value::get(COPY).await.and_then(|bytes| serde_json::from_slice::<Copy>(&bytes).ok());
    if let Some(copy) = copy.filter(|copy| (0..FRESH_MS).contains(&(now.0 - copy.at.0))) {
        return Ok(copy);
    }
    let ledger = SpinLedger::open().await;
    let waiting = backlog::load(&ledger).await?;
    let mut audits = Vec::new();
    for sale in activities::standings(&ledger, now).await? {
        let audit = match audit::audit(&SpinRedis, &ledger, &sale.id, sale.per_user).await {
            Ok(Some(audit)) => audit,
            Ok(None) => continue,
            // No sale can be compared, and what waits is told all the same.
            Err(StoreError::RedisUnavailable(_) | StoreError::RedisRefused(_)) => break,
            Err(error) => return Err(error),
        };
        let drift = audit.skus.into_iter().map(|sku| (sku.redis.sku, sku.drift)).collect();
        audits.push((sale.id, Brief { ok: audit.ok, drift }));
    }
    let copy = Copy { at: now, seen: Seen { waiting, audits } };
    if let Ok(bytes) = serde_json::to_vec(&copy) {
        key_value::set(COPY, &bytes).await;
    }
    Ok(copy)
}
