//! Tests of whole sweeps (G3): one at a time, and a failure leaves the rest to the next one.

use std::{cell::Cell, time::Duration};

use domain::{order::OrderStatus, time::Millis};
use workflows::{
    Sql, StoreError,
    ledger::leases,
    ports::{Dialect, SqlValue},
    recovery::{
        sweep::{Retention, SweepOutcome, Sweeper},
        turns::{LEASE, LEASE_MS},
    },
};

use crate::{
    fakes::{FakeEndpoint, FakeProvider},
    fixture::{Fixture, LEDGERS, NOW, TICKET_SECRET, new_fixture},
    stores::{RealLedger, RealRedis},
};

/// When orders of the fixture are due.
const DUE: Millis = Millis(NOW.0 + 3_600_000);

/// A ledger that is unavailable for statements that contain a text.
struct FailingAt<'a>(&'a RealLedger, &'static str);

impl Sql for FailingAt<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        if !self.1.is_empty() && statement.contains(self.1) {
            return Err(StoreError::LedgerUnavailable("lock timeout".to_owned()));
        }
        self.0.run(statement, params).await
    }
}

/// Sweeps with a ledger that is unavailable for statements that contain `failing`, and a stopwatch that moves on by
/// `step` each time it is read.
async fn sweep(fixture: &Fixture<RealRedis, RealLedger>, failing: &'static str, step: Duration) -> SweepOutcome {
    // Time that passed before the sweep has its lease counts for nothing.
    let time = Cell::new(Duration::from_secs(60));
    let sweeper = Sweeper {
        redis: &fixture.redis,
        sql: &FailingAt(&fixture.sql, failing),
        provider: Some(&FakeProvider::default()),
        http: &FakeEndpoint::default(),
        events: None,
        ticket_secret: TICKET_SECRET,
        retention: Retention::parse("", ""),
        owner: "a sweeper",
        clock: || DUE,
        stopwatch: &|| {
            time.set(time.get() + step);
            time.get()
        },
    };
    sweeper.run(DUE).await.unwrap()
}

#[tokio::test]
async fn a_sweep_expires_writes_and_finishes_what_is_due_in_one_call() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let (due, paid) = (fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "ada", 1).await);
        fixture.record_payment(&paid, NOW).await;
        fixture.reserve(3, "bob", 1).await.unwrap();
        let SweepOutcome::Swept(report, error) = sweep(&fixture, "", Duration::ZERO).await else { panic!("busy") };
        assert_eq!((error, report.failures, report.notices), (None, vec![], vec![]), "{ledger}");
        assert_eq!((report.expired, report.written, report.callbacks, report.more), (2, 1, 1, false), "{ledger}");
        assert_eq!(fixture.ledger_status(&due).await, Some(OrderStatus::Expired), "{ledger}");
        // A payment that comes after the order expired takes the unit again.
        assert_eq!(fixture.ledger_status(&paid).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_is_refused_while_another_sweeper_is_at_work() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let due = fixture.pending_order(1, "ada", 1).await;
        let lease = leases::acquire(&fixture.sql, LEASE, "another", DUE, LEASE_MS).await.unwrap().expect("free");
        assert!(matches!(sweep(&fixture, "", Duration::ZERO).await, SweepOutcome::Busy), "{ledger}");
        assert_eq!(fixture.ledger_status(&due).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert!(leases::release(&fixture.sql, &lease).await.unwrap(), "{ledger}");
        assert!(matches!(sweep(&fixture, "", Duration::ZERO).await, SweepOutcome::Swept(_, None)), "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_that_fails_says_what_it_did_and_the_next_one_continues_at_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let paid = fixture.pending_order(1, "ada", 1).await;
        fixture.record_payment(&paid, NOW).await;
        let SweepOutcome::Swept(report, error) = sweep(&fixture, "callbacks", Duration::ZERO).await else {
            panic!("busy")
        };
        assert_eq!((report.expired, report.callbacks), (1, 0), "{ledger}");
        assert!(matches!(error, Some(StoreError::LedgerUnavailable(_))), "{ledger}");
        let SweepOutcome::Swept(report, error) = sweep(&fixture, "", Duration::ZERO).await else { panic!("busy") };
        assert_eq!((report.callbacks, error), (1, None), "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_whose_time_is_up_expires_nothing_more_and_says_so() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let due = fixture.pending_order(1, "ada", 1).await;
        let SweepOutcome::Swept(report, error) = sweep(&fixture, "", Duration::from_secs(60)).await else {
            panic!("busy")
        };
        assert_eq!((report.expired, report.more, error), (0, true, None), "{ledger}");
        assert_eq!(fixture.ledger_status(&due).await, Some(OrderStatus::PendingPayment), "{ledger}");
    }
}
