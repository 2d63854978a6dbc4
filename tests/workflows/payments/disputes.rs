//! Tests of disputes that providers report, in any order, on both ledgers (G21, I1).

use domain::{
    money::Money,
    order::OrderStatus,
    time::Millis,
    webhook::{
        Dispute,
        DisputeStatus::{self, Closed, Lost, Open, Won},
        PaymentProvider,
    },
};
use operations::{
    commands::inbox::{self, InboxAction, InboxKind::OpenDispute},
    ledger::backlog,
};
use payments::{
    callbacks::disputes::{DisputeReceipt, receive},
    ledger::disputes,
};

use crate::{
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    orders::events::TARGET,
};

/// What Stripe reports at a time: it names no order.
pub fn reported(payment: &str, status: DisputeStatus, at: i64) -> Dispute {
    Dispute {
        dispute: format!("du-{payment}"),
        provider: PaymentProvider::Stripe,
        order_no: String::new(),
        payment: payment.to_owned(),
        money: Money::new(100, "EUR"),
        reason: "fraudulent".to_owned(),
        status,
        opened_at: NOW,
        changed_at: NOW.plus(at),
    }
}

/// Receives a report as from the configured provider, which has orders of this app alone.
async fn report(fixture: &RealFixture, dispute: &Dispute) -> DisputeReceipt {
    receive(&fixture.sql, dispute, true, |order_no| order_no.activity() == &fixture.activity).await.unwrap()
}

/// How many disputes are in the inbox; the metrics count as many.
async fn open_disputes(fixture: &RealFixture) -> i64 {
    let found = inbox::load(&fixture.redis, &fixture.sql, TARGET.url, NOW, None).await.unwrap();
    let found: Vec<_> = found.into_iter().filter(|item| item.kind == OpenDispute).collect();
    assert!(found.iter().all(|item| item.action == InboxAction::AnswerDispute), "{found:?}");
    let count = found.iter().map(|item| item.count).sum();
    assert_eq!(backlog::load(&fixture.sql).await.unwrap().disputes, count);
    count
}

#[tokio::test]
async fn the_latest_report_of_a_dispute_counts_and_its_order_stays_paid() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let order_no = fixture.paid_order(1, "ada").await;
        let row = fixture.order_row(&order_no).await;
        for (status, at, expected) in [
            (Open, 10, (Open, 10)),
            (Open, 10, (Open, 10)),
            (Lost, 10, (Lost, 10)),
            (Open, 10, (Lost, 10)),
            (Open, 5, (Lost, 10)),
            (Won, 20, (Won, 20)),
            (Closed, 15, (Won, 20)),
        ] {
            let received = report(&fixture, &reported(&row.payment, status, at)).await;
            assert_eq!(received, DisputeReceipt::Recorded, "{ledger}");
            let kept = disputes::list_for_orders(&fixture.sql, &[&order_no]).await.unwrap();
            let (status, at) = expected;
            let expected = Dispute { order_no: order_no.to_string(), ..reported(&row.payment, status, at) };
            assert_eq!(kept, [expected], "{ledger}");
            assert_eq!(open_disputes(&fixture).await, i64::from(status == Open), "{ledger}");
        }
        assert_eq!(fixture.order_row(&order_no).await, row, "{ledger}");
    }
}

#[tokio::test]
async fn disputes_of_second_and_parked_payments_are_those_of_their_orders() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let order_no = fixture.paid_order(1, "ada").await;
        fixture.payment_succeeded_with_id(&order_no, "twice").await.unwrap();
        let unpaid = fixture.pending_order(2, "ada", 1).await;
        fixture.apply_callback("payment.succeeded", &unpaid, "wrong", 1).await.unwrap();
        for payment in ["twice", &format!("pay-{unpaid}")] {
            assert_eq!(report(&fixture, &reported(payment, Open, 0)).await, DisputeReceipt::Recorded, "{ledger}");
        }
        let kept = disputes::list_for_orders(&fixture.sql, &[&order_no, &unpaid]).await.unwrap();
        assert_eq!((kept.len(), open_disputes(&fixture).await), (2, 2), "{ledger}");
    }
}

#[tokio::test]
async fn a_dispute_that_is_reported_before_its_payment_waits_for_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        for payment in ["later", "of another app"] {
            assert_eq!(report(&fixture, &reported(payment, Open, 0)).await, DisputeReceipt::Foreign, "{ledger}");
        }
        assert_eq!(open_disputes(&fixture).await, 0, "{ledger}: nobody here can answer them");
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.payment_succeeded_with_id(&order_no, "later").await.unwrap();
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        let name = async |now: Millis| disputes::name_orders(&fixture.sql, now, 10).await.unwrap();
        assert_eq!(name(NOW).await, 0, "{ledger}");
        assert_eq!(open_disputes(&fixture).await, 1, "{ledger}");
        assert_eq!(name(NOW.plus(31 * 24 * 3_600_000)).await, 1, "{ledger}: the other app's is erased");
        assert_eq!(disputes::list_for_orders(&fixture.sql, &[&order_no]).await.unwrap().len(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_dispute_that_names_an_order_of_another_app_is_not_recorded() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let of_order = |order_no: String| Dispute { order_no, ..reported("p", Open, 0) };
        let lost = of_order(fixture.order_no(7).to_string());
        let foreign = of_order(lost.order_no.replacen(fixture.activity.as_str(), "other-sale", 1));
        assert_eq!(report(&fixture, &foreign).await, DisputeReceipt::Foreign, "{ledger}");
        let old = receive(&fixture.sql, &lost, false, |_| true).await.unwrap();
        assert_eq!(old, DisputeReceipt::NotOfItsOrders, "{ledger}: its provider was replaced");
        assert_eq!(open_disputes(&fixture).await, 0, "{ledger}");
        assert_eq!(report(&fixture, &lost).await, DisputeReceipt::Recorded, "{ledger}: the ledger lost the order");
        assert_eq!(open_disputes(&fixture).await, 1, "{ledger}");
    }
}

/// A session of the order was opened by the provider that reports, or by another one.
#[tokio::test]
async fn a_replaced_provider_reports_disputes_of_its_own_orders_only() {
    for ledger in LEDGERS {
        for (provider, expected) in [
            (PaymentProvider::Stripe, DisputeReceipt::Recorded),
            (PaymentProvider::Webhook, DisputeReceipt::NotOfItsOrders),
        ] {
            let fixture = new_fixture(ledger, 5, 5).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            fixture.open_session(&order_no, provider, NOW).await.unwrap();
            fixture.payment_succeeded_with_id(&order_no, "p").await.unwrap();
            for order_no in [String::new(), order_no.to_string()] {
                let dispute = Dispute { order_no, ..reported("p", Open, 0) };
                assert_eq!(receive(&fixture.sql, &dispute, false, |_| true).await.unwrap(), expected, "{ledger}");
            }
        }
    }
}
