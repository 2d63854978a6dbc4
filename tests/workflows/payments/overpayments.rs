//! Tests of overpayments, and of callbacks that are parked for an operator, on both ledgers (E2, E5, I6).

use domain::{money::Money, order::OrderStatus, webhook::ProviderCallback};
use futures::future::join_all;
use payments::{
    callbacks::{
        self, CallbackEffect, CallbackOutcome,
        parked::{self, ResolveOutcome},
    },
    ledger::{callback_rows, refunds::RefundKind},
};

use crate::{
    fakes::FakeProvider,
    fixture::{LEDGERS, NOW, new_fixture},
    payments::{bounced_refunds::requested_refund, report},
};

/// Someone refunds a part of the payment in the provider's dashboard; another currency is a mistake.
#[tokio::test]
async fn a_partial_refund_confirms_no_refund() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let fixture = new_fixture(ledger, 5, 1).await;
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            for (amount, currency, effect, open) in [
                (99, "EUR", CallbackEffect::Changed, 1),
                (100, "USD", CallbackEffect::Parked, 1),
                (100, "EUR", CallbackEffect::Changed, 0),
            ] {
                let (id, money) = (format!("{amount} {currency}"), Money::new(amount, currency));
                let callback = ProviderCallback { id, money, ..report("refund.succeeded", &order_no, &payment) };
                let applied = callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap();
                assert_eq!(applied, effect, "{ledger} {kind:?}: {amount} {currency}");
                let unconfirmed = fixture.open_refunds().await;
                assert_eq!(unconfirmed.len(), open, "{ledger} {kind:?}: {amount} {currency}");
            }
            let parked = callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap();
            assert!(parked.iter().all(|callback| callback.outcome == CallbackOutcome::WrongAmount), "{parked:?}");
        }
    }
}

/// The order waits for the payment, or was released, and its unit is free or sold.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_duplicates_of_a_payment_take_one_unit_or_start_one_refund() {
    for ledger in LEDGERS {
        for (is_late, is_sold) in [(false, false), (true, false), (true, true)] {
            let fixture = new_fixture(ledger, 1, 1).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            if is_late {
                fixture.expire_orders().await.unwrap();
            }
            if is_sold {
                fixture.pending_order(2, "bob", 1).await;
            }
            for applied in join_all((0..1_000).map(|_| fixture.payment_succeeded(&order_no, "e"))).await {
                assert_ne!(applied.unwrap(), CallbackEffect::Parked, "{ledger}");
            }
            fixture.recover().await;
            let (status, units, refunds) =
                if is_sold { (OrderStatus::Refunding, (0, 1, 0), 1) } else { (OrderStatus::Paid, (0, 0, 1), 0) };
            assert_eq!(fixture.ledger_status(&order_no).await, Some(status), "{ledger}");
            assert_eq!(fixture.units().await, units, "{ledger}");
            assert_eq!(fixture.open_refunds().await.len(), refunds, "{ledger}");
        }
    }
}

/// Providers guarantee no order of their callbacks: one that could not be delivered comes after later ones. A released order
/// finds a free unit, or none.
#[tokio::test]
async fn an_order_whose_refund_was_reported_before_its_payment_is_refunded_and_its_unit_free() {
    for ledger in LEDGERS {
        for (is_released, is_sold_out) in [(false, false), (true, false), (true, true)] {
            let (fixture, provider) = (new_fixture(ledger, 1, 1).await, FakeProvider::default());
            let order_no = fixture.pending_order(1, "ada", 1).await;
            if is_released {
                fixture.cancel(&order_no).await.unwrap();
            }
            if is_sold_out {
                fixture.pending_order(2, "ben", 1).await;
            }
            let case = format!("{ledger}, released: {is_released}, sold out: {is_sold_out}");
            assert_eq!(fixture.refund_succeeded(&order_no, "r").await.unwrap(), CallbackEffect::Parked, "{case}");
            assert_eq!(fixture.payment_succeeded(&order_no, "p").await.unwrap(), CallbackEffect::Changed, "{case}");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{case}");
            assert_eq!(fixture.redis_status(&order_no).await, Some(OrderStatus::Refunded), "{case}");
            assert_eq!(callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap(), [], "{case}");
            fixture.send_refunds(&provider, 0).await.unwrap();
            assert!(provider.refunds.borrow().is_empty(), "{case}: the money was returned a second time");
            assert_eq!(fixture.units().await, if is_sold_out { (0, 1, 0) } else { (1, 0, 0) }, "{case}");
        }
    }
}

