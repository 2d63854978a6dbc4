//! Tests of sweeps whose ledger is slow (G3): they keep Redis's time and their lease, and stop in time.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use domain::time::Millis;
use workflows::{
    Sql, StoreError,
    ledger::orders,
    ports::{Dialect, SqlValue},
    recovery::{
        report::Report,
        sweep::{Retention, SweepOutcome, Sweeper},
        turns::LEASE_MS,
    },
};

use crate::{
    fakes::{FakeEndpoint, FakeProvider},
    fixture::{Fixture, LEDGERS, NOW, TICKET_SECRET, new_fixture},
    stores::{RealLedger, RealRedis},
};

/// A ledger on which statements that contain a text take a time, by a stopwatch that nothing else moves.
struct SlowLedger<'a> {
    ledger: &'a RealLedger,
    slow: &'static str,
    duration: Duration,
    stopwatch: Cell<Duration>,
    /// Renewals of the sweeper's lease: when, and until when.
    renewals: RefCell<Vec<(Millis, Millis)>>,
}

impl Sql for SlowLedger<'_> {
    fn dialect(&self) -> Dialect {
        self.ledger.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        if statement.contains(self.slow) {
            self.stopwatch.set(self.stopwatch.get() + self.duration);
        }
        if let [_, _, SqlValue::Int(until @ 1..), _] = params[..]
            && statement.starts_with("UPDATE leases")
        {
            self.renewals.borrow_mut().push((self.now(), Millis(until)));
        }
        self.ledger.run(statement, params).await
    }
}

impl<'a> SlowLedger<'a> {
    fn new(fixture: &'a Fixture<RealRedis, RealLedger>, slow: &'static str, duration: Duration) -> Self {
        let (stopwatch, renewals) = (Cell::default(), RefCell::default());
        Self { ledger: &fixture.sql, slow, duration, stopwatch, renewals }
    }

    /// Redis's time.
    fn now(&self) -> Millis {
        NOW.plus(self.stopwatch.get().as_millis() as i64)
    }

    /// Runs a sweep that begins at [`NOW`].
    async fn sweep(&self, redis: &RealRedis) -> Report {
        let sweeper = Sweeper {
            redis,
            sql: self,
            provider: Some(&FakeProvider::default()),
            http: &FakeEndpoint::default(),
            events: None,
            ticket_secret: TICKET_SECRET,
            retention: Retention::parse("", ""),
            owner: "a sweeper",
            clock: || NOW,
            stopwatch: &|| self.stopwatch.get(),
        };
        match sweeper.run(NOW).await.unwrap() {
            SweepOutcome::Swept(report, None) => *report,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sweep_that_waits_for_its_lease_goes_by_the_time_after_the_wait() {
    let wait = Duration::from_secs(20);
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let slow = SlowLedger::new(&fixture, "INSERT INTO leases", wait);
        assert_eq!(slow.sweep(&fixture.redis).await.written, 1, "{ledger}");
        let order = orders::load(&fixture.sql, &fixture.order_no(1)).await.unwrap().unwrap().order;
        let time_to_pay = order.pay_by.unwrap().0 - slow.now().0;
        assert!(time_to_pay >= 300_000, "{ledger}: {time_to_pay} ms to pay");
        let renewals = slow.renewals.borrow();
        assert!(!renewals.is_empty(), "{ledger}");
        for (at, until) in renewals.iter() {
            assert_eq!(until.0 - at.0, LEASE_MS, "{ledger}: {renewals:?}");
        }
    }
}
