//! Measures an activity with 100,000 orders: Redis memory per order, the rate of further reservations compared with an
//! empty activity; and, in another activity, how long expiring 10,000 orders takes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::drain;
use super::prepare::{self, OpenActivity, open_activity, open_activity_with_pay_timeout};
use super::rounds::Bench;
use super::spawned_app::SpawnedApp;
use super::workload::{Measurement, Workload, run_workload};
use crate::statistics::{median, range};

const ORDERS: usize = 100_000;
/// Unpaid orders to sweep.
const DUE_ORDERS: usize = 10_000;
/// Time to pay in the swept activity, in seconds.
const PAY_TIMEOUT_SECONDS: u32 = 3;
/// Comparisons of the full activity with an empty one. A single comparison may be off by ten percent.
const ROUNDS: usize = 12;
/// Reservations per comparison, in each of the two activities.
const COMPARED_RESERVATIONS: usize = 4_000;

impl Bench<'_> {
    /// Fills one activity, compares it with empty ones, and sweeps another.
    pub async fn measure_endurance(&self, spawned_app: &SpawnedApp) -> Result<Endurance> {
        let passes = ORDERS.div_ceil(self.user_tokens.len());
        let per_user = u32::try_from(passes + ROUNDS).context("too few users")?;
        let full = open_activity(&self.app, 2 * ORDERS as i64, per_user).await?;
        let memory_before = spawned_app.redis_memory()?;
        let mut orders = 0;
        for _ in 0..passes {
            orders += self.add_orders(&full, self.user_tokens.len()).await?;
        }
        let bytes_per_order = spawned_app.redis_memory()?.saturating_sub(memory_before) as f64 / orders as f64;

        let mut ratios = Vec::with_capacity(ROUNDS);
        let user_count = COMPARED_RESERVATIONS.min(self.user_tokens.len());
        for round in 0..ROUNDS {
            // Alternate the order, so that other load on the machine and effects of the first measurement on the second
            // affect both activities equally.
            let empty = open_activity(&self.app, ORDERS as i64, 1).await?;
            let in_full =
                async || Ok::<_, anyhow::Error>(self.reserve_and_drain(&full, user_count).await?.per_second());
            let in_empty =
                async || Ok::<_, anyhow::Error>(self.reserve_and_drain(&empty, user_count).await?.per_second());
            ratios.push(if round % 2 == 0 {
                in_full().await? / in_empty().await?
            } else {
                let empty = in_empty().await?;
                in_full().await? / empty
            });
        }

        let due = open_activity_with_pay_timeout(&self.app, DUE_ORDERS as i64, 1, PAY_TIMEOUT_SECONDS).await?;
        let due_orders = self.add_orders(&due, DUE_ORDERS.min(self.user_tokens.len())).await?;
        tokio::time::sleep(Duration::from_secs(u64::from(PAY_TIMEOUT_SECONDS) + 1)).await;
        let sweep_seconds = self.time_sweep(due_orders).await?;
        Ok(Endurance {
            orders,
            bytes_per_order,
            full_to_empty: median(&ratios),
            full_to_empty_range: range(&ratios),
            due: due_orders,
            sweep_seconds,
        })
    }

    /// Reserves once for each of the first `user_count` users and waits until the orders are in the ledger.
    async fn reserve_and_drain(&self, opened: &OpenActivity, user_count: usize) -> Result<Measurement> {
        let connections = self.options.most_connections();
        let tickets =
            prepare::fetch_tickets(&self.server, connections, opened, &self.user_tokens[..user_count]).await?;
        let workload = Workload::once(prepare::reservation_requests(&self.server, opened, &tickets)?, 202);
        let measurement = run_workload(&self.server, connections, workload).await?;
        ensure!(measurement.unexpected.is_empty(), "a reservation was not accepted: {:?}", measurement.unexpected);
        drain::wait_until_drained(&self.app, &opened.activity, &measurement).await?;
        Ok(measurement)
    }

    async fn add_orders(&self, opened: &OpenActivity, user_count: usize) -> Result<usize> {
        Ok(usize::try_from(self.reserve_and_drain(opened, user_count).await?.succeeded)?)
    }

    /// Calls the sweeper until `orders` orders have expired. Returns the seconds that this took.
    async fn time_sweep(&self, orders: usize) -> Result<f64> {
        let (started_at, mut expired) = (Instant::now(), 0);
        while expired < orders {
            let report = self.app.sweep_report().await.context("the sweeper does not answer")?;
            expired += usize::try_from(report["expired"].as_u64().unwrap_or_default())?;
            ensure!(
                started_at.elapsed() < Duration::from_secs(60),
                "swept {expired} of {orders} in a minute: {report}"
            );
        }
        Ok(started_at.elapsed().as_secs_f64())
    }
}

/// The results, against their goals.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Endurance {
    pub orders: usize,
    /// Bytes of Redis memory per order. Goal: at most 600.
    pub bytes_per_order: f64,
    /// Reservations per second in the full activity relative to an empty one measured right before or after (median).
    /// Goal: at least 0.95.
    pub full_to_empty: f64,
    /// Lowest and highest of those ratios.
    pub full_to_empty_range: (f64, f64),
    /// Orders that were due to expire.
    pub due: usize,
    /// Seconds until all of them had expired. Goal: at most 2.
    pub sweep_seconds: f64,
}

impl Endurance {
    pub fn text(&self) -> String {
        let label = |good: bool| if good { "ok" } else { "below" };
        format!(
            "endurance     {:.0} bytes of Redis per order over {} orders, goal 600 {}\n              \
             {:.2} ({:.2}–{:.2}) times the reservations of an empty sale beside them, goal 0.95 {}\n              \
             {} due orders swept in {:.2} s, goal 2 {}",
            self.bytes_per_order,
            self.orders,
            label(self.bytes_per_order <= 600.0),
            self.full_to_empty,
            self.full_to_empty_range.0,
            self.full_to_empty_range.1,
            label(self.full_to_empty >= 0.95),
            self.due,
            self.sweep_seconds,
            label(self.sweep_seconds <= 2.0),
        )
    }
}
