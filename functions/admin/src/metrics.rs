//! `GET /metrics`: Prometheus text. Labels are ids, which hold nothing that would need escaping.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use stampede_domain::time::Millis;
use stampede_platform::{
    clock,
    http::{Answer, Failure},
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
    store,
};
use stampede_sale::{
    StoreError, audit,
    ledger::waiting::{self, Waiting},
    sweep,
};

/// How long what waits in the ledger is not counted again, in milliseconds, however many scrape.
const FRESH_MS: i64 = 3_000;

/// Where its copy is kept.
const COPY: &str = "metrics:waiting";

/// A metric: its name, its kind, what it says, and its samples.
type Metric = (&'static str, &'static str, &'static str, String);

/// Figures of every sale that has a gate, and what waits in the ledger.
pub async fn get() -> Result<Answer, Failure> {
    let mut metrics = sales().await?.to_vec();
    metrics.extend(backlog().await);
    let mut text = String::new();
    for (name, kind, help, lines) in metrics.iter().filter(|(.., lines)| !lines.is_empty()) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
    Ok(Answer::text(200, "text/plain; version=0.0.4; charset=utf-8", text).header("cache-control", "no-store"))
}

async fn sales() -> Result<[Metric; 7], Failure> {
    let mut metrics = [
        ("stampede_stock_left", "gauge", "Units left.", String::new()),
        ("stampede_units_held", "gauge", "Units queued or waiting for payment.", String::new()),
        ("stampede_units_sold", "gauge", "Units sold.", String::new()),
        ("stampede_queue_length", "gauge", "Orders waiting for the order writer.", String::new()),
        ("stampede_orders_enqueued_total", "counter", "Orders that ever entered the queue.", String::new()),
        ("stampede_orders_written_total", "counter", "Orders that left the queue.", String::new()),
        ("stampede_refusals_total", "counter", "Refusals that Redis decided, by code.", String::new()),
    ];
    for activity in sweep::activities(&SpinRedis).await? {
        let Some(figures) = audit::figures(&SpinRedis, &activity).await? else { continue };
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
    Ok(metrics)
}

/// What waits in the ledger. While that is away, these are missing, and the rest is shown.
async fn backlog() -> Vec<Metric> {
    let now = clock::now();
    let waiting = match waiting(now).await {
        Ok(waiting) => waiting,
        Err(error) => {
            log::error("metrics without the ledger", &[("because", error.to_string().into())]);
            return Vec::new();
        }
    };
    let since = if waiting.events == 0 { now } else { waiting.oldest_event_at };
    let gauge = |name, help, value: i64| (name, "gauge", help, format!("{name} {value}\n"));
    vec![
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
    ]
}

/// A copy of what waits.
#[derive(Serialize, Deserialize)]
struct Copy {
    at: Millis,
    waiting: Waiting,
}

async fn waiting(now: Millis) -> Result<Waiting, StoreError> {
    let copy = store::get(COPY).await.and_then(|bytes| serde_json::from_slice::<Copy>(&bytes).ok());
    if let Some(copy) = copy.filter(|copy| (0..FRESH_MS).contains(&(now.0 - copy.at.0))) {
        return Ok(copy.waiting);
    }
    let waiting = waiting::waiting(&SpinLedger::open().await).await?;
    let copy = Copy { at: now, waiting };
    if let Ok(bytes) = serde_json::to_vec(&copy) {
        store::set(COPY, &bytes).await;
    }
    Ok(copy.waiting)
}
