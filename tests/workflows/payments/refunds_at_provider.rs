//! Tests of refunds that a shop makes at its provider, and of what the provider reports about them, on both ledgers (E4; I6).

use domain::{
    money::Money,
    order::OrderStatus,
    webhook::{PaymentProvider, ProviderCallback},
};
use payments::{
    callbacks::{
        self, CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    ledger::refunds::{self, RefundKind},
};

use crate::{
    crash_points::crash_at_every_call_and_recover,
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    payments::{
        bounced_refunds::{bounced_callback, parked_callbacks, refund_ended, refund_failed, requested_refund},
        report,
    },
};

#[tokio::test]
async fn a_failed_refund_of_an_unrefunded_payment_is_ignored_unless_the_payment_is_unknown() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.paid_order(1, "ada").await;
        let own = format!("pay-{order_no}");
        assert_eq!(refund_failed(&fixture, &order_no, &own, "re_0", "f1").await, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(refund_failed(&fixture, &order_no, "other", "re_0", "f2").await, CallbackEffect::Parked, "{ledger}");
        assert_eq!(parked_callbacks(&fixture).await, [("f2".to_owned(), "unknown_payment".to_owned())], "{ledger}");
    }
}

/// As Stripe reports a refund of its dashboard: with the payment, without the order.
async fn refund_failed_without_order(fixture: &RealFixture, payment: &str, refund: &str) -> CallbackEffect {
    part_failed_without_order(fixture, payment, 100, refund).await
}

/// The same, of `amount` of the payment's 100.
async fn part_failed_without_order(fixture: &RealFixture, payment: &str, amount: i64, refund: &str) -> CallbackEffect {
    let callback = ProviderCallback {
        id: format!("failed-{refund}"),
        order_no: String::new(),
        money: Money::new(amount, "EUR"),
        refund_id: refund.to_owned(),
        provider: Some(PaymentProvider::Stripe),
        ..report("refund.failed", &fixture.order_no(1), payment)
    };
    callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap()
}

#[tokio::test]
async fn a_failed_refund_that_names_no_order_is_that_of_the_order_with_its_payment() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let fixture = new_fixture(ledger, 5, 1).await;
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            let made = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, "", "s").await;
            assert_eq!(made, CallbackEffect::Changed, "{ledger} {kind:?}");
            let failed = refund_failed_without_order(&fixture, &payment, "by hand").await;
            assert_eq!(failed, CallbackEffect::Parked, "{ledger} {kind:?}: nobody is told");
            assert_eq!(parked_callbacks(&fixture).await, bounced_callback("failed-by hand"), "{ledger} {kind:?}");
            parked::reapply(&fixture.redis, &fixture.sql, "failed-by hand", NOW).await.unwrap();
            let open = fixture.open_refunds().await;
            assert_eq!((open.len(), open[0].kind), (1, kind), "{ledger}: not sent again");
        }
        // The success of the same refund is reported later.
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.paid_order(1, "ada").await;
        let payment = format!("pay-{order_no}");
        let first = refund_failed_without_order(&fixture, &payment, "red_1").await;
        assert_eq!(first, CallbackEffect::NoChange, "{ledger}");
        let late = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, "red_1", "s").await;
        assert_eq!(late, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(refund_failed_without_order(&fixture, "other", "red_2").await, CallbackEffect::Parked, "{ledger}");
        let unknown = ("failed-red_2".to_owned(), "unknown_order".to_owned());
        assert_eq!(parked_callbacks(&fixture).await, [unknown], "{ledger}");
        // The ledger had lost the order when the failure was reported; it came back, and its refund had been made.
        let fixture = new_fixture(ledger, 5, 1).await;
        let payment = format!("pay-{}", fixture.order_no(1));
        assert_eq!(refund_failed_without_order(&fixture, &payment, "red_3").await, CallbackEffect::Parked, "{ledger}");
        let order_no = fixture.refunding_order(1, "ada").await;
        refunds::confirm(&fixture.sql, RefundKind::Orders, &fixture.refund_callback(&order_no, "")).await.unwrap();
        parked::reapply(&fixture.redis, &fixture.sql, "failed-red_3", NOW).await.unwrap();
        assert_eq!(fixture.open_refunds().await.len(), 1, "{ledger}: not sent again");
    }
}

/// The shop refunded a part of the payment by hand, and all of it later.
#[tokio::test]
async fn a_failed_refund_of_a_part_is_parked_and_is_no_failure_of_the_whole() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            let fail_part = async |refund: &str| part_failed_without_order(&fixture, &payment, 10, refund).await;
            let parked = |refund: &str| (format!("failed-{refund}"), "wrong_amount".to_owned());
            assert_eq!(fail_part("before").await, CallbackEffect::Parked, "{ledger} {kind:?}: nobody is told");
            assert_eq!(fixture.open_refunds().await[0].failures, 0, "{ledger} {kind:?}");
            let made = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, "", "s").await;
            assert_eq!(made, CallbackEffect::Changed, "{ledger} {kind:?}");
            assert_eq!(fail_part("after").await, CallbackEffect::Parked, "{ledger} {kind:?}");
            parked::reapply(&fixture.redis, &fixture.sql, "failed-after", NOW).await.unwrap();
            assert_eq!(fixture.open_refunds().await, [], "{ledger} {kind:?}: sent again");
            let mut both = parked_callbacks(&fixture).await;
            both.sort();
            assert_eq!(both, [parked("after"), parked("before")], "{ledger} {kind:?}");
            fixture.send_refunds(&provider, 60_000).await.unwrap();
            assert_eq!(provider.refunds.borrow().len(), 0, "{ledger} {kind:?}");
        }
        // No refund of the whole is known yet.
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.paid_order(1, "ada").await;
        let payment = format!("pay-{order_no}");
        assert_eq!(part_failed_without_order(&fixture, &payment, 10, "part").await, CallbackEffect::Parked, "{ledger}");
        let made = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, "", "s").await;
        assert_eq!(made, CallbackEffect::Changed, "{ledger}: the order stays paid");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
    }
}

