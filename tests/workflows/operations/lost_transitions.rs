//! Tests of transitions that the ledger lost when it was restored from a backup (G5; I1, I2, I4, I5, I6, I7).
//!
//! A rebuild backfills them from Redis, those that release units first.

use domain::{http::problem::Code, ids::OrderNo, order::OrderStatus};
use operations::upkeep::rebuild::RebuildOutcome;
use orders::{
    dead_letters,
    ledger::order_changes::{self, Canceller},
};
use payments::{
    callbacks::CallbackEffect,
    ledger::callback_rows::{self, Callback, LOST_PAYMENT},
};
use stores::{Sql, keys::Keys};

use crate::{
    crash_points::crash_at_every_call_and_recover,
    fixture::{LEDGERS, NOW, WHOLE_REBUILD, new_fixture},
    operations::epochs::{RealFixture, pause, rebuild_activity, rebuild_and_resume},
};

/// Deletes an order's record in Redis, as when it expires an hour after the order was closed.
async fn delete_redis_record(fixture: &RealFixture, order_no: &OrderNo) {
    fixture.run_redis(&["DEL", &Keys::of(&fixture.activity).order(order_no.ulid())]).await;
}

/// Asserts that the order holds no unit, and that operators see its refund until a callback has the payment id.
async fn assert_refund_waits_for_payment_id(fixture: &RealFixture, order_no: &OrderNo, ledger: &str) {
    fixture.assert_status(order_no, OrderStatus::Refunding, ledger).await;
    assert!(!fixture.order_row(order_no).await.live, "{ledger}");
    let payments = fixture.open_refund_payments().await;
    assert_eq!(payments, [LOST_PAYMENT], "{ledger}: the lost payment is not reported to operators");
    assert_eq!(fixture.payment_succeeded(order_no, "again").await.unwrap(), CallbackEffect::Changed, "{ledger}");
    assert_eq!(fixture.open_refund_payments().await, [format!("pay-{order_no}")], "{ledger}");
}

#[tokio::test]
async fn a_sold_out_activity_keeps_the_order_that_took_a_released_unit() {
    for ledger in LEDGERS {
        for epoch in [1, 2] {
            let fixture = new_fixture(ledger, 1, 1).await;
            if epoch == 2 {
                rebuild_and_resume(&fixture).await;
            }
            let released = fixture.pending_order(1, "ada", 1).await;
            fixture.back_up().await;
            fixture.cancel(&released).await.unwrap();
            let kept = fixture.pending_order(2, "bob", 1).await;
            fixture.restore_backup().await;
            fixture.check_gates().await;
            assert_eq!(fixture.units().await, (0, 1, 0), "{ledger}: the totals must look consistent");
            rebuild_and_resume(&fixture).await;
            fixture.assert_status(&released, OrderStatus::Cancelled, ledger).await;
            fixture.assert_status(&kept, OrderStatus::PendingPayment, ledger).await;
            assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap(), [], "{ledger}");
            assert_eq!(fixture.refusal(2, "bob", 1).await, None, "{ledger}");
            assert_eq!(fixture.refusal(3, "cyd", 1).await, Some(Code::SoldOut), "{ledger}");
            assert_eq!(fixture.units().await, (0, 1, 0), "{ledger}");
            // The unit is released only once.
            fixture.cancel(&kept).await.unwrap();
            fixture.recover().await;
            assert_eq!(fixture.units().await, (1, 0, 0), "{ledger}");
        }
    }
}

#[tokio::test]
async fn an_order_that_was_paid_since_the_backup_stays_paid() {
    for ledger in LEDGERS {
        for before in [OrderStatus::PendingPayment, OrderStatus::Cancelled, OrderStatus::Expired] {
            let fixture = new_fixture(ledger, 1, 1).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            match before {
                OrderStatus::Cancelled => drop(fixture.cancel(&order_no).await.unwrap()),
                OrderStatus::Expired => assert_eq!(fixture.expire_orders().await.unwrap(), 1, "{ledger}"),
                _ => {}
            }
            fixture.back_up().await;
            fixture.payment_succeeded(&order_no, "late").await.unwrap();
            fixture.restore_backup().await;
            let rebuilt = rebuild_and_resume(&fixture).await;
            assert_eq!(rebuilt, RebuildOutcome::Done { orders: 1, epoch: 2 }, "{ledger}, {before:?}");
            fixture.assert_status(&order_no, OrderStatus::Paid, ledger).await;
            assert_eq!(fixture.units().await, (0, 0, 1), "{ledger}");
            let again = fixture.payment_succeeded(&order_no, "late").await.unwrap();
            assert_eq!(again, CallbackEffect::Changed, "{ledger}, {before:?}: it is named");
            assert_eq!(fixture.order_row(&order_no).await.payment, format!("pay-{order_no}"), "{ledger}");
            assert_eq!(fixture.open_refunds().await, [], "{ledger}");
        }
    }
}

