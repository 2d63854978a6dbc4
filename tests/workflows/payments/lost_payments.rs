//! Tests of paid orders whose payment id was lost when the ledger was restored from a backup (G5; I6).
//!
//! No provider gets a refund with the placeholder id. The next callback of the payment supplies the id.

use domain::{ids::OrderNo, order::OrderStatus, time::Millis};
use futures::future::join_all;
use operations::ledger::backlog::load;
use payments::{
    callbacks::{
        CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    ledger::callback_rows::LOST_PAYMENT,
};

use crate::{
    crash_points::crash_at_every_call,
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, new_fixture},
    operations::epochs::{RealFixture, rebuild_and_resume},
};

/// Creates a paid order that the ledger lost and a rebuild backfilled from Redis, which does not store payment ids.
async fn paid_order_without_payment_id(fixture: &RealFixture, n: u64, user: &str) -> OrderNo {
    let order_no = fixture.paid_order(n, user).await;
    fixture.restore_older_ledger(&[&order_no]).await;
    rebuild_and_resume(fixture).await;
    assert_eq!(fixture.order_row(&order_no).await.payment, LOST_PAYMENT);
    order_no
}

#[tokio::test]
async fn a_refund_waits_visibly_until_a_callback_supplies_the_lost_payment_id() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 2, 1).await, FakeProvider::default());
        let order_no = paid_order_without_payment_id(&fixture, 1, "ada").await;
        fixture.request_refund(&order_no).await.unwrap();
        provider.refund_behaviour.set(RefundBehaviour::Succeed);
        let send = async |ms| fixture.send_refunds(&provider, ms).await.unwrap();
        let report = send(0).await;
        assert_eq!((provider.calls.get(), report.attempted, report.failed.len()), (0, 0, 1), "{ledger}: not sent");
        let open = fixture.open_refunds().await;
        assert_eq!((open[0].payment.as_str(), open[0].failures), (LOST_PAYMENT, 0), "{ledger}: no failed attempt");
        assert!(open[0].last_error.ends_with("let the provider send its callback of the payment again"), "{open:?}");
        assert_eq!(load(&fixture.sql).await.unwrap().stuck_refunds, 1, "{ledger}");
        // Two callbacks supply the payment id: they are not a second payment, and the refund is due at once.
        assert_eq!(fixture.payment_succeeded(&order_no, "again").await.unwrap(), CallbackEffect::Changed, "{ledger}");
        let again = fixture.payment_succeeded(&order_no, "and again").await.unwrap();
        assert_eq!(again, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(fixture.open_refunds().await.len(), 1, "{ledger}");
        assert_eq!(load(&fixture.sql).await.unwrap().stuck_refunds, 0, "{ledger}");
        assert_eq!(send(1).await.attempted, 1, "{ledger}");
        assert_eq!(provider.refunds.borrow().keys().collect::<Vec<_>>(), [&(format!("pay-{order_no}"), 0)], "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        assert_eq!(fixture.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_callbacks_supply_a_lost_payment_id_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let order_no = paid_order_without_payment_id(&fixture, 1, "ada").await;
        let events: Vec<_> = (0..50).map(|n| format!("again {n}")).collect();
        let applied = join_all(events.iter().map(|event| fixture.payment_succeeded(&order_no, event))).await;
        let changed = applied.into_iter().filter(|applied| *applied.as_ref().unwrap() == CallbackEffect::Changed);
        assert_eq!(changed.count(), 1, "{ledger}");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}: a single payment must not be refunded");
        assert_eq!(fixture.order_row(&order_no).await.payment, format!("pay-{order_no}"), "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_confirmed_before_its_payment_id_is_known_is_parked_and_applied_with_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let order_no = paid_order_without_payment_id(&fixture, 1, "ada").await;
        let early = fixture.refund_succeeded(&order_no, "r").await.unwrap();
        assert_eq!(early, CallbackEffect::Parked, "{ledger}: the payment id is unknown");
        fixture.payment_succeeded(&order_no, "again").await.unwrap();
        let again = parked::reapply(&fixture.redis, &fixture.sql, &format!("r-{order_no}"), NOW).await.unwrap();
        assert_eq!(again, ResolveOutcome::NotParked, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}: a second refund is due");
        assert_eq!(fixture.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_crashed_callback_that_supplies_a_lost_payment_id_leaves_one_refund_with_that_id() {
    crash_at_every_call(
        2,
        async |fixture| {
            let order_no = paid_order_without_payment_id(fixture, 1, "ada").await;
            fixture.request_refund(&order_no).await.unwrap();
        },
        async |fixture| fixture.payment_succeeded(&fixture.order_no(1), "again").await.map(|_| ()),
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            fixture.payment_succeeded(&order_no, "again").await.unwrap();
            let open = fixture.open_refunds().await;
            let payments: Vec<_> = open.iter().map(|refund| refund.payment.as_str()).collect();
            assert_eq!(payments, [format!("pay-{order_no}")], "{point}");
            assert_eq!(open[0].next_try_at, Millis(0), "{point}: due at once");
        },
    )
    .await;
}
