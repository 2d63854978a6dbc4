//! Tests of a ledger that was restored from a backup and is older than Redis (G5; I1, I2, I4, I6).
//!
//! Its epoch is earlier, and it lacks orders and operators' changes made since the backup.

use domain::{activity::ActivityState, http::problem::Code, ids::UserId, order::OrderStatus, webhook::PaymentProvider};
use operations::{commands::activities::OperationOutcome, upkeep::rebuild::RebuildOutcome};
use orders::{dead_letters, order_writer, status::load_order};
use payments::ledger::callback_rows::LOST_PAYMENT;
use sale::ledger::epochs;
use stores::Sql;

use crate::{
    fixture::{LEDGERS, NOW, new_fixture},
    operations::epochs::{RealFixture, pause, rebuild_activity, rebuild_and_resume, resume},
};

/// Sells one unit, restocks two and sells them; then restores a ledger without the restock and the two orders.
async fn sell_restock_then_restore_ledger(fixture: &RealFixture) {
    fixture.pending_order(1, "ada", 1).await;
    fixture.restock(2).await;
    let lost = [fixture.pending_order(2, "bob", 1).await, fixture.pending_order(3, "cyd", 1).await];
    fixture.restore_older_ledger(&lost.each_ref()).await;
    fixture.sql.run("UPDATE skus SET total = 1", vec![]).await.unwrap();
}

async fn start_second_epoch(fixture: &RealFixture) {
    assert!(matches!(rebuild_and_resume(fixture).await, RebuildOutcome::Done { epoch: 2, .. }));
}

#[tokio::test]
async fn orders_of_a_later_epoch_than_the_ledgers_are_written_and_their_transitions_reach_redis() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        start_second_epoch(&fixture).await;
        fixture.restore_older_ledger(&[]).await;
        fixture.queue_orders(1..=3).await;
        let written = fixture.write_batch().await.unwrap();
        assert_eq!((written.written, written.failed), (3, 0), "{ledger}: an accepted reservation has no order");
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::PendingPayment), "{ledger}");
        // Transitions made before the next sweep reach Redis with that sweep.
        fixture.payment_succeeded(&fixture.order_no(1), "e").await.unwrap();
        fixture.cancel(&fixture.order_no(2)).await.unwrap();
        assert_eq!(fixture.check_gates().await, (0, 1), "{ledger}: the gate stays and the ledger is updated once");
        assert_eq!(epochs::load(&fixture.sql, &fixture.activity).await.unwrap(), 2, "{ledger}");
        fixture.recover().await;
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(2)).await, Some(OrderStatus::Cancelled), "{ledger}");
        assert_eq!(fixture.units().await, (1, 1, 1), "{ledger}");
        assert_eq!(fixture.check_gates().await, (0, 0), "{ledger}: once");
        assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test]
async fn an_activity_whose_gate_is_ahead_of_the_ledger_can_be_paused_at_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        start_second_epoch(&fixture).await;
        for _ in 0..3 {
            pause(&fixture).await;
            resume(&fixture).await;
        }
        fixture.restore_older_ledger(&[]).await;
        pause(&fixture).await;
        assert_eq!(fixture.refusal(1, "ada", 1).await, Some(Code::Paused), "{ledger}");
        resume(&fixture).await;
        assert_eq!(fixture.refusal(1, "ada", 1).await, None, "{ledger}");
        fixture.restock(2).await;
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.units().await, (4, 1, 0), "{ledger}: a change reaches Redis");
    }
}

