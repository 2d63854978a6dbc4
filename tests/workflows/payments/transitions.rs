//! Tests of cancelling, expiring, paying and refunding orders, on both ledgers (C4, E3, E4, E5; I1, I5, I6).

use std::collections::BTreeSet;

use domain::{order::OrderStatus, time::Millis};
use operations::commands::activities::OperationOutcome;
use orders::ledger::{order_changes::Canceller, order_rows};
use payments::{
    callbacks::{self, CallbackEffect},
    commands::{self, CommandOutcome},
};
use stores::{Redis, Sql, StoreError, keys::Keys};

use crate::fixture::{LEDGERS, NOW, new_fixture};

#[tokio::test]
async fn a_refund_is_requested_within_the_activitys_time_only() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let changed = fixture.change_spec(|spec| spec.refund_window_seconds = Some(10)).await;
        assert!(matches!(changed, OperationOutcome::Done(_)), "{ledger}");
        let order_no = fixture.paid_order(1, "ada").await;
        let paid_at = order_rows::load(&fixture.sql, &order_no).await.unwrap().unwrap().order.paid_at.unwrap();
        for (ms, may) in [(10_001, false), (10_000, true)] {
            let asked = commands::request_refund(&fixture.sql, &order_no, paid_at.plus(ms)).await;
            assert_eq!(matches!(asked.unwrap().outcome, CommandOutcome::Done(_)), may, "{ledger}: after {ms} ms");
        }
        let late = fixture.paid_order(2, "ben").await;
        fixture.sql.run("UPDATE activities SET state = 'erasing'", Vec::new()).await.unwrap();
        let asked = commands::request_refund(&fixture.sql, &late, paid_at.plus(60_000)).await;
        assert!(matches!(asked.unwrap().outcome, CommandOutcome::Conflict(_)), "{ledger}: the activity is erased");
        // A request whose answer was lost is repeated after the time.
        let again = commands::request_refund(&fixture.sql, &order_no, paid_at.plus(60_000)).await;
        assert!(matches!(again.unwrap().outcome, CommandOutcome::Done(_)), "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_that_waits_for_a_rebuild_delays_no_other_activity() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 2, 1).await;
        let rebuilding = fixture.pending_order(1, "ada", 1).await;
        fixture.cancel(&rebuilding).await.unwrap();
        let gate = Keys::of(&fixture.activity).named("gate");
        fixture.redis.command("HSET", vec![gate.clone().into(), "restoring".into(), "1".into()]).await.unwrap();
        let late = fixture.payment_succeeded(&rebuilding, "late").await;
        assert_eq!(late, Err(StoreError::Rebuilding), "{ledger}");

        let first = fixture.publish_another(|_| {}).await;
        let other = fixture.pending_order(1, "bob", 1).await;
        fixture.record_payment(&other, NOW.plus(1)).await;
        let later = NOW.plus(60_000);
        let round = async |now: Millis| {
            let round = callbacks::apply_pending(&fixture.redis, &fixture.sql, now, 1, &BTreeSet::new()).await.unwrap();
            (round.visited, round.applied)
        };
        assert_eq!(round(later).await, (1, 0), "{ledger}");
        assert_eq!(round(later).await, (1, 1), "{ledger}: the callback after the waiting one was not applied");
        assert_eq!(round(later).await, (0, 0), "{ledger}: the waiting one was tried twice in a sweep");
        assert_eq!(fixture.ledger_status(&other).await, Some(OrderStatus::Paid), "{ledger}");

        fixture.activity = first;
        fixture.redis.command("HDEL", vec![gate.into(), "restoring".into()]).await.unwrap();
        assert_eq!(round(later.plus(1)).await.1, 1, "{ledger}");
        assert_eq!(fixture.ledger_status(&rebuilding).await, Some(OrderStatus::Paid), "{ledger}: a unit was free");
    }
}

#[tokio::test]
async fn a_payment_after_the_redis_record_expired_takes_a_free_unit_or_is_refunded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let [late, later] = [fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "bob", 1).await];
        for order_no in [&late, &later] {
            fixture.cancel(order_no).await.unwrap();
            let record = Keys::of(&fixture.activity).order(order_no.ulid());
            fixture.redis.command("DEL", vec![record.into()]).await.unwrap();
        }
        fixture.pending_order(3, "cyd", 1).await;
        assert_eq!(fixture.payment_succeeded(&late, "days later").await.unwrap(), CallbackEffect::Changed, "{ledger}");
        fixture.assert_status(&late, OrderStatus::Paid, ledger).await;
        assert_eq!(fixture.units().await, (0, 1, 1), "{ledger}");
        fixture.payment_succeeded(&later, "later still").await.unwrap();
        assert_eq!(fixture.ledger_status(&later).await, Some(OrderStatus::Refunding), "{ledger}: no unit was free");
        assert_eq!(fixture.units().await, (0, 1, 1), "{ledger}");
        fixture.request_refund(&late).await.unwrap();
        fixture.refund_succeeded(&late, "back").await.unwrap();
        assert_eq!(fixture.units().await, (1, 1, 0), "{ledger}: the unit was not returned exactly once");
    }
}

#[tokio::test]
async fn an_order_cannot_be_cancelled_after_its_time_to_pay() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let pay_by = order_rows::load(&fixture.sql, &order_no).await.unwrap().unwrap().order.pay_by.unwrap();
        let cancel =
            async |now| commands::cancel(&fixture.sql, &order_no, Canceller::Buyer, now).await.unwrap().outcome;
        let outcome = cancel(pay_by).await;
        let CommandOutcome::Conflict(order) = outcome else { panic!("{ledger}: {outcome:?}") };
        assert_eq!(order.status, OrderStatus::Expired, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
        let outcome = cancel(pay_by.plus(-1)).await;
        assert!(matches!(outcome, CommandOutcome::Done(_)), "{ledger}: {outcome:?}");
    }
}
