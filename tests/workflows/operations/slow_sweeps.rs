//! Tests of sweeps whose ledger is slow, or whose Redis fails on one activity (G3): they keep Redis's time and their
//! lease, stop in time, and do the rest of their work.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    time::Duration,
};

use domain::{settings::Retention, time::Millis};
use operations::{
    commands::stats,
    upkeep::{passes::LEASE_MS, report::Report, sweep::Sweeper},
};
use orders::ledger::{events::set_enabled, order_rows};
use payments::{callbacks, ledger::addresses};
use sale::ledger::activities::{self, IN_REDIS_MS};
use stores::{Sql, keys::Keys, ports::SqlValue};

use crate::{
    fixture::{
        Fixture, LEDGERS, NOW, ONE_ORDER, Services, WHOLE_REBUILD, check_gates, completed, new_fixture, rebuild_of,
        sweeper,
    },
    operations::{
        epochs::pause,
        erasure::{LATER, old_activity},
        rebuilds,
    },
    orders::events::TARGET,
    stores::{Hooked, RealLedger, RealRedis, slowed},
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

impl<'a> SlowLedger<'a> {
    fn new(fixture: &'a Fixture<RealRedis, RealLedger>, slow: &'static str, duration: Duration) -> Self {
        let (stopwatch, renewals) = (Cell::default(), RefCell::default());
        Self { ledger: &fixture.sql, slow, duration, stopwatch, renewals }
    }

    /// Redis's time.
    fn now(&self) -> Millis {
        NOW.plus(self.stopwatch.get().as_millis() as i64)
    }

    /// Runs a sweep that begins at `now`, and keeps activities for `activity_days`.
    async fn sweep(&self, redis: &RealRedis, now: Millis, activity_days: Option<i64>) -> Report {
        let before = async |statement: &str, params: &[SqlValue]| {
            if statement.contains(self.slow) {
                self.stopwatch.set(self.stopwatch.get() + self.duration);
            }
            if let [_, _, SqlValue::Int(until @ 1..), _] = params[..]
                && statement.starts_with("UPDATE leases")
            {
                self.renewals.borrow_mut().push((self.now(), Millis(until)));
            }
            Ok(())
        };
        let (services, sql) = (Services::accepting(), Hooked { sql: self.ledger, before });
        let clock = || now.plus(self.stopwatch.get().as_millis() as i64);
        let sweeper = Sweeper {
            retention: Retention { address_days: Some(30), activity_days },
            stopwatch: &|| self.stopwatch.get(),
            ..sweeper((redis, &sql), &services, &clock)
        };
        completed(sweeper.run(now).await)
    }
}

#[tokio::test]
async fn a_sweep_that_waits_for_its_lease_goes_by_the_time_after_the_wait() {
    let wait = Duration::from_secs(20);
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let slow = SlowLedger::new(&fixture, "INSERT INTO leases", wait);
        assert_eq!(slow.sweep(&fixture.redis, NOW, None).await.written, 1, "{ledger}");
        let order = order_rows::load(&fixture.sql, &fixture.order_no(1)).await.unwrap().unwrap().order;
        let time_to_pay = order.pay_by.unwrap().0 - slow.now().0;
        assert!(time_to_pay >= 300_000, "{ledger}: {time_to_pay} ms to pay");
        let renewals = slow.renewals.borrow();
        assert!(!renewals.is_empty(), "{ledger}");
        for (at, until) in renewals.iter() {
            assert_eq!(until.0 - at.0, LEASE_MS, "{ledger}: {renewals:?}");
        }
    }
}

#[tokio::test]
async fn an_erasure_stops_when_the_time_is_up_and_the_next_sweep_continues_it() {
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let slow = SlowLedger::new(&fixture, "DELETE FROM orders", Duration::from_secs(20));
        let erase = async || slow.sweep(&fixture.redis, LATER.plus(IN_REDIS_MS), Some(0)).await.erased_activities;
        assert_eq!(erase().await, 0, "{ledger}: it went on after 20 s");
        assert_eq!(erase().await, 1, "{ledger}");
    }
}