#[tokio::test]
async fn an_activity_restocked_and_sold_since_the_backup_keeps_its_restock_when_it_is_paused() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        sell_restock_then_restore_ledger(&fixture).await;
        assert_eq!(rebuild_and_resume(&fixture).await, RebuildOutcome::Done { orders: 3, epoch: 2 }, "{ledger}");
        assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap(), [], "{ledger}");
        assert_eq!(fixture.units().await, (0, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_restock_after_a_restored_backup_sets_the_total_and_oversells_nothing() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        sell_restock_then_restore_ledger(&fixture).await;
        let operator = fixture.operator();
        let restock = async |by| operator.restock(&fixture.activity, &fixture.sku, by, None).await.unwrap();
        let assert_done = |operated: OperationOutcome| {
            assert!(matches!(operated, OperationOutcome::Done(_)), "{ledger}: {operated:?}")
        };
        // The total is 2 now, and Redis counts 3 units held.
        assert_done(restock(1).await);
        assert!(matches!(restock(-1).await, OperationOutcome::Conflict(_)), "{ledger}");
        assert_done(operator.set_state(&fixture.activity, ActivityState::Paused).await.unwrap());
        assert_eq!(fixture.refusal(4, "dee", 1).await, Some(Code::Paused));
        assert_done(operator.set_state(&fixture.activity, ActivityState::Published).await.unwrap());
        assert_eq!(fixture.refusal(4, "dee", 1).await, Some(Code::SoldOut), "{ledger}");
        assert_done(restock(2).await);
        assert_eq!(fixture.refusal(5, "eve", 1).await, None, "{ledger}");
        assert_done(operator.rotate_start_key(&fixture.activity).await.unwrap());
        pause(&fixture).await;
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 4, epoch: 2 }, "{ledger}");
        assert_eq!(fixture.units().await, (0, 4, 0), "{ledger}");
    }
}

#[tokio::test]
async fn orders_that_the_ledger_lost_are_backfilled_and_their_units_not_sold_again() {
    for ledger in LEDGERS {
        for caught_up in [true, false] {
            let fixture = new_fixture(ledger, 6, 1).await;
            start_second_epoch(&fixture).await;
            let kept = fixture.pending_order(1, "ada", 1).await;
            let [pending, paid, refunding, cancelled] = [
                fixture.pending_order(2, "bob", 1).await,
                fixture.paid_order(3, "cyd").await,
                fixture.refunding_order(4, "dee").await,
                fixture.pending_order(5, "eve", 1).await,
            ];
            fixture.open_session(&pending, PaymentProvider::Stripe, NOW).await.unwrap();
            fixture.cancel(&cancelled).await.unwrap();
            fixture.reserve(6, "fay", 1).await.unwrap();
            fixture.restore_older_ledger(&[&pending, &paid, &refunding, &cancelled]).await;
            if caught_up {
                fixture.check_gates().await;
            }
            assert_eq!(rebuild_and_resume(&fixture).await, RebuildOutcome::Done { orders: 5, epoch: 3 }, "{ledger}");
            assert_eq!(fixture.units().await, (1, 3, 2), "{ledger}");
            for (order_no, status) in [
                (&kept, OrderStatus::PendingPayment),
                (&pending, OrderStatus::PendingPayment),
                (&paid, OrderStatus::Paid),
                (&refunding, OrderStatus::Refunding),
            ] {
                fixture.assert_status(order_no, status, &format!("{ledger}: {order_no}")).await;
            }
            assert_eq!(fixture.order_row(&pending).await.order.checkout_url.as_deref(), Some("/pay"), "{ledger}");
            assert_eq!(fixture.order_row(&paid).await.order.user, UserId::parse("cyd").unwrap(), "{ledger}");
            // An operator sees the refund whose payment id was lost.
            assert_eq!(fixture.open_refund_payments().await, [LOST_PAYMENT], "{ledger}");
            // A redelivered callback supplies the payment id; it is not a second payment.
            fixture.payment_succeeded(&paid, "again").await.unwrap();
            assert_eq!(fixture.order_row(&paid).await.payment, format!("pay-{paid}"), "{ledger}");
            assert_eq!(fixture.open_refunds().await.len(), 1, "{ledger}");
            fixture.payment_succeeded_with_id(&paid, "second").await.unwrap();
            assert_eq!(fixture.open_refunds().await.len(), 2, "{ledger}: the second payment is not refunded");
            // Exactly one unit is left.
            assert_eq!(fixture.refusal(7, "gus", 1).await, None, "{ledger}");
            assert_eq!(fixture.refusal(8, "hal", 1).await, Some(Code::SoldOut), "{ledger}");
        }
    }
}