/// The shop refunded by hand while a refund of the app was under way, or the report names no refund and one has failed.
#[tokio::test]
async fn a_success_that_is_not_of_the_known_refund_is_parked() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            let ended = async |kind: &str, refund: &str| {
                refund_ended(&fixture, kind, &order_no, &payment, refund, &format!("{kind}-{refund}")).await
            };
            assert_eq!(ended("refund.failed", "re_1").await, CallbackEffect::Changed, "{ledger}");
            fixture.send_refunds(&provider, 60_000).await.unwrap();
            let open = fixture.open_refunds().await;
            assert_eq!(open[0].state, "sent", "{ledger}");
            // It may be a late report of the first one.
            assert_eq!(ended("refund.succeeded", "").await, CallbackEffect::NoChange, "{ledger}");
            let own = open[0].refund.clone();
            assert_eq!(ended("refund.succeeded", &own).await, CallbackEffect::Changed, "{ledger}");
            assert_eq!(ended("refund.succeeded", "re_1").await, CallbackEffect::NoChange, "{ledger}: late");
            assert_eq!(ended("refund.succeeded", "by hand").await, CallbackEffect::Parked, "{ledger} {kind:?}");
            let parked = vec![("refund.succeeded-by hand".to_owned(), "unclear_refund".to_owned())];
            assert_eq!(parked_callbacks(&fixture).await, parked, "{ledger}");
            // The failure of the refund that counted is still noticed.
            assert_eq!(ended("refund.failed", &own).await, CallbackEffect::Parked, "{ledger}");
        }
        for (failed, succeeded, effect) in [
            // Either report names no refund: the order stays paid until an operator has asked the provider.
            ("re_1", "", CallbackEffect::Parked),
            ("", "re_1", CallbackEffect::Parked),
            ("", "", CallbackEffect::Parked),
            // A late report of the refund that failed, and one of another refund.
            ("re_1", "re_1", CallbackEffect::NoChange),
            ("re_1", "re_2", CallbackEffect::Changed),
        ] {
            let fixture = new_fixture(ledger, 5, 1).await;
            let order_no = fixture.paid_order(1, "ada").await;
            let payment = format!("pay-{order_no}");
            let failure = refund_failed(&fixture, &order_no, &payment, failed, "f").await;
            assert_eq!(failure, CallbackEffect::NoChange, "{ledger}");
            let success = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, succeeded, "s").await;
            assert_eq!(success, effect, "{ledger}: {failed:?} failed, {succeeded:?} succeeded");
            let status = if effect == CallbackEffect::Changed { OrderStatus::Refunded } else { OrderStatus::Paid };
            assert_eq!(fixture.ledger_status(&order_no).await, Some(status), "{ledger}");
            if effect != CallbackEffect::Parked {
                continue;
            }
            let replayed = parked::reapply(&fixture.redis, &fixture.sql, "s", NOW).await.unwrap();
            assert_eq!(replayed, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        }
    }
}

/// The buyer asks for a refund between the two reports about one that was made at the provider.
#[tokio::test]
async fn a_refund_that_failed_does_not_count_for_one_that_is_requested_since() {
    for ledger in LEDGERS {
        for (failed, succeeded) in [("red_1", "red_1"), ("", ""), ("red_1", "")] {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let order_no = fixture.paid_order(1, "ada").await;
            let payment = format!("pay-{order_no}");
            refund_failed(&fixture, &order_no, &payment, failed, "f").await;
            fixture.request_refund(&order_no).await.unwrap();
            refund_ended(&fixture, "refund.succeeded", &order_no, &payment, succeeded, "s").await;
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunding), "{ledger} {failed:?}");
            provider.refund_behaviour.set(RefundBehaviour::Succeed);
            fixture.send_refunds(&provider, 0).await.unwrap();
            assert_eq!(provider.refunds.borrow().len(), 1, "{ledger}");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_crashed_reapplication_of_an_unclear_refund_leaves_it_parked_or_applied() {
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            let order_no = fixture.paid_order(1, "ada").await;
            let payment = format!("pay-{order_no}");
            refund_failed(fixture, &order_no, &payment, "re_1", "f").await;
            refund_ended(fixture, "refund.succeeded", &order_no, &payment, "", "s").await;
        },
        async |fixture| parked::reapply(&fixture.redis, &fixture.sql, "s", NOW).await.map(|_| ()),
        async |fixture| {
            fixture.recover().await;
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            let is_parked = parked_callbacks(fixture).await == [("s".to_owned(), "unclear_refund".to_owned())];
            let (status, expected) = (fixture.ledger_status(&order_no).await, OrderStatus::Paid);
            assert_eq!(status, Some(if is_parked { expected } else { OrderStatus::Refunded }), "{point}");
            let refunds = refunds::list_for_order(&fixture.sql, &order_no).await.unwrap();
            assert_eq!(refunds.len(), usize::from(!is_parked), "{point}");
        },
    )
    .await;
}