/// When addresses of the fixture's orders are past their retention period.
const MONTHS_LATER: Millis = Millis(NOW.0 + 100 * 24 * 3_600_000);

#[tokio::test]
async fn a_sweep_whose_time_is_used_up_by_refunds_erases_old_addresses_and_activities() {
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let slow = SlowLedger::new(&fixture, "UPDATE refunds", Duration::from_secs(20));
        let report = slow.sweep(&fixture.redis, MONTHS_LATER, None).await;
        assert!(report.erased > 0, "{ledger}: {report:?}");
        assert_eq!(addresses::load(&fixture.sql, &fixture.order_no(8)).await.unwrap(), None, "{ledger}");
        let last_renewal = slow.renewals.borrow().last().copied();
        assert_eq!(last_renewal, Some((NOW.plus(20_000), MONTHS_LATER.plus(20_000 + LEASE_MS))), "{ledger}");
        assert_eq!(slow.sweep(&fixture.redis, MONTHS_LATER, Some(90)).await.erased_activities, 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_whose_time_is_used_up_by_refunds_continues_a_rebuild() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        rebuilds::set_up(&fixture).await;
        fixture.rebuild(ONE_ORDER).await.unwrap();
        let slow = SlowLedger::new(&fixture, "UPDATE refunds", Duration::from_secs(20));
        assert_eq!(slow.sweep(&fixture.redis, NOW.plus(60_000), None).await.rebuilds, 1, "{ledger}");
    }
}

#[tokio::test]
async fn the_time_to_pay_starts_when_a_sweep_continues_the_rebuild_that_writes_the_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        let mut orders = Vec::new();
        for n in 1..=3 {
            orders.push(fixture.pending_order(n, &format!("buyer-{n}"), 1).await);
        }
        let lost = &orders[2];
        pause(&fixture).await;
        fixture.restore_older_ledger(&[lost]).await;
        fixture.sql.run("UPDATE activities SET state = 'paused', pay_timeout_ms = 20000", vec![]).await.unwrap();
        fixture.rebuild(ONE_ORDER).await.unwrap();
        let slow = SlowLedger::new(&fixture, "UPDATE refunds", Duration::from_secs(20));
        slow.sweep(&fixture.redis, NOW.plus(60_000), None).await;
        let pay_by = fixture.order_row(lost).await.order.pay_by.unwrap();
        assert!(pay_by >= slow.now().plus(60_000 + 20_000), "{ledger}: {pay_by:?}");
    }
}

#[tokio::test]
async fn a_sweep_whose_payments_are_slow_corrects_gates_by_the_time_after_them() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let change = "UPDATE activities SET version = version + 1, updated_at = ?1";
        fixture.sql.run(change, vec![NOW.0.into()]).await.unwrap();
        fixture.record_payment(&fixture.order_no(1), NOW).await;
        // The request that makes the change has 10 s for it.
        let slow = SlowLedger::new(&fixture, "UPDATE callbacks", Duration::from_secs(6));
        assert_eq!(slow.sweep(&fixture.redis, NOW.plus(5_000), None).await.warmed_up, 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_slow_erasure_of_rows_stops_after_a_batch() {
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let slow = SlowLedger::new(&fixture, "FROM addresses", Duration::from_secs(2));
        slow.sweep(&fixture.redis, MONTHS_LATER, None).await;
        // It counts and deletes rows.
        assert_eq!(slow.stopwatch.get(), Duration::from_secs(4), "{ledger}");
    }
}

