//! Tests of every workflow that writes with a PostgreSQL that gives no definite answer (C5, D4, D8; I4, I5, I6).
//!
//! Errors are raised by a trigger, by real locks and timeouts, by a read-only server, and by a closed connection.

use domain::{activity::ActivityState, ids::OrderNo, order::OrderStatus};
use operations::commands::activities::OperationOutcome;
use orders::{dead_letters, order_writer::MAX_DELIVERIES};
use payments::{callbacks::CallbackEffect, commands::CommandOutcome};
use sale::ledger::activities;
use stores::{
    Redis, Sql, StoreError,
    keys::Keys,
    ports::{RedisValue, SqlValue},
};

use crate::{
    fakes::FakeProvider,
    fixture::{new_fixture, open_connection},
    operations::epochs::RealFixture,
    stores::RealLedger,
};

/// SQLSTATEs that say nothing about the statement's rows, of each class that a server returns in operation.
const INDEFINITE: [&str; 14] = [
    "08006", "25006", "25P02", "40001", "40P01", "42501", "53100", "53200", "53300", "55P03", "57014", "57P01",
    "58030", "XX000",
];

/// What keeps the ledger from writing.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// A trigger raises this SQLSTATE.
    Raised(&'static str),
    /// Another session locks the tables, and this setting ends the wait.
    Locked(&'static str),
    /// The server is a replica, or was made read-only.
    ReadOnly,
    /// The server closed the connection.
    Terminated,
}

/// One activity, with an order for each workflow, and connections to watch it and to break it with.
struct Sale {
    fixture: RealFixture,
    observer: RealFixture,
    breaker: RealLedger,
    provider: FakeProvider,
    tables: Vec<String>,
    cancelled: OrderNo,
    checked_out: OrderNo,
    due: OrderNo,
    late: OrderNo,
    paid: OrderNo,
    queued: OrderNo,
    refunding: OrderNo,
}

async fn run(sql: &RealLedger, statement: &str) -> Vec<Vec<SqlValue>> {
    sql.run(statement, Vec::new()).await.unwrap_or_else(|error| panic!("{statement}: {error}"))
}

impl Sale {
    /// `only_orders`: statements fail when they write an order, otherwise when they write anything.
    async fn new(only_orders: bool) -> Self {
        let fixture = new_fixture("postgres", 20, 20).await;
        let (observer, breaker) = (open_connection(&fixture).await, open_connection(&fixture).await);
        let observer = fixture.with_stores(fixture.redis.clone(), observer);
        let late = fixture.pending_order(1, "ada", 1).await;
        assert_eq!(fixture.expire_orders().await.unwrap(), 1);
        let refunding = fixture.paid_order(2, "ada").await;
        let [cancelled, checked_out, due, paid] = [3, 4, 5, 6].map(async |n| fixture.pending_order(n, "ada", 1).await);
        let (cancelled, checked_out, due, paid) = (cancelled.await, checked_out.await, due.await, paid.await);
        fixture.reserve(7, "ada", 1).await.unwrap();
        let queued = fixture.order_no(7);
        let filter = if only_orders { "tablename = 'orders'" } else { "tablename <> 'schema_versions'" };
        let tables = run(
            &breaker,
            &format!("SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema() AND {filter}"),
        )
        .await;
        let text = |row: Vec<SqlValue>| match &row[0] {
            SqlValue::Text(name) => name.clone(),
            other => panic!("{other:?}"),
        };
        let tables = tables.into_iter().map(text).collect();
        let provider = FakeProvider::default();
        Self {
            fixture,
            observer,
            breaker,
            provider,
            tables,
            cancelled,
            checked_out,
            due,
            late,
            paid,
            queued,
            refunding,
        }
    }

    async fn break_ledger(&self, cause: Cause) {
        match cause {
            Cause::Raised(code) => {
                let function = "CREATE OR REPLACE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
                    $$ BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '{code}'; END $$";
                run(&self.breaker, &function.replace("{code}", code)).await;
                for table in &self.tables {
                    let trigger =
                        format!("CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON {table} EXECUTE FUNCTION broken()");
                    run(&self.breaker, &trigger).await;
                }
            }
            Cause::Locked(setting) => {
                run(&self.fixture.sql, &format!("SET {setting} = '20ms'")).await;
                run(&self.breaker, "BEGIN").await;
                run(&self.breaker, &format!("LOCK TABLE {} IN SHARE MODE", self.tables.join(", "))).await;
            }
            Cause::ReadOnly => {
                run(&self.fixture.sql, "SET default_transaction_read_only = on").await;
            }
            Cause::Terminated => {
                let rows = run(&self.fixture.sql, "SELECT pg_backend_pid()").await;
                let SqlValue::Int(pid) = rows[0][0] else { panic!("{rows:?}") };
                run(&self.breaker, &format!("SELECT CAST(pg_terminate_backend({pid}) AS TEXT)")).await;
            }
        }
    }

    async fn mend_ledger(&mut self, cause: Cause) {
        match cause {
            Cause::Raised(_) => {
                run(&self.breaker, "DROP FUNCTION broken CASCADE").await;
            }
            Cause::Locked(setting) => {
                run(&self.breaker, "ROLLBACK").await;
                run(&self.fixture.sql, &format!("SET {setting} = 0")).await;
            }
            Cause::ReadOnly => {
                run(&self.fixture.sql, "SET default_transaction_read_only = off").await;
            }
            Cause::Terminated => self.fixture.sql = open_connection(&self.observer).await,
        }
    }

    /// Writes new and redelivered messages as the sweeper does; whether all were answered.
    async fn write(&self) -> Result<bool, StoreError> {
        let reclaimed = self.fixture.write_reclaimed().await?;
        Ok(reclaimed.unanswered + self.fixture.write_batch().await?.unanswered == 0)
    }

    /// Runs every workflow but the order writer; the names of those that completed.
    async fn run_workflows(&self) -> Vec<&'static str> {
        let Self { fixture, .. } = self;
        let done = |result: Result<CommandOutcome, StoreError>| matches!(result, Ok(CommandOutcome::Done(_)));
        let applied = |result| matches!(result, Ok(CallbackEffect::Changed));
        let operated = |result| matches!(result, Ok(OperationOutcome::Done(_) | OperationOutcome::Unchanged(_)));
        let checkout = fixture.checkout(&self.provider, &self.checked_out, "sealed");
        let results = [
            ("pay", applied(fixture.apply_callback("payment.succeeded", &self.paid, "e", 100).await)),
            ("pay late", applied(fixture.apply_callback("payment.succeeded", &self.late, "e", 100).await)),
            ("checkout", matches!(checkout.await, Ok(CommandOutcome::Done(_)))),
            ("cancel", done(fixture.cancel(&self.cancelled).await)),
            ("refund", done(fixture.request_refund(&self.refunding).await)),
            ("restock", operated(fixture.operator().restock(&fixture.activity, &fixture.sku, 5, None).await)),
            ("pause", operated(fixture.operator().set_state(&fixture.activity, ActivityState::Paused).await)),
            ("expire", fixture.expire_orders().await.is_ok()),
        ];
        results.into_iter().filter_map(|(name, done)| done.then_some(name)).collect()
    }

    /// What buyers and operators see: the status of every order in both stores, the number of refunds and of dead
    /// letters, and the units on sale without the unit that a late payment may take.
    async fn observe(&self) -> String {
        let observer = &self.observer;
        let mut seen = String::new();
        for order in
            [&self.cancelled, &self.checked_out, &self.due, &self.late, &self.paid, &self.queued, &self.refunding]
        {
            let (ledger, mut redis) = (observer.ledger_status(order).await, observer.redis_status(order).await);
            // Redis may have reacquired the unit for the late payment before the ledger was asked.
            if order == &self.late && redis == Some(OrderStatus::Paid) {
                redis = Some(OrderStatus::Expired);
            }
            seen += &format!("{}: {ledger:?} {redis:?}\n", order.ulid());
        }
        let refunds = run(&observer.sql, "SELECT COUNT(*) FROM refunds").await;
        let letters = dead_letters::list(&observer.sql, None, 10).await.unwrap();
        let keys = Keys::of(&observer.activity);
        let held = observer.redis.command("HGET", vec![keys.order(self.late.ulid()).into(), "live".into()]);
        let held_late = held.await.unwrap() == [RedisValue::Bytes(b"1".to_vec())];
        let left = observer.stock().await + i64::from(held_late);
        seen + &format!("{refunds:?} {letters:?} left {left}")
    }
}