#[tokio::test]
async fn a_payment_and_its_refund_that_are_reported_at_once_end_refunded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 40, 40).await;
        for n in 1..=40 {
            let order_no = fixture.pending_order(n, &format!("buyer-{n}"), 1).await;
            if n % 2 == 0 {
                fixture.cancel(&order_no).await.unwrap();
            }
            let (payment, refund) =
                futures::join!(fixture.payment_succeeded(&order_no, "p"), fixture.refund_succeeded(&order_no, "r"));
            payment.unwrap();
            refund.unwrap();
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger} {n}");
            assert_eq!(fixture.redis_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger} {n}");
            assert_eq!(callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap(), [], "{ledger}");
        }
        assert_eq!(fixture.units().await, (40, 0, 0), "{ledger}");
    }
}

/// The second payment's refund comes first; of another one a part does.
#[tokio::test]
async fn a_second_payment_whose_refund_was_reported_first_is_not_refunded_again() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.paid_order(1, "ada").await;
        let refunded = async |payment: &str, amount| {
            let money = Money::new(amount, "EUR");
            let callback = ProviderCallback { money, ..report("refund.succeeded", &order_no, payment) };
            callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap()
        };
        assert_eq!(refunded("second", 100).await, CallbackEffect::Parked, "{ledger}");
        fixture.payment_succeeded_with_id(&order_no, "second").await.unwrap();
        fixture.send_refunds(&provider, 0).await.unwrap();
        assert!(provider.refunds.borrow().is_empty(), "{ledger}: the money was returned a second time");
        assert_eq!(refunded("third", 99).await, CallbackEffect::Parked, "{ledger}");
        fixture.payment_succeeded_with_id(&order_no, "third").await.unwrap();
        assert_eq!(callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap(), [], "{ledger}");
        assert_eq!(fixture.open_refunds().await[0].rest(), Money::new(1, "EUR"), "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn a_parked_payment_whose_refund_was_reported_first_is_not_refunded_again_by_an_operator() {
    for (ledger, is_known) in LEDGERS.into_iter().flat_map(|ledger| [(ledger, true), (ledger, false)]) {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = if is_known { fixture.pending_order(1, "ada", 1).await } else { fixture.order_no(77) };
        for kind in ["payment.succeeded", "refund.succeeded"] {
            let applied = fixture.apply_callback(kind, &order_no, kind, 99).await.unwrap();
            assert_eq!(applied, CallbackEffect::Parked, "{ledger}");
        }
        let payment = format!("payment.succeeded-{order_no}");
        let refunded = parked::refund(&fixture.redis, &fixture.sql, &payment, NOW).await.unwrap();
        assert_eq!(refunded, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        fixture.send_refunds(&provider, 0).await.unwrap();
        assert!(provider.refunds.borrow().is_empty(), "{ledger}: the money was returned a second time");
        assert_eq!(callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap(), [], "{ledger}");
        let untouched = is_known.then_some(OrderStatus::PendingPayment);
        assert_eq!(fixture.ledger_status(&order_no).await, untouched, "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_for_an_order_that_is_not_written_yet_is_parked_and_reapplied() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let order_no = fixture.order_no(1);
        let early = fixture.payment_succeeded_with_id(&order_no, "early").await.unwrap();
        assert_eq!(early, CallbackEffect::Parked, "{ledger}");
        let waiting = callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap();
        assert_eq!((waiting.len(), waiting[0].outcome), (1, CallbackOutcome::UnknownOrder), "{ledger}");
        let reapply = async || parked::reapply(&fixture.redis, &fixture.sql, &waiting[0].id, NOW).await.unwrap();
        assert_eq!(reapply().await, ResolveOutcome::Done(CallbackEffect::Parked), "{ledger}: still unknown");
        fixture.write_batch().await.unwrap();
        assert_eq!(reapply().await, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        assert_eq!(reapply().await, ResolveOutcome::NotParked, "{ledger}: once");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
    }
}
