//! The activities of one table, with their buyers and orders.

use std::ops::Range;

use anyhow::{Result, ensure};
use http::header::HeaderValue;
use indicatif::ProgressBar;

use super::{
    context::Bench,
    requests::{self, OpenActivity},
    server::PreparedRequest,
};
use crate::simulation::{buyers, setup};

/// Orders that are added at a time.
const ADDED_ORDERS: usize = 10_000;
/// Reservations of each buyer beside those of the rounds: to warm up, and while the order writer is paused.
const OTHER_RESERVATIONS: u32 = 4;

pub struct Sale {
    /// With stock for all reservations.
    pub in_stock: OpenActivity,
    pub sold_out: OpenActivity,
    /// `Bearer <JWT>` of each buyer.
    pub buyers: Vec<HeaderValue>,
    /// Reservations that are refused.
    pub refused: Vec<PreparedRequest>,
}

impl Sale {
    /// Opens a sale to `buyers` buyers that has `orders` orders of others.
    pub async fn open(bench: &Bench<'_>, buyers: usize, orders: usize) -> Result<Self> {
        bench.bar.set_message("opening a sale");
        let per_user = bench.options.rounds + OTHER_RESERVATIONS;
        let in_stock = bench.open_activity(orders + buyers * per_user as usize, per_user).await?;
        for first in (buyers..buyers + orders).step_by(ADDED_ORDERS) {
            bench.bar.set_message(format!("adding orders: {} of {orders}", first - buyers));
            let others = sign_in(bench, &in_stock, first..(first + ADDED_ORDERS).min(buyers + orders)).await?;
            let tickets = bench.fetch_tickets(&in_stock, &others).await?;
            let added = bench.reserve(&in_stock, &tickets).await?;
            ensure!(added.unexpected.is_empty(), "an order was not added: {:?}", added.unexpected);
            bench.wait_until_drained(&in_stock).await?;
        }
        let buyers = sign_in(bench, &in_stock, 0..buyers).await?;

        let sold_out = bench.open_activity(1, 1).await?;
        let refused = &buyers[..buyers.len().min(usize::from(bench.options.most_connections()) + 1)];
        let mut tickets = bench.fetch_tickets(&sold_out, refused).await?;
        let last_unit = bench.reserve(&sold_out, &tickets.split_off(refused.len() - 1)).await?;
        ensure!(last_unit.succeeded == 1, "the last unit was not sold: {:?}", last_unit.unexpected);
        let refused = requests::reservations(&bench.server, &sold_out, &tickets)?;
        Ok(Self { in_stock, sold_out, buyers, refused })
    }

    pub async fn close(self, bench: &Bench<'_>) -> Result<()> {
        setup::close(&bench.app, &self.in_stock.activity).await?;
        setup::close(&bench.app, &self.sold_out.activity).await
    }
}

async fn sign_in(bench: &Bench<'_>, opened: &OpenActivity, users: Range<usize>) -> Result<Vec<HeaderValue>> {
    buyers::sign_in(&bench.app, &bench.target, &opened.activity, users, &ProgressBar::hidden()).await
}