#[tokio::test]
async fn the_refund_of_a_late_payment_is_still_due_whatever_the_ledger_lost() {
    for ledger in LEDGERS {
        for lost in ["its payment", "its expiry", "everything"] {
            for back in [false, true] {
                let fixture = new_fixture(ledger, 1, 1).await;
                let late = fixture.pending_order(1, "ada", 1).await;
                if lost == "its expiry" {
                    fixture.back_up().await;
                }
                fixture.expire_orders().await.unwrap();
                let other = fixture.pending_order(2, "bob", 1).await;
                if lost != "its expiry" {
                    fixture.back_up().await;
                }
                fixture.payment_succeeded(&late, "late").await.unwrap();
                if back {
                    fixture.refund_succeeded(&late, "back").await.unwrap();
                }
                fixture.restore_backup().await;
                if lost == "everything" {
                    fixture.restore_older_ledger(&[&late]).await;
                }
                rebuild_and_resume(&fixture).await;
                fixture.assert_status(&other, OrderStatus::PendingPayment, &format!("{ledger}, {lost}")).await;
                match (back, lost) {
                    (true, "everything") => {
                        assert_eq!(fixture.ledger_status(&late).await, None, "{ledger}: it is over")
                    }
                    (true, _) => {
                        fixture.assert_status(&late, OrderStatus::Refunded, &format!("{ledger}, {lost}")).await
                    }
                    (false, _) => assert_refund_waits_for_payment_id(&fixture, &late, ledger).await,
                }
                assert_eq!(fixture.claim_open_refunds().await, usize::from(!back), "{ledger}, {lost}");
                assert_eq!(fixture.units().await, (0, 1, 0), "{ledger}, {lost}");
            }
        }
    }
}

#[tokio::test]
async fn a_unit_released_since_the_backup_goes_to_the_buyer_who_paid_for_it() {
    for ledger in LEDGERS {
        for end in [OrderStatus::Cancelled, OrderStatus::Expired, OrderStatus::Refunded] {
            let fixture = new_fixture(ledger, 1, 1).await;
            let released = match end {
                OrderStatus::Refunded => fixture.paid_order(1, "ada").await,
                _ => fixture.pending_order(1, "ada", 1).await,
            };
            fixture.back_up().await;
            match end {
                OrderStatus::Cancelled => drop(fixture.cancel(&released).await.unwrap()),
                OrderStatus::Expired => assert_eq!(fixture.expire_orders().await.unwrap(), 1, "{ledger}"),
                _ => {
                    fixture.request_refund(&released).await.unwrap();
                    fixture.refund_succeeded(&released, "back").await.unwrap();
                }
            }
            let paid = fixture.paid_order(2, "bob").await;
            fixture.restore_backup().await;
            rebuild_and_resume(&fixture).await;
            fixture.assert_status(&released, end, ledger).await;
            fixture.assert_status(&paid, OrderStatus::Paid, ledger).await;
            assert_eq!(fixture.units().await, (0, 0, 1), "{ledger}");
            assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap(), [], "{ledger}");
            assert_eq!(fixture.claim_open_refunds().await, 0, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_paid_order_without_a_free_unit_in_the_restored_ledger_is_refunded() {
    for ledger in LEDGERS {
        for known in [true, false] {
            let fixture = new_fixture(ledger, 1, 1).await;
            if known {
                fixture.pending_order(2, "bob", 1).await;
                fixture.expire_orders().await.unwrap();
            }
            let held = fixture.pending_order(1, "ada", 1).await;
            fixture.back_up().await;
            fixture.cancel(&held).await.unwrap();
            let paid = if known { fixture.order_no(2) } else { fixture.pending_order(2, "bob", 1).await };
            fixture.payment_succeeded(&paid, "e").await.unwrap();
            fixture.restore_backup().await;
            delete_redis_record(&fixture, &held).await;
            rebuild_and_resume(&fixture).await;
            fixture.assert_status(&held, OrderStatus::PendingPayment, ledger).await;
            assert_refund_waits_for_payment_id(&fixture, &paid, ledger).await;
            assert_eq!(fixture.units().await, (0, 1, 0), "{ledger}");
            assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap(), [], "{ledger}");
        }
    }
}

#[tokio::test]
async fn paid_orders_come_first_if_the_restored_ledger_has_too_few_units() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let (waiting, paid) = (fixture.pending_order(1, "ada", 1).await, fixture.paid_order(2, "bob").await);
        fixture.restore_older_ledger(&[&waiting, &paid]).await;
        pause(&fixture).await;
        fixture.sql.run("UPDATE skus SET total = 1", vec![]).await.unwrap();
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 1, epoch: 2 }, "{ledger}");
        fixture.assert_status(&paid, OrderStatus::Paid, ledger).await;
        assert_eq!(fixture.ledger_status(&waiting).await, None, "{ledger}");
        assert_eq!(fixture.redis_status(&waiting).await, Some(OrderStatus::Failed), "{ledger}");
        assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap().len(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_ticket_whose_order_was_released_and_lost_makes_no_second_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let lost = fixture.pending_order(1, "ada", 1).await;
        fixture.cancel(&lost).await.unwrap();
        fixture.restore_older_ledger(&[&lost]).await;
        rebuild_and_resume(&fixture).await;
        assert_eq!(fixture.refusal(1, "ada", 1).await, None, "{ledger}: a replay must return the earlier result");
        assert_eq!(fixture.redis_status(&lost).await, Some(OrderStatus::Cancelled), "{ledger}");
        assert_eq!(fixture.units().await, (1, 0, 0), "{ledger}: the replay changed the stock");
    }
}

