//! Tests of whole sweeps (G3): one at a time, and a failure leaves the rest to the next one.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use domain::{order::OrderStatus, settings::Retention, time::Millis};
use operations::upkeep::{
    passes::{LEASE, LEASE_MS},
    report::Notice,
    sweep::{SweepOutcome, Sweeper},
};
use orders::ledger::events::set_enabled;
use payments::ledger::addresses;
use stores::{
    StoreError,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::leases,
};

use crate::{
    fakes::{FakeKeyValue, FakeProvider},
    fixture::{Fixture, LEDGERS, NOW, Services, completed, new_fixture, sweeper},
    operations::erasure::old_activity,
    orders::events::TARGET,
    stores::{RealLedger, RealRedis, failing},
};

/// When orders of the fixture are due.
const DUE: Millis = Millis(NOW.0 + 3_600_000);

/// Sweeps with a ledger that is unavailable for statements that contain `failing_at`, and a stopwatch that moves on by
/// `step` each time it is read.
async fn sweep(fixture: &Fixture<RealRedis, RealLedger>, failing_at: &'static str, step: Duration) -> SweepOutcome {
    // Time that passed before the sweep has its lease counts for nothing.
    let time = Cell::new(Duration::from_secs(60));
    let stopwatch = || {
        time.set(time.get() + step);
        time.get()
    };
    let sql = failing(&fixture.sql, |statement, _| !failing_at.is_empty() && statement.contains(failing_at));
    let (services, clock) = (Services::accepting(), || DUE.plus(time.get().as_millis() as i64));
    let sweeper = Sweeper {
        stopwatch: &stopwatch,
        log: &|notice| panic!("{notice:?}"),
        ..sweeper((&fixture.redis, &sql), &services, &clock)
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
        assert_eq!(error, None, "{ledger}");
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

/// A shop that reads the log of the sweeper when it gets an event.
struct ReadingShop<'a> {
    log: &'a RefCell<Vec<Notice>>,
    seen: RefCell<Vec<Notice>>,
}

impl HttpClient for ReadingShop<'_> {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, NoResponse> {
        self.seen.borrow_mut().clone_from(&self.log.borrow());
        Err(NoResponse("silence".to_owned()))
    }
}

#[tokio::test]
async fn a_sweep_logs_what_it_met_before_it_waits_for_the_shop() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let log = RefCell::default();
        let shop = ReadingShop { log: &log, seen: RefCell::default() };
        let services = Services { http: shop, provider: FakeProvider::default(), key_value: FakeKeyValue::default() };
        let (order_no, _) = fixture.checked_out_order(&services.provider, 1, "ada").await;
        services.provider.drops_responses.set(true);
        let sweeper = Sweeper {
            events: Some(TARGET),
            log: &|notice| log.borrow_mut().push(notice.clone()),
            ..sweeper((&fixture.redis, &fixture.sql), &services, &|| DUE)
        };
        assert!(matches!(sweeper.run(DUE).await.unwrap(), SweepOutcome::Swept(_, None)), "{ledger}");
        let subjects: Vec<_> = services.http.seen.borrow().iter().map(|notice| notice.subject.clone()).collect();
        assert_eq!(subjects, [("order_no", order_no.to_string())], "{ledger}");
        assert_eq!(*log.borrow(), *services.http.seen.borrow(), "{ledger}: logged twice");
    }
}

/// What is erased does not come back.
#[tokio::test]
async fn a_sweep_by_a_ledger_whose_clock_is_months_ahead_erases_nothing() {
    const MONTHS_LATER: Millis = Millis(NOW.0 + 100 * 24 * 3_600_000);
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let (services, log) = (Services::accepting(), RefCell::new(Vec::new()));
        let sweep = async |redis_ahead_ms| {
            let sweeper = Sweeper {
                redis_ahead_ms: Some(redis_ahead_ms),
                retention: Retention { address_days: Some(30), activity_days: Some(90) },
                log: &|notice| log.borrow_mut().push(notice.subject.clone()),
                ..sweeper((&fixture.redis, &fixture.sql), &services, &|| MONTHS_LATER)
            };
            let report = completed(sweeper.run(MONTHS_LATER).await);
            (report.erased > 0, report.erased_activities)
        };
        assert_eq!(sweep(NOW.0 - MONTHS_LATER.0).await, (false, 0), "{ledger}");
        assert!(addresses::load(&fixture.sql, &fixture.order_no(8)).await.unwrap().is_some(), "{ledger}");
        assert_eq!(*log.borrow(), [("clock", "Redis".to_owned())], "{ledger}");
        assert_eq!(sweep(0).await, (true, 1), "{ledger}");
    }
}
