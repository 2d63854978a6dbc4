//! Tests of bounced refunds: the provider confirms a refund and reports later that it failed, on both ledgers (E4; I6).

use domain::{
    ids::OrderNo,
    order::OrderStatus,
    webhook::{PaymentProvider, ProviderCallback},
};
use operations::ledger::backlog::load;
use payments::{
    callbacks::{
        self, CallbackEffect,
        parked::{self, ResolveOutcome},
    },
    ledger::{
        callback_rows,
        refunds::{self, RefundAttempt, RefundKind},
    },
};

use crate::{
    crash_points::{crash_at_every_call, crash_at_every_call_and_recover},
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    payments::report,
};

/// Applies a callback that a refund of `payment` failed. `refund` is the provider's id of the refund.
pub async fn refund_failed(
    fixture: &RealFixture,
    order_no: &OrderNo,
    payment: &str,
    refund: &str,
    event: &str,
) -> CallbackEffect {
    refund_ended(fixture, "refund.failed", order_no, payment, refund, event).await
}

/// As [`refund_failed`], with any type of callback.
pub async fn refund_ended(
    fixture: &RealFixture,
    kind: &str,
    order_no: &OrderNo,
    payment: &str,
    refund: &str,
    event: &str,
) -> CallbackEffect {
    let callback = ProviderCallback {
        id: event.to_owned(),
        refund_id: refund.to_owned(),
        provider: Some(PaymentProvider::Stripe),
        ..report(kind, order_no, payment)
    };
    callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap()
}

/// Requests a refund of this kind, which is due. Returns its order and payment.
pub async fn requested_refund(fixture: &RealFixture, kind: RefundKind) -> (OrderNo, String) {
    if kind == RefundKind::Orders {
        let order_no = fixture.refunding_order(1, "ada").await;
        let payment = format!("pay-{order_no}");
        return (order_no, payment);
    }
    let order_no = fixture.paid_order(1, "ada").await;
    fixture.payment_succeeded_with_id(&order_no, "second").await.unwrap();
    (order_no, "second".to_owned())
}

pub async fn parked_callbacks(fixture: &RealFixture) -> Vec<(String, String)> {
    let parked = callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap();
    parked.into_iter().map(|callback| (callback.id, callback.outcome.as_str().to_owned())).collect()
}

pub fn bounced_callback(id: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), "refund_bounced".to_owned())]
}

#[tokio::test]
async fn a_refund_that_bounces_after_it_was_confirmed_is_parked_and_sent_again_by_an_operator() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, payment) = requested_refund(&fixture, RefundKind::Orders).await;
        provider.refund_behaviour.set(RefundBehaviour::Succeed);
        fixture.send_refunds(&provider, 0).await.unwrap();
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");

        let failed = async |refund, event| refund_failed(&fixture, &order_no, &payment, refund, event).await;
        assert_eq!(failed("re_0", "f1").await, CallbackEffect::Parked, "{ledger}");
        assert_eq!(parked_callbacks(&fixture).await, bounced_callback("f1"), "{ledger}: not parked for an operator");
        assert_eq!(load(&fixture.sql).await.unwrap().parked_callbacks, 1, "{ledger}");
        assert_eq!(callback_rows::erase(&fixture.sql, NOW.plus(1), 10).await.unwrap(), 2, "{ledger}: parked ones stay");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}: a refund is due before an operator asks for it");
        let refunded = parked::refund(&fixture.redis, &fixture.sql, "f1", NOW).await.unwrap();
        assert_eq!(refunded, ResolveOutcome::NotParked, "{ledger}: it was refunded like a parked payment");

        let reapply = async || parked::reapply(&fixture.redis, &fixture.sql, "f1", NOW).await.unwrap();
        assert_eq!(reapply().await, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        assert_eq!(reapply().await, ResolveOutcome::NotParked, "{ledger}: the second reapply had an effect");
        let open = fixture.open_refunds().await;
        assert_eq!((open.len(), open[0].kind, open[0].failures), (1, RefundKind::Orders, 1), "{ledger}");
        fixture.send_refunds(&provider, 60_000).await.unwrap();
        assert_eq!(provider.refunds.borrow().len(), 2, "{ledger}: no second refund was sent");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}: confirmed");
        assert_eq!(fixture.units().await, (5, 0, 0), "{ledger}: its unit was not returned exactly once");

        // The first refund's failure is reported again, with other event ids. The second refund returned the money.
        assert_eq!(failed("re_0", "f2").await, CallbackEffect::NoChange, "{ledger}");
        assert_eq!(parked_callbacks(&fixture).await, [], "{ledger}");
        assert_eq!(failed("re_1", "f3").await, CallbackEffect::Parked, "{ledger}");
        let dismissed = parked::dismiss(&fixture.sql, "f3").await.unwrap();
        assert_eq!(dismissed, ResolveOutcome::Done(CallbackEffect::Changed), "{ledger}");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}");
    }
}