async fn check(cause: Cause, only_orders: bool) {
    let context = format!("{cause:?}, only orders: {only_orders}");
    let mut sale = Sale::new(only_orders).await;
    let before = sale.observe().await;
    sale.break_ledger(cause).await;
    // An operator's change writes no order.
    let unaffected: &[&str] =
        if only_orders && !matches!(cause, Cause::ReadOnly | Cause::Terminated) { &["restock", "pause"] } else { &[] };
    for delivery in 1..=MAX_DELIVERIES + 2 {
        assert!(!sale.write().await.unwrap_or(false), "{context}: delivery {delivery} was answered");
    }
    assert_eq!(sale.run_workflows().await, unaffected, "{context}");
    let restocked = if unaffected.is_empty() { 0 } else { 5 };
    let expected = before.replace("left 14", &format!("left {}", 14 + restocked));
    assert_eq!(sale.observe().await, expected, "{context}");

    sale.mend_ledger(cause).await;
    assert!(sale.write().await.unwrap(), "{context}");
    let status = async |order| sale.fixture.ledger_status(order).await;
    assert_eq!(status(&sale.queued).await, Some(OrderStatus::PendingPayment), "{context}");
    let completed = sale.run_workflows().await;
    let all = ["pay", "pay late", "checkout", "cancel", "refund", "restock", "pause", "expire"];
    assert_eq!(completed, all, "{context}");
    sale.fixture.recover().await;
    for (order, expected) in [
        (&sale.paid, OrderStatus::Paid),
        (&sale.late, OrderStatus::Paid),
        (&sale.cancelled, OrderStatus::Cancelled),
        (&sale.refunding, OrderStatus::Refunding),
        (&sale.due, OrderStatus::Expired),
    ] {
        assert_eq!(status(order).await, Some(expected), "{context}: {order}");
        assert_eq!(sale.fixture.redis_status(order).await, Some(expected), "{context}: {order}");
    }
    let stored = activities::load(&sale.fixture.sql, &sale.fixture.activity).await.unwrap().unwrap();
    assert_eq!(stored.spec.skus[0].total, 25 + restocked, "{context}");
    assert!(dead_letters::list(&sale.fixture.sql, None, 10).await.unwrap().is_empty(), "{context}");
    sale.fixture.units().await;
}