#[tokio::test]
async fn the_time_to_pay_starts_when_a_slow_rebuild_writes_the_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        pause(&fixture).await;
        let slow = slowed(&fixture.sql, "INTO rebuilds");
        rebuild_of(&fixture.redis, &slow, &fixture.activity, WHOLE_REBUILD).run(None).await.unwrap();
        let pay_by = fixture.order_row(&fixture.order_no(1)).await.order.pay_by.unwrap();
        assert!(pay_by >= NOW.plus(500 + 300_000), "{ledger}: {pay_by:?}");
    }
}

#[tokio::test]
async fn slow_callbacks_leave_time_for_renewing_the_lease() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        for n in 1..=5 {
            fixture.record_payment(&fixture.order_no(n), NOW).await;
        }
        let slow = slowed(&fixture.sql, "UPDATE callbacks");
        let mut left = 5;
        while left > 0 {
            let later = NOW.plus(60_000);
            let round = callbacks::apply_pending(&fixture.redis, &slow, later, 10, &BTreeSet::new()).await.unwrap();
            let applied = round.applied;
            assert_eq!(applied, round.visited, "{ledger}");
            assert!((1..=3).contains(&applied), "{ledger}: {applied} callbacks in one round");
            left -= applied;
        }
    }
}

#[tokio::test]
async fn slow_corrections_of_gates_leave_time_for_the_rest_of_a_sweep() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 5, 5).await;
        let mut listed = vec![fixture.activity.clone()];
        for _ in 0..6 {
            fixture.publish_another(|_| {}).await;
            listed.push(fixture.activity.clone());
        }
        let change = "UPDATE activities SET version = version + 1, updated_at = 0";
        fixture.sql.run(change, Vec::new()).await.unwrap();
        let slow = slowed(&fixture.sql, "WHERE id = ?1 AND state");
        let mut left = 7;
        while left > 0 {
            let mut report = Report::default();
            check_gates(&fixture.redis, &slow, &listed, NOW, &mut report).await;
            assert_eq!(report.more, report.warmed_up < left, "{ledger}");
            assert!((1..=5).contains(&report.warmed_up), "{ledger}: {} gates in one sweep", report.warmed_up);
            left -= report.warmed_up;
        }
    }
}

#[tokio::test]
async fn an_activity_whose_gate_cannot_be_corrected_delays_no_order_of_another_one() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 5, 5).await;
        let change = "UPDATE activities SET version = version + 1, updated_at = 0";
        fixture.sql.run(change, Vec::new()).await.unwrap();
        fixture.publish_another(|_| {}).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let slow = SlowLedger::new(&fixture, "WHERE id = ?1 AND state", Duration::from_secs(9));
        let report = slow.sweep(&fixture.redis, NOW, None).await;
        assert_eq!((report.written, report.warmed_up), (1, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_stream_that_redis_cannot_read_keeps_no_other_activity_from_its_events_and_statistics() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 5, 5).await;
        let broken = fixture.publish_another(|_| {}).await;
        fixture.run_redis(&["SET", &Keys::of(&broken).named("orders"), "not a stream"]).await;
        let services = Services::accepting();
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.pending_order(1, "ada", 1).await;
        let sweeper = sweeper((&fixture.redis, &fixture.sql), &services, &|| NOW);
        let report = completed(Sweeper { events: Some(TARGET), ..sweeper }.run(NOW).await);
        let sent = services.http.requests.borrow().len();
        assert_eq!((report.events, sent), (3, 3), "{ledger}: of the order, and that both activities are open");
        assert_eq!(report.stuck, BTreeSet::from([broken.clone()]), "{ledger}");

        let listed = activities::list_in_redis(&fixture.sql, NOW).await.unwrap();
        let stats = stats::recent_stats(&fixture.redis, listed).await;
        let read: Vec<_> = stats.activities.iter().map(|(id, _)| id).collect();
        let failed: Vec<_> = stats.failures.iter().map(|(id, _)| id).collect();
        assert_eq!((read, failed), (vec![&fixture.activity], vec![&broken]), "{ledger}");
    }
}