#[tokio::test]
async fn a_failed_refund_is_sent_again_once_however_often_its_failure_is_reported() {
    for ledger in LEDGERS {
        for fails_at_once in [false, true] {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let (order_no, payment) = requested_refund(&fixture, RefundKind::Orders).await;
            let reported = async |event| refund_failed(&fixture, &order_no, &payment, "re_0", event).await;
            let failures = async || fixture.open_refunds().await[0].failures;
            provider.refund_behaviour.set(if fails_at_once { RefundBehaviour::Fail } else { RefundBehaviour::Accept });
            let sent = fixture.send_refunds(&provider, 0).await.unwrap();
            let reason = sent.failed.first().map(|failed| failed.reason.as_str());
            assert_eq!(reason, fails_at_once.then_some("the card is gone"), "{ledger}");
            let first = reported("refund.failed").await;
            assert_eq!(first == CallbackEffect::NoChange, fails_at_once, "{ledger}");
            assert_eq!(reported("refund.updated").await, CallbackEffect::NoChange, "{ledger}");
            assert_eq!(failures().await, 1, "{ledger}");
            // The second refund is made, and its answer is lost.
            provider.refund_behaviour.set(RefundBehaviour::Accept);
            provider.drops_responses.set(true);
            fixture.send_refunds(&provider, 60_000).await.unwrap();
            assert_eq!(reported("charge.refund.updated").await, CallbackEffect::NoChange, "{ledger}");
            provider.drops_responses.set(false);
            provider.refund_behaviour.set(RefundBehaviour::Succeed);
            fixture.send_refunds(&provider, 10_000_000).await.unwrap();
            assert_eq!(provider.refunds.borrow().len(), 2, "{ledger}: a third refund was sent");
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
            assert_eq!(reported("another").await, CallbackEffect::NoChange, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_late_report_that_a_failed_refund_succeeded_confirms_nothing() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let fixture = new_fixture(ledger, 5, 1).await;
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            let succeeded = async |refund: &str| {
                let event = format!("succeeded-{refund}");
                refund_ended(&fixture, "refund.succeeded", &order_no, &payment, refund, &event).await
            };
            refund_failed(&fixture, &order_no, &payment, "re_1", "f1").await;
            assert_eq!(succeeded("re_1").await, CallbackEffect::NoChange, "{ledger}");
            let open = fixture.open_refunds().await;
            assert_eq!((open.len(), open[0].failures), (1, 1), "{ledger}: a refund that failed counts as made");
            assert_eq!(refund_failed(&fixture, &order_no, &payment, "re_2", "f2").await, CallbackEffect::Changed);
            assert_eq!(succeeded("re_3").await, CallbackEffect::Changed, "{ledger}");
            assert_eq!(fixture.open_refunds().await, [], "{ledger}");
        }
    }
}

/// After a failure, a report without an id may be one of the refund that failed. The provider's answer to the next attempt is
/// about the payment as it is.
#[tokio::test]
async fn a_refund_made_at_the_provider_after_a_failure_is_confirmed_by_the_next_answer() {
    for ledger in LEDGERS {
        for (kind, answer) in [RefundKind::Orders, RefundKind::Overpayments]
            .into_iter()
            .flat_map(|kind| [(kind, RefundBehaviour::IsBack), (kind, RefundBehaviour::IsBackByFirst)])
        {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            refund_failed(&fixture, &order_no, &payment, "re_1", "f1").await;
            let reported = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, "", "s1").await;
            assert_eq!(reported, CallbackEffect::NoChange, "{ledger}");
            assert_eq!(fixture.open_refunds().await.len(), 1, "{ledger}");
            provider.refund_behaviour.set(answer);
            fixture.send_refunds(&provider, 60_000).await.unwrap();
            assert_eq!(fixture.open_refunds().await, [], "{ledger} {kind:?}");
            let status = if kind == RefundKind::Orders { OrderStatus::Refunded } else { OrderStatus::Paid };
            assert_eq!(fixture.ledger_status(&order_no).await, Some(status), "{ledger}");
            assert_eq!(parked_callbacks(&fixture).await, [], "{ledger}");
        }
    }
}

