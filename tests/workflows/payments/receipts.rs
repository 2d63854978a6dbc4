//! Tests of which callbacks are received, and of what is kept of them, on both ledgers (E2, I6).

use domain::{
    ids::OrderNo,
    order::OrderStatus,
    webhook::{PaymentProvider, ProviderCallback},
};
use orders::ledger::order_changes;
use payments::{
    callbacks::{self, CallbackEffect, Receipt, parked},
    ledger::callback_rows,
};

use crate::{
    fixture::{LEDGERS, NOW, new_fixture},
    operations::epochs::RealFixture,
    payments::{bounced_refunds::parked_callbacks, report},
};

/// Two shops, or two regions of one, use one account of a provider, which reports to each of them.
#[tokio::test]
async fn a_callback_about_an_order_of_another_app_is_not_recorded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let paid = fixture.paid_order(1, "ada").await;
        let foreign = fixture.order_no(77).to_string().replacen(fixture.activity.as_str(), "other-sale", 1);
        for kind in ["payment.succeeded", "payment.failed", "refund.succeeded", "refund.failed", "session.ended"] {
            for order_no in [foreign.as_str(), "of a shop without numbers", ""] {
                if (kind, order_no) == ("refund.failed", "") {
                    continue;
                }
                let callback =
                    ProviderCallback { order_no: order_no.to_owned(), ..report(kind, &paid, "of another app") };
                assert_eq!(
                    receive(&fixture, &callback, true).await,
                    Err(Receipt::Foreign),
                    "{ledger}: {kind} {order_no}"
                );
            }
        }
        assert_eq!(parked_callbacks(&fixture).await, [], "{ledger}");
        // The ledger lost this one, and a refund of the provider's dashboard that failed names no order.
        let lost = report("payment.succeeded", &fixture.order_no(77), "lost");
        let unnamed = ProviderCallback { order_no: String::new(), ..report("refund.failed", &paid, "unnamed") };
        for callback in [&lost, &unnamed] {
            assert_eq!(receive(&fixture, callback, true).await, Ok(CallbackEffect::Parked), "{ledger}");
        }
    }
}

/// An operator refunded a payment of an order that the ledger does not have.
#[tokio::test]
async fn the_refund_of_a_parked_payment_is_received_whatever_its_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = "a number of long ago".to_owned();
        let of = |kind| ProviderCallback { order_no: order_no.clone(), ..report(kind, &fixture.order_no(1), "p") };
        callbacks::apply(&fixture.redis, &fixture.sql, &of("payment.succeeded"), NOW).await.unwrap();
        parked::refund(&fixture.redis, &fixture.sql, "payment.succeeded-p", NOW).await.unwrap();
        assert_eq!(receive(&fixture, &of("refund.succeeded"), true).await, Ok(CallbackEffect::Changed), "{ledger}");
        assert_eq!(fixture.open_refunds().await, [], "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_that_names_another_session_counts_and_operators_see_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 9, 1).await;
        let sessions = [("s-{}", false), ("another", true), ("", false)];
        for (n, (session, is_other)) in (1..).zip(sessions) {
            let order_no = fixture.pending_order(n, &format!("buyer-{n}"), 1).await;
            fixture.open_session(&order_no, PaymentProvider::Webhook, NOW).await.unwrap();
            for kind in ["payment.failed", "payment.succeeded"] {
                let session_id = session.replace("{}", &order_no.to_string());
                let callback = ProviderCallback { session_id, ..report(kind, &order_no, &format!("p{n}")) };
                receive(&fixture, &callback, true).await.unwrap();
            }
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}: {session}");
            let kept = callback_rows::list_for_order(&fixture.sql, &order_no).await.unwrap();
            assert_eq!(
                kept.iter().map(|it| it.other_session).collect::<Vec<_>>(),
                [is_other; 2],
                "{ledger}: {session}"
            );
        }
    }
}

/// Whether an order number is one of [`Fixture::order_no`](crate::fixture::Fixture::order_no): another app has other activities.
fn is_ours(order_no: &OrderNo) -> bool {
    !order_no.activity().as_str().starts_with("other")
}

/// Receives a callback, and applies it if it is recorded.
async fn receive(
    fixture: &RealFixture,
    callback: &ProviderCallback,
    is_configured: bool,
) -> Result<CallbackEffect, Receipt> {
    match callbacks::receive(&fixture.redis, &fixture.sql, callback, is_configured, is_ours, NOW).await.unwrap() {
        Receipt::Recorded(recorded) => {
            Ok(callbacks::apply_recorded(&fixture.redis, &fixture.sql, &recorded).await.unwrap())
        }
        refused => Err(refused),
    }
}

/// Receives a payment that a provider which is no longer configured reports.
async fn receive_unconfigured(
    fixture: &RealFixture,
    order_no: &OrderNo,
    provider: PaymentProvider,
) -> Result<CallbackEffect, Receipt> {
    let callback = ProviderCallback { provider: Some(provider), ..report("payment.succeeded", order_no, "p") };
    receive(fixture, &callback, false).await
}

/// A ledger came back from a backup: the orders that it lost have no provider.
#[tokio::test]
async fn an_order_whose_provider_was_lost_belongs_to_the_one_that_has_its_payment() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        order_changes::restart_payment(&fixture.sql, &order_no, "/pay", NOW).await.unwrap();
        for (provider, expected) in [
            (PaymentProvider::Webhook, Ok(CallbackEffect::Changed)),
            (PaymentProvider::Stripe, Err(Receipt::NotOfItsOrders)),
        ] {
            assert_eq!(receive_unconfigured(&fixture, &order_no, provider).await, expected, "{ledger}");
            let row = fixture.order_row(&order_no).await;
            assert_eq!((row.order.status, row.provider.as_str()), (OrderStatus::Paid, "webhook"), "{ledger}");
        }
    }
}

/// Otherwise an attacker who knows the secret of a provider that the shop no longer uses could pay such an order with a
/// forged callback.
#[tokio::test]
async fn an_order_without_a_session_was_paid_nowhere_also_after_its_release() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let [cancelled, expired, pending] = [
            fixture.pending_order(1, "ada", 1),
            fixture.pending_order(2, "ada", 1),
            fixture.pending_order(3, "ada", 1),
        ];
        let (cancelled, expired, pending) = (cancelled.await, expired.await, pending.await);
        fixture.cancel(&cancelled).await.unwrap();
        order_changes::release(&fixture.sql, &expired, OrderStatus::Expired, "", NOW).await.unwrap().expect("expired");
        for order_no in [&cancelled, &expired, &pending] {
            for provider in [PaymentProvider::Webhook, PaymentProvider::Stripe] {
                let received = receive_unconfigured(&fixture, order_no, provider).await;
                assert_eq!(received, Err(Receipt::NotOfItsOrders), "{ledger} {order_no}");
            }
            assert_eq!(callback_rows::list_for_order(&fixture.sql, order_no).await.unwrap(), [], "{ledger}: recorded");
        }
    }
}

/// The provider delivers the callback again.
#[tokio::test]
async fn a_callback_about_a_queued_order_is_not_recorded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let callback = report("payment.succeeded", &fixture.order_no(1), "p");
        let receive = async || receive(&fixture, &callback, true).await;
        assert_eq!(receive().await, Err(Receipt::OrderQueued), "{ledger}");
        fixture.write_batch().await.unwrap();
        assert_eq!(receive().await, Ok(CallbackEffect::Changed), "{ledger}");
        assert_eq!(receive().await, Ok(CallbackEffect::NoChange), "{ledger}");
    }
}
