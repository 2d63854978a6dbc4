//! Tests that the ledger's figures are counters, and that the counters equal the orders (G2, G4).

use std::{cell::RefCell, collections::BTreeMap};

use operations::commands::{
    audit::{self, SkuAudit, SkuLedgerStats},
    stats,
};
use sale::ledger::activities;
use stores::{
    Sql, StoreError,
    ports::{Dialect, SqlValue},
};

use crate::{
    fixture::{LEDGERS, new_fixture},
    operations::epochs::RealFixture,
    stores::RealLedger,
};

/// A ledger that records statements with their parameters, in the order of the calls.
pub struct Recording<'a>(pub &'a RealLedger, pub RefCell<Vec<(String, Vec<SqlValue>)>>);

impl Sql for Recording<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        self.1.borrow_mut().push((statement.to_owned(), params.clone()));
        self.0.run(statement, params).await
    }
}

/// Orders in every status, some with two units; one is in the queue.
pub async fn orders_in_every_status(ledger: &str) -> RealFixture {
    let fixture = new_fixture(ledger, 7, 7).await;
    for n in [1, 2] {
        fixture.pending_order(n, "ada", 1).await;
    }
    fixture.expire_orders().await.unwrap();
    // The payment of an expired order takes a unit again, or is refunded if there is none.
    fixture.payment_succeeded(&fixture.order_no(1), "e").await.unwrap();
    fixture.cancel(&fixture.pending_order(3, "bob", 2).await).await.unwrap();
    let refunded = fixture.refunding_order(4, "bob").await;
    fixture.refund_succeeded(&refunded, "r").await.unwrap();
    fixture.refunding_order(5, "cyd").await;
    fixture.pending_order(6, "dee", 5).await;
    fixture.payment_succeeded(&fixture.order_no(2), "e").await.unwrap();
    fixture
}

#[tokio::test]
async fn counters_count_every_order_in_its_status() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        let expected = [("pending_payment", 1), ("paid", 1), ("cancelled", 1), ("refunding", 2), ("refunded", 1)];
        let expected: BTreeMap<_, _> = expected.map(|(status, orders)| (status.to_owned(), orders)).into();
        assert_eq!(stats::orders_by_status(&fixture.sql, &fixture.activity).await.unwrap(), expected, "{ledger}");
        let activity = fixture.stored().await;
        assert_eq!((activity.live_units[0].pending, activity.live_units[0].sold), (5, 2), "{ledger}");
        assert_eq!(fixture.units().await, (0, 5, 2), "{ledger}");
    }
}

#[tokio::test]
async fn figures_are_read_without_reading_orders() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        let sql = Recording(&fixture.sql, RefCell::default());
        activities::load(&sql, &fixture.activity).await.unwrap();
        stats::orders_by_status(&sql, &fixture.activity).await.unwrap();
        for (statement, _) in sql.1.take() {
            assert!(!statement.split_whitespace().any(|word| word == "orders"), "{ledger}: {statement}");
        }
    }
}

#[tokio::test]
async fn an_audit_finds_counters_that_differ_from_the_orders() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        for statement in [
            "UPDATE order_counts SET orders = orders + 1 WHERE status = 'cancelled'",
            "UPDATE order_counts SET units = units - 1 WHERE status = 'paid'",
            "DELETE FROM order_counts WHERE status = 'refunding'",
        ] {
            fixture.units().await;
            let counts = fixture.sql.run("SELECT * FROM order_counts", Vec::new()).await.unwrap();
            fixture.sql.run(statement, Vec::new()).await.unwrap();
            let audited = audit::audit(&fixture.redis, &fixture.sql, &fixture.activity, 7).await.unwrap().unwrap();
            assert!(!audited.skus[0].i2 && !audited.ok, "{ledger}: {statement}");
            fixture.sql.run("DELETE FROM order_counts", Vec::new()).await.unwrap();
            for row in counts {
                let insert = "INSERT INTO order_counts (activity, sku, status, live, slot, orders, units) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
                fixture.sql.run(insert, row).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn an_audit_by_counters_agrees_with_the_audit_and_reads_no_orders() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        let sql = Recording(&fixture.sql, RefCell::default());
        let by_counters = async || {
            let stats = stats::recent_stats(&fixture.redis, vec![fixture.activity.clone()]).await.activities;
            let mut audits = audit::audit_counters(&sql, &stats).await.unwrap();
            audits.remove(0).1.skus.remove(0)
        };
        let full = audit::audit(&fixture.redis, &fixture.sql, &fixture.activity, 7).await.unwrap().unwrap();
        let SkuAudit { ledger: Some(expected), .. } = full.skus[0].clone() else { panic!("{full:?}") };
        let expected = SkuLedgerStats { most_per_user: 0, ..expected };
        assert_eq!(by_counters().await, SkuAudit { ledger: Some(expected), ..full.skus[0].clone() }, "{ledger}");
        // A unit that Redis lost is drift.
        let stats = fixture.key("stats");
        fixture.run_redis(&["HINCRBY", &stats, "sold:phone", "-1"]).await;
        assert_ne!(by_counters().await.drift, 0, "{ledger}");
        for (statement, _) in sql.1.take() {
            assert!(!statement.split_whitespace().any(|word| word == "orders"), "{ledger}: {statement}");
        }
    }
}

#[tokio::test]
async fn the_metrics_forget_an_activity_a_day_after_its_end() {
    let fixture = new_fixture("sqlite", 2, 1).await;
    let is_read = async || {
        let stats = stats::recent_stats(&fixture.redis, vec![fixture.activity.clone()]).await;
        !stats.activities.is_empty()
    };
    let gate = fixture.key("gate");
    for (hours_since_end, expected) in [(-1, true), (23, true), (25, false)] {
        let now = stats::stats(&fixture.redis, &fixture.activity).await.unwrap().unwrap().server_time;
        let kept_until = now.plus((7 * 24 - hours_since_end) * 3_600_000).0.to_string();
        fixture.run_redis(&["HSET", &gate, "keep_until", &kept_until]).await;
        assert_eq!(is_read().await, expected, "{hours_since_end} hours after the end");
    }
}