/// The report of the failure names no refund, and that of the success, which is older, does.
#[tokio::test]
async fn a_success_after_a_failure_without_an_id_waits_for_the_answer() {
    for ledger in LEDGERS {
        for kind in [RefundKind::Orders, RefundKind::Overpayments] {
            let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
            let (order_no, payment) = requested_refund(&fixture, kind).await;
            fixture.send_refunds(&provider, 0).await.unwrap();
            let own = fixture.open_refunds().await[0].refund.clone();
            assert_eq!(refund_failed(&fixture, &order_no, &payment, "", "f").await, CallbackEffect::NoChange);
            let late = refund_ended(&fixture, "refund.succeeded", &order_no, &payment, &own, "s").await;
            assert_eq!(late, CallbackEffect::NoChange, "{ledger} {kind:?}: one that may have failed counts as made");
            provider.refund_behaviour.set(RefundBehaviour::Succeed);
            fixture.send_refunds(&provider, 60_000).await.unwrap();
            assert_eq!(fixture.open_refunds().await, [], "{ledger} {kind:?}");
        }
    }
}

#[tokio::test]
async fn the_answer_to_an_attempt_that_was_reported_as_failed_meanwhile_changes_nothing() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.refunding_order(1, "ada").await;
        let claimed = refunds::claim_due(&fixture.sql, NOW, 10).await.unwrap();
        refund_failed(&fixture, &order_no, &claimed[0].payment, "re_0", "f").await;
        let after_failure = fixture.open_refunds().await;
        assert_eq!((after_failure[0].failures, after_failure[0].state.as_str()), (1, "requested"), "{ledger}");
        let answers = [
            RefundAttempt::Accepted("re_0".to_owned()),
            RefundAttempt::Unknown("silence".to_owned(), NOW),
            RefundAttempt::Failed { refund_id: "re_0".to_owned(), reason: "no".to_owned(), not_before: NOW },
        ];
        for answer in answers {
            refunds::record_attempt(&fixture.sql, &claimed[0], &answer).await.unwrap();
            assert_eq!(fixture.open_refunds().await, after_failure, "{ledger}: {answer:?}");
        }
    }
}

/// The provider names no refund in its report, and another one fails before the report is applied again.
#[tokio::test]
async fn a_refund_that_was_confirmed_in_part_ends_whatever_is_reported_since() {
    let provider = FakeProvider::default();
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            fixture.refunding_order(1, "ada").await;
            fixture.send_refunds(&provider, 0).await.unwrap();
        },
        async |fixture| {
            let order_no = fixture.order_no(1);
            let callback = report("refund.succeeded", &order_no, &format!("pay-{order_no}"));
            callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.map(|_| ())
        },
        async |fixture| {
            let order_no = fixture.order_no(1);
            refund_failed(fixture, &order_no, &format!("pay-{order_no}"), "another", "f").await;
            fixture.recover().await;
        },
        async |fixture, point| {
            let refund = refunds::list_for_order(&fixture.sql, &fixture.order_no(1)).await.unwrap().remove(0);
            let status = fixture.ledger_status(&fixture.order_no(1)).await;
            let expected = if refund.state == "confirmed" { OrderStatus::Refunded } else { OrderStatus::Refunding };
            assert_eq!(status, Some(expected), "{point}: {refund:?}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_reapplication_of_a_bounced_refund_sends_it_once_more() {
    let provider = FakeProvider::default();
    provider.refund_behaviour.set(RefundBehaviour::Succeed);
    crash_at_every_call(
        2,
        async |fixture| {
            let order_no = fixture.refunding_order(1, "ada").await;
            provider.refunds.borrow_mut().clear();
            fixture.send_refunds(&provider, 0).await.unwrap();
            let refund = refunds::list_for_order(&fixture.sql, &order_no).await.unwrap()[0].refund.clone();
            refund_failed(fixture, &order_no, &format!("pay-{order_no}"), &refund, "f").await;
        },
        async |fixture| parked::reapply(&fixture.redis, &fixture.sql, "f", NOW).await.map(|_| ()),
        async |fixture, point| {
            // If the call crashed before it took effect, the callback is still parked and can be reapplied.
            parked::reapply(&fixture.redis, &fixture.sql, "f", NOW).await.unwrap();
            fixture.send_refunds(&provider, 7_300_000).await.unwrap();
            assert_eq!(parked_callbacks(fixture).await, [], "{point}");
            assert_eq!(fixture.open_refunds().await, [], "{point}");
            assert_eq!(provider.refunds.borrow().len(), 2, "{point}: once more");
            assert_eq!(fixture.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}
