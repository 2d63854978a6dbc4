//! Tests of manual refunds: a payment that an operator refunded pays no order, on both ledgers (E2, E5; I6).
//!
//! This holds at any crash of the refund, and for any concurrent replay or redelivery of the payment's callback.

use domain::{ids::OrderNo, money::Money, order::OrderStatus, webhook::ProviderCallback};
use operations::ledger::backlog;
use payments::{
    callbacks::{
        self, CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    ledger::{callback_rows, refunds},
};
use stores::{Sql, StoreError};

use crate::{
    at_every_call::at_every_call,
    crash_points::crash_at_every_call,
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    payments::report,
};

fn payment_callback(order_no: &OrderNo, event: &str) -> ProviderCallback {
    ProviderCallback { id: event.to_owned(), ..report("payment.succeeded", order_no, "p") }
}

/// The id of the callback that [`Fixture::order_with_parked_payment`] holds.
const PARKED_CALLBACK: &str = "evt-p";

/// Creates a pending order with a parked callback, which arrived before the order was in the ledger.
async fn park_payment(fixture: &RealFixture) -> OrderNo {
    fixture.reserve(1, "ada", 1).await.unwrap();
    let order_no = fixture.order_no(1);
    assert_eq!(fixture.payment_succeeded_with_id(&order_no, "p").await.unwrap(), CallbackEffect::Parked);
    fixture.write_batch().await.unwrap();
    order_no
}

async fn order_with_parked_payment(ledger: &str) -> RealFixture {
    let fixture = new_fixture(ledger, 2, 1).await;
    park_payment(&fixture).await;
    fixture
}

async fn reapply_parked(fixture: &RealFixture) -> ResolveOutcome {
    parked::reapply(&fixture.redis, &fixture.sql, PARKED_CALLBACK, NOW).await.unwrap()
}

async fn refund_parked(fixture: &RealFixture) -> ResolveOutcome {
    parked::refund(&fixture.redis, &fixture.sql, PARKED_CALLBACK, NOW).await.unwrap()
}

/// Applies a second callback of the same payment, with another event id.
async fn redeliver_payment(fixture: &RealFixture, order_no: &OrderNo, event: &str) -> CallbackEffect {
    callbacks::apply(&fixture.redis, &fixture.sql, &payment_callback(order_no, event), NOW).await.unwrap()
}

/// Asserts that the payment paid the order or is refunded, not both. Returns whether it paid.
async fn assert_kept_or_refunded(fixture: &RealFixture, order_no: &OrderNo, point: &str) -> bool {
    let paid = fixture.ledger_status(order_no).await == Some(OrderStatus::Paid);
    let refunds = refunds::list_for_order(&fixture.sql, order_no).await.unwrap();
    let made = refunds.iter().filter(|refund| refund.payment == "p").count();
    assert_eq!(made, usize::from(!paid), "{point}: {refunds:?}");
    paid
}

#[tokio::test]
async fn a_crashed_manual_refund_leaves_a_paid_order_or_a_refund() {
    crash_at_every_call(
        2,
        async |fixture| {
            park_payment(fixture).await;
        },
        async |fixture| parked::refund(&fixture.redis, &fixture.sql, PARKED_CALLBACK, NOW).await.map(|_| ()),
        async |fixture, point| {
            reapply_parked(fixture).await;
            assert_kept_or_refunded(fixture, &fixture.order_no(1), point).await;
        },
    )
    .await;
}

#[tokio::test]
async fn a_replay_during_a_manual_refund_runs_before_or_after_it() {
    at_every_call(
        order_with_parked_payment,
        async |redis, sql, _| {
            parked::refund(redis, sql, PARKED_CALLBACK, NOW).await.unwrap();
        },
        async |fixture| assert_ne!(reapply_parked(fixture).await, ResolveOutcome::OrderPaid),
        async |fixture, point| {
            reapply_parked(fixture).await;
            assert_kept_or_refunded(fixture, &fixture.order_no(1), point).await;
        },
    )
    .await;
}

/// The order waits for the payment, or was released.
#[tokio::test]
async fn a_payment_redelivered_during_its_manual_refund_is_kept_or_refunded() {
    for is_late in [false, true] {
        at_every_call(
            async |ledger| {
                let fixture = order_with_parked_payment(ledger).await;
                if is_late {
                    fixture.expire_orders().await.unwrap();
                }
                fixture
            },
            async |redis, sql, fixture| {
                let callback = payment_callback(&fixture.order_no(1), "again");
                let applied = callbacks::apply(redis, sql, &callback, NOW).await;
                // A callback that comes too late may fail as unavailable. The provider then redelivers it.
                assert!(matches!(applied, Ok(_) | Err(StoreError::LedgerUnavailable(_))), "{applied:?}");
            },
            async |fixture| {
                refund_parked(fixture).await;
            },
            async |fixture, point| {
                redeliver_payment(fixture, &fixture.order_no(1), "again").await;
                assert_kept_or_refunded(fixture, &fixture.order_no(1), point).await;
            },
        )
        .await;
    }
}

/// The operators' log has the id that a path names, and not what the ledger made of it.
#[tokio::test]
async fn a_parked_callback_has_one_name() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let longest = "e".repeat(200);
        for id in [PARKED_CALLBACK, &longest] {
            let callback = payment_callback(&fixture.order_no(1), id);
            let applied = callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap();
            assert_eq!(applied, CallbackEffect::Parked, "{ledger}");
        }
        for id in ["evt\0-p".to_owned(), format!("{PARKED_CALLBACK}\0"), format!("{longest}e")] {
            for resolved in [
                parked::reapply(&fixture.redis, &fixture.sql, &id, NOW).await,
                parked::refund(&fixture.redis, &fixture.sql, &id, NOW).await,
                parked::dismiss(&fixture.sql, &id).await,
            ] {
                assert_eq!(resolved.unwrap(), ResolveOutcome::NotParked, "{ledger}: {id:?}");
            }
        }
        for id in [PARKED_CALLBACK, &longest] {
            let dismissed = parked::dismiss(&fixture.sql, id).await.unwrap();
            assert_eq!(dismissed, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_manually_refunded_payment_pays_nothing_when_it_is_redelivered() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let order_no = park_payment(&fixture).await;
        refund_parked(&fixture).await;
        assert_eq!(redeliver_payment(&fixture, &order_no, "again").await, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
        fixture.expire_orders().await.unwrap();
        assert_eq!(redeliver_payment(&fixture, &order_no, "late").await, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Expired), "{ledger}");
        assert_eq!(fixture.units().await, (2, 0, 0), "{ledger}: a unit was taken for the expired order");
        // Another payment can still pay the order.
        let other = fixture.payment_succeeded_with_id(&order_no, "q").await.unwrap();
        assert_eq!(other, CallbackEffect::Changed, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        let refunds = refunds::list_for_order(&fixture.sql, &order_no).await.unwrap();
        assert_eq!(refunds.iter().map(|refund| refund.payment.as_str()).collect::<Vec<_>>(), ["p"], "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_that_paid_its_order_meanwhile_is_not_refunded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let order_no = park_payment(&fixture).await;
        assert_eq!(redeliver_payment(&fixture, &order_no, "again").await, CallbackEffect::Changed, "{ledger}");
        assert_eq!(refund_parked(&fixture).await, ResolveOutcome::OrderPaid, "{ledger}");
        assert!(assert_kept_or_refunded(&fixture, &order_no, ledger).await, "{ledger}");
        assert_eq!(reapply_parked(&fixture).await, ResolveOutcome::Done(CallbackEffect::NoChange), "{ledger}");
    }
}

/// The order is erased, or was lost with a ledger.
#[tokio::test]
async fn the_refund_of_a_payment_whose_order_the_ledger_lacks_is_confirmed_and_sent_once() {
    for ledger in LEDGERS {
        for behaviour in
            [RefundBehaviour::Succeed, RefundBehaviour::IsBack, RefundBehaviour::Accept, RefundBehaviour::Fail]
        {
            let (fixture, provider) = (new_fixture(ledger, 2, 1).await, FakeProvider::default());
            let order_no = fixture.order_no(77);
            let received = redeliver_payment(&fixture, &order_no, PARKED_CALLBACK).await;
            assert_eq!(received, CallbackEffect::Parked, "{ledger}");
            assert_eq!(refund_parked(&fixture).await, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
            provider.refund_behaviour.set(behaviour);
            fixture.send_refunds(&provider, 0).await.unwrap();
            let reported = |event: &str, kind: &str, refund: &str| ProviderCallback {
                kind: kind.to_owned(),
                refund_id: refund.to_owned(),
                ..payment_callback(&order_no, event)
            };
            let report = async |callback| callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap();
            match behaviour {
                RefundBehaviour::Succeed | RefundBehaviour::IsBack | RefundBehaviour::IsBackByFirst => {}
                RefundBehaviour::Accept => {
                    let failed = report(reported("f", "refund.failed", "re_0")).await;
                    assert_eq!(failed, CallbackEffect::Changed, "{ledger}");
                    let refunds = fixture.open_refunds().await;
                    assert_eq!((refunds.len(), refunds[0].failures), (1, 1), "{ledger}");
                    provider.refund_behaviour.set(RefundBehaviour::Succeed);
                    fixture.send_refunds(&provider, 3_600_000).await.unwrap();
                }
                RefundBehaviour::Fail => {
                    let mut callback = reported("s", "refund.succeeded", "re_made_there");
                    callback.money = Money::new(99, "EUR");
                    assert_eq!(report(callback).await, CallbackEffect::Changed, "{ledger}: a part");
                    let made_there = report(reported("t", "refund.succeeded", "re_made_there")).await;
                    assert_eq!(made_there, CallbackEffect::Changed, "{ledger}: made at the provider");
                }
            }
            assert_eq!(fixture.open_refunds().await, [], "{ledger}");
            assert_eq!(fixture.send_refunds(&provider, 7_200_000).await.unwrap().attempted, 0, "{ledger}");
        }
    }
}

/// The parked callback may be that of the payment which paid the order: replayed, it names the payment.
#[tokio::test]
async fn no_payment_of_an_order_whose_payment_id_was_lost_is_refunded_as_a_second_one() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let order_no = park_payment(&fixture).await;
        let callback = callback_rows::load_parked(&fixture.sql, PARKED_CALLBACK).await.unwrap().unwrap();
        let lost = callback_rows::Callback { payment: callback_rows::LOST_PAYMENT.to_owned(), ..callback };
        callback_rows::mark_paid(&fixture.sql, &lost, OrderStatus::PendingPayment, NOW).await.unwrap().expect("paid");
        assert_eq!(refund_parked(&fixture).await, ResolveOutcome::OrderPaid, "{ledger}");
        assert_eq!(reapply_parked(&fixture).await, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        assert_eq!(fixture.order_row(&order_no).await.payment, "p", "{ledger}");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}");
    }
}

#[tokio::test]
async fn parked_callbacks_are_listed_page_by_page_however_many_wait() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let unknown = fixture.order_no(9);
        for (event, ms) in [("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 0)] {
            let callback = payment_callback(&unknown, event);
            let applied = callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW.plus(ms)).await.unwrap();
            assert_eq!(applied, CallbackEffect::Parked, "{ledger}");
        }
        let (mut seen, mut last) = (Vec::new(), String::new());
        loop {
            let page = callback_rows::list_parked(&fixture.sql, &last, 2).await.unwrap();
            let Some(callback) = page.last() else { break };
            last.clone_from(&callback.id);
            seen.extend(page.into_iter().map(|callback| callback.id));
        }
        assert_eq!(seen, ["a", "d", "c", "b", "e"], "{ledger}");
        assert_eq!(callback_rows::list_parked(&fixture.sql, "none\0", 2).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test]
async fn unconfirmed_refunds_of_both_kinds_are_listed_page_by_page() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.payment_succeeded(&order_no, "e").await.unwrap();
        fixture.request_refund(&order_no).await.unwrap();
        for (payment, attempts) in [("a", 1), ("b", 2), ("c", 2), ("d", 0)] {
            let insert = "INSERT INTO overpayments (payment, provider, order_no, amount, currency, attempts, next_try_at) \
                 VALUES (?1, 'sandbox', 'x', 1, 'EUR', ?2, 0)";
            fixture.sql.run(insert, vec![payment.into(), i64::from(attempts).into()]).await.unwrap();
        }
        let (mut seen, mut before) = (Vec::new(), String::new());
        while let Some(refund) = refunds::list_unconfirmed(&fixture.sql, &before, 1).await.unwrap().pop() {
            before = refund.cursor();
            seen.push(before.clone());
        }
        // In an order that no attempt changes.
        assert_eq!(seen[0], format!("orders/{order_no}"), "{ledger}");
        assert_eq!(seen[1..], ["d", "c", "b", "a"].map(|payment| format!("overpayments/{payment}")), "{ledger}");
        assert_eq!(refunds::list_unconfirmed(&fixture.sql, "", 200).await.unwrap().len(), 5, "{ledger}");
        assert_eq!(refunds::list_unconfirmed(&fixture.sql, "orders/!", 200).await.unwrap().len(), 4, "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_with_an_outcome_of_a_later_build_is_listed_and_kept_for_that_build() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        park_payment(&fixture).await;
        fixture.sql.run("UPDATE callbacks SET outcome = 'held_by_a_later_build'", Vec::new()).await.unwrap();
        let parked = callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap();
        let ids: Vec<_> = parked.iter().map(|callback| callback.id.as_str()).collect();
        assert_eq!(ids, [PARKED_CALLBACK], "{ledger}");
        assert_eq!(backlog::load(&fixture.sql).await.unwrap().parked_callbacks, 1, "{ledger}");
        assert_eq!(callback_rows::erase(&fixture.sql, NOW.plus(1), 10).await.unwrap(), 0, "{ledger}");
        assert_eq!(reapply_parked(&fixture).await, ResolveOutcome::NotParked, "{ledger}");
        let order_no = fixture.order_no(1);
        assert_eq!(redeliver_payment(&fixture, &order_no, PARKED_CALLBACK).await, CallbackEffect::NoChange, "{ledger}");
    }
}
