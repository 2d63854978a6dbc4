//! Payments while Redis does not answer: the ledger decides, and Redis follows later (E1, E2, E5, G3; I5, I6).

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    time::SystemTime,
};

use domain::{language::Language, order::OrderStatus, time::Millis};
use operations::upkeep::{
    report::Notice,
    sweep::{SweepOutcome, Sweeper},
};
use payments::{
    callbacks::{self, CallbackEffect, Receipt},
    checkout::checkout,
    commands::{self, CommandOutcome},
    ledger::addresses::SealedAddress,
};
use stores::{
    Sql, StoreError,
    ledger::clock::{self, Clock},
};

use crate::{
    fakes::FakeProvider,
    fixture::{DUE, Fixture, LEDGERS, NOW, RealFixture, Services, new_fixture, sweeper},
    payments::report,
    stores::{NoRedis, failing},
};

/// The same activity without Redis.
fn without_redis(fixture: &RealFixture) -> Fixture<NoRedis, impl Sql + '_> {
    fixture.with_stores(NoRedis, failing(&fixture.sql, |_, _| false))
}

#[tokio::test]
async fn buyers_pay_cancel_and_ask_for_refunds_without_redis_which_follows_later() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let [paid, cancelled] = [fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "bob", 1).await];
        let refunded = fixture.paid_order(3, "eve").await;
        let away = without_redis(&fixture);
        let checked_out = away.checkout(&provider, &paid, "sealed").await.unwrap();
        assert!(matches!(&checked_out, CommandOutcome::Done(order) if order.pay_by == Some(DUE)), "{checked_out:?}");
        assert_eq!(away.payment_succeeded(&paid, "e").await, Ok(CallbackEffect::Changed), "{ledger}");
        assert!(matches!(away.cancel(&cancelled).await, Ok(CommandOutcome::Done(_))), "{ledger}");
        assert!(matches!(away.request_refund(&refunded).await, Ok(CommandOutcome::Done(_))), "{ledger}");
        away.send_refunds(&provider, 0).await.unwrap();
        assert_eq!(away.refund_succeeded(&refunded, "r").await, Ok(CallbackEffect::Changed), "{ledger}");

        fixture.recover().await;
        for (order_no, status) in
            [(paid, OrderStatus::Paid), (cancelled, OrderStatus::Cancelled), (refunded, OrderStatus::Refunded)]
        {
            fixture.assert_status(&order_no, status, ledger).await;
        }
        assert_eq!(fixture.units().await, (4, 0, 1), "{ledger}");
    }
}

/// Not knowing whether a unit is free is no reason to refund.
#[tokio::test]
async fn a_late_payment_that_needs_a_unit_waits_for_redis_and_an_operator_sees_it() {
    for ledger in LEDGERS {
        for is_free in [true, false] {
            let fixture = new_fixture(ledger, 1, 1).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            fixture.expire_orders().await.unwrap();
            if !is_free {
                fixture.pending_order(2, "bob", 1).await;
            }
            let away = without_redis(&fixture);
            let unanswered = away.payment_succeeded(&order_no, "e").await;
            assert!(matches!(unanswered, Err(StoreError::RedisUnavailable(_))), "{ledger}: {unanswered:?}");
            let (services, log) = (Services::accepting(), RefCell::new(Vec::new()));
            let later = NOW.plus(3_600_000);
            for sweep in 0..2 {
                let now = later.plus(sweep * 5_000);
                let clock = || now;
                let log = &|notice: &Notice| log.borrow_mut().push(notice.subject.1.clone());
                let sweeper = Sweeper { log, ..sweeper((&away.redis, &away.sql), &services, &clock) };
                sweeper.run(now).await.unwrap();
            }
            assert_eq!(*log.borrow(), vec![format!("e-{order_no}"); 2], "{ledger}: each sweep tries it, and says so");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Expired), "{ledger}");
            assert_eq!(fixture.open_refunds().await, [], "{ledger}");

            let none = BTreeSet::new();
            callbacks::apply_pending(&fixture.redis, &fixture.sql, later.plus(60_000), 10, &none).await.unwrap();
            let status = if is_free { OrderStatus::Paid } else { OrderStatus::Refunding };
            fixture.assert_status(&order_no, status, ledger).await;
        }
    }
}

