//! What a sale left behind, as its buyers and its operator saw it: all that the verdict knows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::plan::Intent;
use crate::wire::{LedgerStock, SkuAudit, SkuStock, Status};

/// Everything that the verdict judges. Times count from the beginning of the run.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Units that one user may hold of a SKU.
    pub per_user: u32,
    /// Units of each SKU, by SKU.
    pub totals: BTreeMap<String, i64>,
    /// Every order that any buyer was told of.
    pub orders: Vec<OrderSeen>,
    /// Order numbers by ticket, one entry per answer: replays and double clicks included.
    pub tickets: Vec<Vec<String>>,
    /// Tickets whose buyer was refused for good although an order of theirs existed.
    pub denied_winners: Vec<String>,
    /// Reservations whose outcome nobody could learn, not even from the list of the user's orders.
    pub unresolved: u64,
    /// Stock as the admin API showed it, again and again while the sale ran.
    pub samples: Vec<SkuStock>,
    /// Stock at the end; `None` when the admin API did not answer.
    pub stock: Option<Vec<SkuStock>>,
    /// Orders by status at the end, as the admin API counts them.
    pub counted: Option<BTreeMap<String, u64>>,
    /// The app's own audit at the end.
    pub audit: Option<Vec<SkuAudit>>,
    /// Orders among the dead letters.
    pub dead_letters: BTreeSet<String>,
}

/// One order and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct OrderSeen {
    /// `<activity>.<ULID>`.
    pub order_no: String,
    /// Whose it is.
    pub user: String,
    /// The SKU.
    pub sku: String,
    /// Units.
    pub quantity: u32,
    /// When the `202` had come; the order certainly existed from then on.
    pub accepted_at: Duration,
    /// When the last answer that showed it alive had been asked for: it certainly existed until then.
    pub alive_until: Duration,
    /// What its buyer wanted.
    pub intent: Intent,
    /// Whether the provider confirmed the money.
    pub payment: Claim,
    /// Whether the app confirmed a cancellation.
    pub cancellation: Claim,
    /// How it ended.
    pub end: End,
}

/// How sure the buyer is that something was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// It was not asked for, or refused.
    No,
    /// It was asked for, but the answer was lost.
    Unknown,
    /// It was confirmed.
    Yes,
}

/// What the last look at an order showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "seen", content = "status")]
pub enum End {
    /// A status.
    Status(Status),
    /// `404`: the app does not know it.
    Missing,
    /// The app gave no answer that can be read.
    Unreadable,
}

impl OrderSeen {
    /// The status, where one was seen.
    pub fn status(&self) -> Option<Status> {
        match self.end {
            End::Status(status) => Some(status),
            End::Missing | End::Unreadable => None,
        }
    }

    /// Units that it still owns.
    pub fn live_units(&self) -> i64 {
        if self.status().is_some_and(Status::holds_units) { self.quantity.into() } else { 0 }
    }
}

impl Evidence {
    /// The ledger's figures per SKU, as the audit shows them.
    pub fn ledger(&self) -> impl Iterator<Item = (&str, &LedgerStock)> {
        let skus = self.audit.iter().flatten();
        skus.filter_map(|sku| Some((sku.redis.sku.as_str(), sku.ledger.as_ref()?)))
    }

    /// Orders whose end nobody could read.
    pub fn unreadable(&self) -> usize {
        self.orders.iter().filter(|order| order.end == End::Unreadable).count()
    }

    /// Live units per SKU, over all orders that buyers know.
    pub fn live_units(&self) -> BTreeMap<&str, i64> {
        let mut units: BTreeMap<&str, i64> = self.totals.keys().map(|sku| (sku.as_str(), 0)).collect();
        for order in &self.orders {
            *units.entry(&order.sku).or_default() += order.live_units();
        }
        units
    }
}

/// A sale of 10 units of `a` in which three buyers took five: the starting point of the verdict's tests.
#[cfg(test)]
pub(super) fn honest() -> Evidence {
    let order = |n: u32, quantity, intent, payment, cancellation, status| OrderSeen {
        order_no: format!("s.{n}"),
        user: format!("user-{n}"),
        sku: "a".to_owned(),
        quantity,
        accepted_at: Duration::from_secs(1),
        alive_until: Duration::from_secs(2),
        intent,
        payment,
        cancellation,
        end: End::Status(status),
    };
    let stock = |left, held, sold| SkuStock { sku: "a".to_owned(), total: 10, left, held, sold };
    Evidence {
        per_user: 2,
        totals: BTreeMap::from([("a".to_owned(), 10)]),
        orders: vec![
            order(1, 2, Intent::Pay, Claim::Yes, Claim::No, Status::Paid),
            order(2, 1, Intent::Cancel, Claim::No, Claim::Yes, Status::Cancelled),
            order(3, 2, Intent::Leave, Claim::No, Claim::No, Status::Expired),
        ],
        tickets: vec![vec!["s.1".to_owned(), "s.1".to_owned()], vec!["s.2".to_owned()], vec!["s.3".to_owned()]],
        samples: vec![stock(10, 0, 0), stock(5, 5, 0), stock(8, 0, 2)],
        stock: Some(vec![stock(8, 0, 2)]),
        counted: Some(BTreeMap::from([("paid".to_owned(), 1), ("cancelled".to_owned(), 1), ("expired".to_owned(), 1)])),
        audit: Some(vec![SkuAudit {
            redis: stock(8, 0, 2),
            ledger: Some(LedgerStock { live: 2, counted: 2, most_per_user: 2 }),
            drift: 0,
        }]),
        ..Evidence::default()
    }
}