#[tokio::test]
async fn an_unknown_answer_of_the_ledger_fails_nothing_and_every_workflow_completes_afterwards() {
    for only_orders in [true, false] {
        for code in INDEFINITE {
            check(Cause::Raised(code), only_orders).await;
        }
        check(Cause::Locked("lock_timeout"), only_orders).await;
        check(Cause::Locked("statement_timeout"), only_orders).await;
    }
    check(Cause::ReadOnly, false).await;
    check(Cause::Terminated, false).await;
}

#[tokio::test]
async fn a_refusal_of_the_ledger_fails_the_order_at_once_and_no_payment() {
    for (code, reason) in [
        ("23502", "limit_reached_in_ledger"),
        ("23505", "limit_reached_in_ledger"),
        ("23514", "limit_reached_in_ledger"),
        ("P0001", "limit_reached_in_ledger"),
        ("22003", "undeliverable"),
        ("22P05", "undeliverable"),
    ] {
        let mut sale = Sale::new(true).await;
        sale.break_ledger(Cause::Raised(code)).await;
        assert!(sale.write().await.unwrap(), "{code}");
        let letter = dead_letters::load(&sale.observer.sql, &sale.queued).await.unwrap().expect("a dead letter");
        assert_eq!(letter.reason, reason, "{code}");
        assert_eq!(sale.observer.redis_status(&sale.queued).await, Some(OrderStatus::Failed), "{code}");
        let paid = sale.fixture.apply_callback("payment.succeeded", &sale.paid, "e", 100).await;
        assert!(paid.is_err(), "{code}: {paid:?}");
        sale.mend_ledger(Cause::Raised(code)).await;
        let again = sale.fixture.apply_callback("payment.succeeded", &sale.paid, "e", 100).await;
        assert_eq!(again.unwrap(), CallbackEffect::Changed, "{code}");
        sale.fixture.units().await;
    }
}
