//! What a long sale costs: Redis's memory per order, the hot path beside many orders, and sweeping what nobody paid.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::closed_loop::{Sample, Work, drive};
use super::drain;
use super::own_app::OwnApp;
use super::prepare::{self, OpenSale, open_sale, open_sale_to_be_paid_in};
use super::report::{median, range};
use super::rounds::Bench;
use super::supply::Supply;

/// Orders in one sale.
const ORDERS: usize = 100_000;
/// Orders that are swept.
const DUE: usize = 10_000;
/// Time to pay in the sale that is swept, in seconds.
const PAY_TIMEOUT: u32 = 3;
/// Comparisons of the full sale with an empty one; one alone may be a tenth off.
const ROUNDS: usize = 12;
/// Reservations in each.
const COMPARED: usize = 4_000;

/// What was found, beside its goals.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Endurance {
    /// Orders in the full sale.
    pub orders: usize,
    /// Bytes of Redis for each: goal 600 or fewer.
    pub bytes_per_order: f64,
    /// Reservations per second in the full sale, as a ratio to an empty one just before or after: goal 0.95 or more.
    pub full_to_empty: f64,
    /// The lowest and the highest of those ratios.
    pub full_to_empty_range: (f64, f64),
    /// Orders that were due.
    pub due: usize,
    /// Seconds until all of them were swept: goal 2 or fewer.
    pub sweep_seconds: f64,
}

impl Endurance {
    /// For a terminal.
    pub fn text(&self) -> String {
        let word = |good: bool| if good { "ok" } else { "below" };
        format!(
            "endurance     {:.0} bytes of Redis per order over {} orders, goal 600 {}\n              \
             {:.2} ({:.2}–{:.2}) times the reservations of an empty sale beside them, goal 0.95 {}\n              \
             {} due orders swept in {:.2} s, goal 2 {}",
            self.bytes_per_order,
            self.orders,
            word(self.bytes_per_order <= 600.0),
            self.full_to_empty,
            self.full_to_empty_range.0,
            self.full_to_empty_range.1,
            word(self.full_to_empty >= 0.95),
            self.due,
            self.sweep_seconds,
            word(self.sweep_seconds <= 2.0),
        )
    }
}

impl Bench {
    /// Fills one sale, compares it with empty ones, and sweeps another.
    pub async fn endurance(&self, own: &OwnApp) -> Result<Endurance> {
        let turns = ORDERS.div_ceil(self.users.len());
        let per_user = u32::try_from(turns + ROUNDS).context("too few users")?;
        let full = open_sale(&self.app, 2 * ORDERS as i64, per_user).await?;
        let before = own.redis_memory()?;
        let mut orders = 0;
        for _ in 0..turns {
            orders += self.fill(&full, self.users.len()).await?;
        }
        let bytes_per_order = own.redis_memory()?.saturating_sub(before) as f64 / orders as f64;

        let mut ratios = Vec::with_capacity(ROUNDS);
        let some = COMPARED.min(self.users.len());
        for round in 0..ROUNDS {
            // In turn: what the machine does meanwhile, and what the first one leaves to the second, meets both.
            let empty = open_sale(&self.app, ORDERS as i64, 1).await?;
            let in_full = async || Ok::<_, anyhow::Error>(self.buy(&full, some).await?.per_second());
            let in_empty = async || Ok::<_, anyhow::Error>(self.buy(&empty, some).await?.per_second());
            ratios.push(if round % 2 == 0 {
                in_full().await? / in_empty().await?
            } else {
                let empty = in_empty().await?;
                in_full().await? / empty
            });
        }

        let due = open_sale_to_be_paid_in(&self.app, DUE as i64, 1, PAY_TIMEOUT).await?;
        let due_orders = self.fill(&due, DUE.min(self.users.len())).await?;
        tokio::time::sleep(Duration::from_secs(u64::from(PAY_TIMEOUT) + 1)).await;
        let sweep_seconds = self.sweep(due_orders).await?;
        Ok(Endurance {
            orders,
            bytes_per_order,
            full_to_empty: median(&ratios),
            full_to_empty_range: range(&ratios),
            due: due_orders,
            sweep_seconds,
        })
    }

    /// Reserves once for each of the first users; the queue may be long afterwards.
    async fn buy(&self, sale: &OpenSale, users: usize) -> Result<Sample> {
        let (_, tickets) = prepare::tickets(&self.server, &self.options, sale, &self.users[..users]).await?;
        let reservations = prepare::reservations(&self.server, sale, &tickets)?;
        let work = Work { supply: Supply::once(reservations), expect: 202, limit: None, keep: 0 };
        let sample = drive(&self.server, self.options.connections, work).await?;
        ensure!(sample.unexpected.is_empty(), "a reservation was not accepted: {:?}", sample.unexpected);
        drain::wait(&self.app, &sale.terms, &sample).await?;
        Ok(sample)
    }

    async fn fill(&self, sale: &OpenSale, users: usize) -> Result<usize> {
        Ok(usize::try_from(self.buy(sale, users).await?.answers)?)
    }

    /// Sweeps until so many orders have expired; answers how many seconds that took.
    async fn sweep(&self, orders: usize) -> Result<f64> {
        let (begun, mut expired) = (Instant::now(), 0);
        while expired < orders {
            let report = self.app.sweep_report().await.context("the sweeper does not answer")?;
            expired += usize::try_from(report["expired"].as_u64().unwrap_or_default())?;
            ensure!(begun.elapsed() < Duration::from_secs(60), "swept {expired} of {orders} in a minute: {report}");
        }
        Ok(begun.elapsed().as_secs_f64())
    }
}
