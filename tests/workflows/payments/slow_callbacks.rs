//! Tests of callbacks that cannot be applied (G3, E2): they are tried again, and later ones get their turn.

use std::{cell::Cell, collections::BTreeSet, time::Duration};

use domain::{ids::ActivityId, order::OrderStatus, time::Millis, webhook::ProviderCallback};
use operations::upkeep::{report::Report, sweep::Sweeper};
use payments::{
    callbacks::{self, CallbackEffect},
    ledger::callback_rows::{self, RecordIf},
};
use stores::{
    Sql, StoreError,
    ports::{Dialect, SqlValue},
};

use crate::{
    fixture::{LEDGERS, NOW, Services, completed, new_fixture, open_connection, sweeper},
    payments::report,
    stores::{RealLedger, RealRedis},
};

/// A ledger that fails on the statements about some orders, which take 20 s by a stopwatch.
struct Failing<'a> {
    ledger: &'a RealLedger,
    /// How the numbers of the orders begin.
    orders: String,
    /// How long they take.
    pause: Duration,
    stopwatch: Cell<Duration>,
    failures: Cell<usize>,
}

impl Sql for Failing<'_> {
    fn dialect(&self) -> Dialect {
        self.ledger.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        if matches!(params.first(), Some(SqlValue::Text(text)) if text.starts_with(&self.orders)) {
            self.failures.set(self.failures.get() + 1);
            self.stopwatch.set(self.stopwatch.get() + Duration::from_secs(20));
            tokio::time::sleep(self.pause).await;
            return Err(StoreError::LedgerUnavailable("lock timeout".to_owned()));
        }
        self.ledger.run(statement, params).await
    }
}

impl Failing<'_> {
    async fn sweep(&self, redis: &RealRedis, now: Millis) -> Report {
        let services = Services::accepting();
        let sweeper = Sweeper { stopwatch: &|| self.stopwatch.get(), ..sweeper((redis, self), &services, &|| NOW) };
        completed(sweeper.run(now).await)
    }
}

/// Longer than a sweep applies callbacks in one round.
const OVER_A_ROUND: Duration = Duration::from_millis(1_100);

/// A ledger that fails on the orders of an activity.
fn failing_for<'a>(ledger: &'a RealLedger, activity: &ActivityId, pause: Duration) -> Failing<'a> {
    let orders = format!("{activity}.");
    Failing { ledger, orders, pause, stopwatch: Cell::default(), failures: Cell::default() }
}

#[tokio::test]
async fn callbacks_that_use_up_a_sweep_and_fail_come_after_those_of_another_activity() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 3, 3).await;
        for n in [1, 2] {
            fixture.record_payment(&fixture.pending_order(n, "ada", 1).await, NOW.plus(n as i64)).await;
        }
        let stuck = fixture.publish_another(|_| {}).await;
        let other = fixture.pending_order(1, "bob", 1).await;
        fixture.record_payment(&other, NOW.plus(3)).await;
        for sweep in 1..=2 {
            let slow = failing_for(&fixture.sql, &stuck, OVER_A_ROUND);
            slow.sweep(&fixture.redis, NOW.plus(sweep * 60_000)).await;
            assert_eq!(slow.failures.get(), 1, "{ledger}: sweep {sweep}");
        }
        assert_eq!(fixture.ledger_status(&other).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_waits_longer_after_each_failure_and_ten_minutes_at_most() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        fixture.record_payment(&fixture.pending_order(1, "ada", 1).await, NOW).await;
        let failing = failing_for(&fixture.sql, &fixture.activity, Duration::ZERO);
        let try_at = async |now: Millis| {
            callbacks::apply_pending(&fixture.redis, &failing, now, 10, &BTreeSet::new()).await.unwrap().visited
        };
        let mut due = NOW.plus(5_000);
        for seconds in [5, 20, 45, 80, 125, 180, 245, 320, 405, 500, 600, 600] {
            assert_eq!(try_at(due.plus(-1)).await, 0, "{ledger}: too early for the wait of {seconds} s");
            assert_eq!(try_at(due).await, 1, "{ledger}: late for the wait of {seconds} s");
            due = due.plus(seconds * 1_000);
        }
        assert_eq!(failing.failures.get(), 12, "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_that_waits_is_applied_at_once_when_the_provider_delivers_it_again() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let received_at = NOW.plus(-5_000);
        fixture.record_payment(&order_no, received_at).await;
        let failing = failing_for(&fixture.sql, &fixture.activity, Duration::ZERO);
        callbacks::apply_pending(&fixture.redis, &failing, NOW, 10, &BTreeSet::new()).await.unwrap();
        let round = callbacks::apply_pending(&fixture.redis, &fixture.sql, NOW, 10, &BTreeSet::new()).await.unwrap();
        assert_eq!(round.applied, 0, "{ledger}");
        let id = format!("recorded-{order_no}");
        let delivered = ProviderCallback { id, ..report("payment.succeeded", &order_no, "pay") };
        let effect = callbacks::apply(&fixture.redis, &fixture.sql, &delivered, NOW).await.unwrap();
        assert_eq!(effect, CallbackEffect::Changed, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

/// SQLite locks no rows.
#[tokio::test]
async fn a_callback_whose_row_is_locked_keeps_no_other_from_being_applied() {
    let fixture = new_fixture("postgres", 3, 3).await;
    let [locked, other] = [fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "bob", 1).await];
    fixture.record_payment(&locked, NOW).await;
    fixture.record_payment(&other, NOW.plus(1)).await;
    let connection = open_connection(&fixture).await;
    connection.run("BEGIN", Vec::new()).await.unwrap();
    let lock = "UPDATE callbacks SET outcome = outcome WHERE order_no = ?1";
    connection.run(lock, vec![locked.to_string().into()]).await.unwrap();
    let apply = async || {
        let none = BTreeSet::new();
        let applying = callbacks::apply_pending(&fixture.redis, &fixture.sql, NOW.plus(60_000), 10, &none);
        tokio::time::timeout(Duration::from_secs(5), applying).await.expect("it waits for the lock").unwrap().applied
    };
    assert_eq!(apply().await, 1);
    assert_eq!(fixture.ledger_status(&other).await, Some(OrderStatus::Paid));
    connection.run("ROLLBACK", Vec::new()).await.unwrap();
    assert_eq!(apply().await, 1);
}

/// SQLite has one writer.
#[tokio::test]
async fn of_two_payments_in_open_transactions_the_second_finds_the_order_paid() {
    let fixture = new_fixture("postgres", 3, 3).await;
    let order_no = fixture.pending_order(1, "ada", 1).await;
    let [first, second] = ["first", "second"].map(|payment| report("payment.succeeded", &order_no, payment));
    let connection = open_connection(&fixture).await;
    connection.run("BEGIN", Vec::new()).await.unwrap();
    callback_rows::record(&connection, &first, RecordIf::Always, NOW).await.unwrap();
    let committing = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        connection.run("COMMIT", Vec::new()).await.unwrap();
    };
    let (applied, ()) = tokio::join!(callbacks::apply(&fixture.redis, &fixture.sql, &second, NOW), committing);
    assert_eq!(applied.unwrap(), CallbackEffect::Changed);
    assert_eq!(fixture.order_row(&order_no).await.payment, "first");
    assert_eq!(fixture.open_refund_payments().await, ["second"]);
}
