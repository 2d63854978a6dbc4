//! `GET /metrics`: Prometheus text. Labels are ids, which hold nothing that would need escaping.

use std::fmt::Write as _;

use stampede_platform::{
    http::{Answer, Failure},
    redis::SpinRedis,
};
use stampede_sale::{audit, sweep};

/// Figures of every sale that has a gate.
pub async fn get() -> Result<Answer, Failure> {
    let mut gauges = [
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
            let (name, ..) = gauges[at];
            let _ = writeln!(gauges[at].3, "{name}{{activity=\"{activity}\"{labels}}} {value}");
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
    let mut text = String::new();
    for (name, kind, help, lines) in gauges.iter().filter(|(.., lines)| !lines.is_empty()) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
    }
    Ok(Answer::text(200, "text/plain; version=0.0.4; charset=utf-8", text).header("cache-control", "no-store"))
}