#[tokio::test]
async fn a_rebuild_stops_if_the_ledger_lost_the_sku_of_a_paid_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let paid = fixture.paid_order(1, "ada").await;
        pause(&fixture).await;
        fixture.restore_older_ledger(&[&paid]).await;
        fixture.sql.run("UPDATE skus SET sku = 'other'", vec![]).await.unwrap();
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::SkuLost, "{ledger}");
        fixture.sql.run("UPDATE skus SET sku = 'phone'", vec![]).await.unwrap();
        // The restored ledger has the activity as published. Its gate is paused, and the rebuild trusts the gate.
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 1, epoch: 2 }, "{ledger}");
        fixture.assert_status(&paid, OrderStatus::Paid, ledger).await;
        assert_eq!(fixture.units().await, (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn transitions_that_only_the_ledger_has_survive_a_rebuild() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let [cancelled, paid, back] = [
            fixture.pending_order(1, "ada", 1).await,
            fixture.pending_order(2, "bob", 1).await,
            fixture.refunding_order(3, "cyd").await,
        ];
        order_changes::cancel(&fixture.sql, &cancelled, Canceller::Buyer, NOW).await.unwrap();
        let payment = Callback { order_no: paid.to_string(), payment: "p".to_owned(), ..Callback::default() };
        callback_rows::mark_paid(&fixture.sql, &payment, OrderStatus::PendingPayment, NOW).await.unwrap();
        callback_rows::mark_refunded(&fixture.sql, &back, NOW).await.unwrap();
        rebuild_and_resume(&fixture).await;
        for (order_no, status) in
            [(&cancelled, OrderStatus::Cancelled), (&paid, OrderStatus::Paid), (&back, OrderStatus::Refunded)]
        {
            fixture.assert_status(order_no, status, ledger).await;
        }
        assert_eq!(fixture.order_row(&paid).await.payment, "p", "{ledger}");
        assert_eq!(fixture.units().await, (2, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_late_payment_that_crashes_before_a_rebuild_is_recorded_once_with_its_id() {
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            fixture.pending_order(1, "ada", 1).await;
            fixture.expire_orders().await.unwrap();
        },
        async |fixture| fixture.payment_succeeded(&fixture.order_no(1), "late").await.map(|_| ()),
        async |fixture| {
            rebuild_and_resume(fixture).await;
            fixture.recover().await;
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            fixture.payment_succeeded(&order_no, "late").await.unwrap();
            let entry = fixture.order_row(&order_no).await;
            assert_eq!((entry.order.status, entry.payment), (OrderStatus::Paid, format!("pay-{order_no}")), "{point}");
            assert_eq!((fixture.units().await, fixture.claim_open_refunds().await), ((0, 0, 1), 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_rebuild_that_crashes_while_it_backfills_transitions_can_be_repeated() {
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            let late = fixture.pending_order(3, "cyd", 1).await;
            fixture.expire_orders().await.unwrap();
            let released = fixture.pending_order(1, "ada", 1).await;
            fixture.back_up().await;
            fixture.cancel(&released).await.unwrap();
            fixture.paid_order(2, "bob").await;
            fixture.payment_succeeded(&late, "late").await.unwrap();
            fixture.restore_backup().await;
            pause(fixture).await;
        },
        async |fixture| fixture.rebuild(WHOLE_REBUILD).await.map(|_| ()),
        async |fixture| {
            fixture.recover().await;
            rebuild_and_resume(fixture).await;
        },
        async |fixture, point| {
            for (n, status) in [(1, OrderStatus::Cancelled), (2, OrderStatus::Paid), (3, OrderStatus::Refunding)] {
                fixture.assert_status(&fixture.order_no(n), status, &format!("{point}: {n}")).await;
            }
            assert_eq!((fixture.units().await, fixture.claim_open_refunds().await), ((0, 0, 1), 1), "{point}");
        },
    )
    .await;
}