#[tokio::test]
async fn a_sweep_without_redis_does_what_needs_only_the_ledger() {
    for ledger in LEDGERS {
        let (fixture, services) = (new_fixture(ledger, 5, 1).await, Services::accepting());
        let unpaid = fixture.pending_order(1, "ada", 1).await;
        let (checked_out, _) = fixture.checked_out_order(&services.provider, 2, "bob").await;
        let (paid, refunding) = (fixture.pending_order(3, "cid", 1).await, fixture.refunding_order(4, "dan").await);
        fixture.record_payment(&paid, NOW).await;
        let away = without_redis(&fixture);
        let sweep = async |now: Millis| {
            let clock = || now;
            match sweeper((&away.redis, &away.sql), &services, &clock).run(now).await.unwrap() {
                SweepOutcome::Swept(report, Some(StoreError::RedisUnavailable(_))) => report,
                other => panic!("{ledger}: {other:?}"),
            }
        };
        let report = sweep(NOW.plus(310_000)).await;
        assert_eq!((report.callbacks, report.refunds, report.expired), (1, 1, 1), "{ledger}: {report:?}");
        sweep(DUE).await;
        for (order_no, status) in [
            (&unpaid, OrderStatus::Expired),
            (&checked_out, OrderStatus::Expired),
            (&paid, OrderStatus::Paid),
            (&refunding, OrderStatus::Refunding),
        ] {
            assert_eq!(fixture.ledger_status(order_no).await, Some(status), "{ledger}");
        }
        assert_eq!(services.provider.ended_sessions.borrow().len(), 1, "{ledger}");
        fixture.recover().await;
        assert_eq!(fixture.units().await, (3, 0, 2), "{ledger}");
    }
}

/// A checkout asks the provider between its two statements.
#[tokio::test]
async fn a_callback_is_answered_after_one_statement_and_the_ledgers_clock_decides_about_all_of_them() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let count = Cell::new(0);
        let sql = failing(&fixture.sql, |_, _| count.replace(count.get() + 1) < 0);
        let now = clock::now(&fixture.sql).await.unwrap();
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as i64;
        assert!((now.0 - real).abs() < 5_000, "{ledger}: {now:?} at {real}");
        let order_of = async |n: u64, user: &str, ms: i64| {
            let order_no = fixture.pending_order(n, user, 1).await;
            let params = vec![order_no.to_string().into(), now.plus(ms).0.into()];
            fixture.sql.run("UPDATE orders SET pay_by = ?2 WHERE order_no = ?1", params).await.unwrap();
            fixture.order_row(&order_no).await.order
        };
        let address = SealedAddress { sealed: "sealed", language: &Language::default() };

        let order = order_of(1, "ada", 60_000).await;
        count.set(0);
        let (checked_out, _) = checkout(&sql, &provider, &order, address, Clock::Ledger).await.unwrap();
        let CommandOutcome::Done(checked_out) = checked_out else { panic!("{ledger}: {checked_out:?}") };
        assert_eq!((count.take(), checked_out.pay_by), (2, Some(now.plus(120_000))), "{ledger}: extended");
        let payment = report("payment.succeeded", &order.order_no, "p");
        let receipt = callbacks::receive(&NoRedis, &sql, &payment, true, |_| true, Clock::Ledger).await.unwrap();
        assert!(matches!(receipt, Receipt::Recorded(_)), "{ledger}: {receipt:?}");
        assert_eq!(count.get(), 1, "{ledger}");
        let paid_at = fixture.order_row(&order.order_no).await.order.paid_at.unwrap();
        assert!((0..60_000).contains(&(paid_at.0 - now.0)), "{ledger}: {paid_at:?}");
        let refunding = commands::request_refund(&sql, &order.order_no, Clock::Ledger).await.unwrap().outcome;
        assert!(matches!(refunding, CommandOutcome::Done(_)), "{ledger}: {refunding:?}");

        let overdue = order_of(2, "bob", -1).await;
        let cancelled =
            commands::cancel(&sql, &overdue.order_no, orders::ledger::order_changes::Canceller::Buyer, Clock::Ledger)
                .await
                .unwrap()
                .outcome;
        let (checked_out, _) = checkout(&sql, &provider, &overdue, address, Clock::Ledger).await.unwrap();
        for outcome in [cancelled, checked_out] {
            let CommandOutcome::Conflict(order) = outcome else { panic!("{ledger}: {outcome:?}") };
            assert_eq!(order.status, OrderStatus::Expired, "{ledger}");
        }
        // It may be queued, and the provider sends the callback again.
        let unknown = report("payment.succeeded", &fixture.order_no(9), "p");
        let unanswered = callbacks::receive(&NoRedis, &sql, &unknown, true, |_| true, Clock::Ledger).await;
        assert!(matches!(unanswered, Err(StoreError::RedisUnavailable(_))), "{ledger}: {unanswered:?}");
        let in_time = order_of(3, "eve", 60_000).await.order_no;
        let cancelled =
            commands::cancel(&sql, &in_time, orders::ledger::order_changes::Canceller::Buyer, Clock::Ledger)
                .await
                .unwrap()
                .outcome;
        assert!(matches!(cancelled, CommandOutcome::Done(_)), "{ledger}: {cancelled:?}");
    }
}
