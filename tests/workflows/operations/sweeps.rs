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
use orders::{event_delivery::WebhookTarget, ledger::events::set_enabled};
use payments::ledger::addresses;
use stores::{
    Sql, StoreError,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::leases,
    ports::{Dialect, SqlValue},
};

use crate::{
    fakes::{FakeEndpoint, FakeKeyValue, FakeProvider},
    fixture::{Fixture, LEDGERS, NOW, TICKET_SECRET, new_fixture},
    operations::erasure::old_activity,
    orders::events::WEBHOOK_SECRET,
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
    let stopwatch = || {
        time.set(time.get() + step);
        time.get()
    };
    let (sql, provider, http) = (FailingAt(&fixture.sql, failing), FakeProvider::default(), FakeEndpoint::default());
    let copies = FakeKeyValue::default();
    let no_notice = |notice: &Notice| panic!("{notice:?}");
    let sweeper = Sweeper {
        clock: &|| DUE.plus(time.get().as_millis() as i64),
        ..sweeper(&fixture.redis, &copies, &sql, &provider, &http, &stopwatch, &no_notice)
    };
    sweeper.run(DUE).await.unwrap()
}

/// A sweeper that has no shop to send events to.
fn sweeper<'a, S, W>(
    redis: &'a RealRedis,
    key_value: &'a FakeKeyValue,
    sql: &'a S,
    provider: &'a FakeProvider,
    http: &'a W,
    stopwatch: &'a dyn Fn() -> Duration,
    log: &'a dyn Fn(&Notice),
) -> Sweeper<'a, RealRedis, S, FakeKeyValue, FakeProvider, W> {
    Sweeper {
        redis,
        key_value,
        sql,
        provider: Some(provider),
        http,
        events: None,
        ticket_secret: TICKET_SECRET,
        retention: Retention { address_days: Some(30), activity_days: None },
        owner: "a sweeper",
        clock: &|| DUE,
        stopwatch,
        log,
    }
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
        let provider = FakeProvider::default();
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        provider.drops_responses.set(true);
        let log = RefCell::default();
        let shop = ReadingShop { log: &log, seen: RefCell::default() };
        let copies = FakeKeyValue::default();
        let add = |notice: &Notice| log.borrow_mut().push(notice.clone());
        let sweeper = Sweeper {
            events: Some(WebhookTarget { url: "https://shop.example", secrets: WEBHOOK_SECRET }),
            ..sweeper(&fixture.redis, &copies, &fixture.sql, &provider, &shop, &|| Duration::ZERO, &add)
        };
        assert!(matches!(sweeper.run(DUE).await.unwrap(), SweepOutcome::Swept(_, None)), "{ledger}");
        let subjects: Vec<_> = shop.seen.borrow().iter().map(|notice| notice.subject.clone()).collect();
        assert_eq!(subjects, [("order_no", order_no.to_string())], "{ledger}");
        assert_eq!(*log.borrow(), *shop.seen.borrow(), "{ledger}: logged twice");
    }
}

/// What is erased does not come back.
#[tokio::test]
async fn a_sweep_by_a_redis_whose_clock_is_months_ahead_erases_nothing() {
    const MONTHS_LATER: Millis = Millis(NOW.0 + 100 * 24 * 3_600_000);
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let (provider, http, copies) = (FakeProvider::default(), FakeEndpoint::default(), FakeKeyValue::default());
        let log = RefCell::new(Vec::new());
        let add = |notice: &Notice| log.borrow_mut().push(notice.subject.clone());
        let sweep = async |app_clock: Millis| {
            let sweeper = Sweeper {
                retention: Retention { address_days: Some(30), activity_days: Some(90) },
                clock: &|| app_clock,
                ..sweeper(&fixture.redis, &copies, &fixture.sql, &provider, &http, &|| Duration::ZERO, &add)
            };
            match sweeper.run(MONTHS_LATER).await.unwrap() {
                SweepOutcome::Swept(report, None) => (report.erased > 0, report.erased_activities),
                other => panic!("{ledger}: {other:?}"),
            }
        };
        assert_eq!(sweep(NOW).await, (false, 0), "{ledger}");
        assert!(addresses::load(&fixture.sql, &fixture.order_no(8)).await.unwrap().is_some(), "{ledger}");
        assert_eq!(*log.borrow(), [("clock", "Redis".to_owned())], "{ledger}");
        assert_eq!(sweep(MONTHS_LATER).await, (true, 1), "{ledger}");
    }
}