#[tokio::test]
async fn an_activity_that_the_ledger_lost_is_recreated_and_its_orders_are_backfilled() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 4, 1).await;
        start_second_epoch(&fixture).await;
        let (pending, paid) = (fixture.pending_order(1, "ada", 1).await, fixture.paid_order(2, "bob").await);
        let spec = fixture.stored().await.spec;
        fixture.restore_older_ledger(&[&pending, &paid]).await;
        for (table, id) in [("skus", "activity"), ("epochs", "activity"), ("activities", "id")] {
            let statement = format!("DELETE FROM {table} WHERE {id} = ?1");
            fixture.sql.run(&statement, vec![fixture.activity.as_str().into()]).await.unwrap();
        }
        // Orders accepted meanwhile stay queued: a ledger that lacks the activity decides nothing about its orders.
        fixture.reserve(3, "cyd", 1).await.unwrap();
        for _ in 0..8 {
            let again =
                order_writer::write_reclaimed(&fixture.redis, &fixture.sql, &fixture.activity, NOW, 0).await.unwrap();
            assert_eq!(again.failed + fixture.write_batch().await.unwrap().failed, 0, "{ledger}");
        }
        assert_eq!(fixture.redis_status(&fixture.order_no(3)).await, Some(OrderStatus::Queued), "{ledger}");
        assert_eq!(fixture.check_gates().await, (0, 0), "{ledger}");

        let recreated = fixture.operator().put(&fixture.activity, spec, None).await.unwrap();
        assert!(matches!(recreated, OperationOutcome::Done(_)), "{ledger}");
        resume(&fixture).await;
        assert_eq!(rebuild_and_resume(&fixture).await, RebuildOutcome::Done { orders: 3, epoch: 3 }, "{ledger}");
        assert_eq!(fixture.units().await, (1, 2, 1), "{ledger}");
        assert_eq!(fixture.ledger_status(&paid).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_of_an_older_epoch_is_not_backfilled() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let lost = fixture.pending_order(1, "ada", 1).await;
        fixture.restore_older_ledger(&[&lost]).await;
        // The record is of an epoch before the gate's: Redis does not count the order any more.
        let keys = stores::keys::Keys::of(&fixture.activity);
        fixture.set_state(ActivityState::Paused).await;
        let record = keys.order(lost.ulid());
        fixture.run_redis(&["HSET", &record, "epoch", "0"]).await;
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 0, epoch: 2 }, "{ledger}");
        assert_eq!(fixture.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_without_a_free_unit_in_the_restored_ledger_becomes_a_dead_letter() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let lost = fixture.pending_order(1, "ada", 1).await;
        fixture.restore_older_ledger(&[&lost]).await;
        pause(&fixture).await;
        fixture.sql.run("UPDATE skus SET total = 0", vec![]).await.unwrap();
        rebuild_activity(&fixture).await;
        let letters = dead_letters::list(&fixture.sql, None, 200).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["no_room_in_ledger"]);
        assert_eq!(fixture.redis_status(&lost).await, Some(OrderStatus::Failed), "{ledger}: its buyer is not told");
        let failed = load_order(&fixture.redis, &lost).await.unwrap().order.unwrap();
        assert_eq!((failed.pay_by, failed.reason.as_deref()), (None, Some("no_room_in_ledger")), "{ledger}");
        // After a restock the dead letter can be requeued.
        fixture.restock(1).await;
        let requeued = dead_letters::requeue(&fixture.redis, &fixture.sql, &lost).await.unwrap();
        assert_eq!(requeued, dead_letters::RequeueOutcome::Queued, "{ledger}");
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.units().await, (0, 1, 0), "{ledger}");
    }
}
