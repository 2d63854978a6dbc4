//! Tests of rehearsals (G21): marked for good, not listed, and deleted only once nothing of them is alive.

use domain::{activity::ActivityState, order::OrderStatus, webhook::PaymentProvider};
use operations::commands::activities::{DeleteOutcome, OperationOutcome};
use orders::ledger::events::set_enabled;
use sale::ledger::{activities, epochs};
use stores::{Sql, ports::SqlValue};

use crate::{
    fakes::{FakeEndpoint, FakeProvider},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    operations::erasure::{rows, sweep},
    orders::events::{LATER, deliver_all},
};

async fn rehearsal(ledger: &str) -> RealFixture {
    let mut fixture = new_fixture(ledger, 9, 9).await;
    fixture.publish_another(|spec| spec.rehearsal = true).await;
    fixture
}

async fn delete(fixture: &RealFixture) -> DeleteOutcome {
    fixture.operator().delete_rehearsal(&fixture.stored().await).await.unwrap()
}

async fn refused(fixture: &RealFixture, because: &str, context: &str) {
    match delete(fixture).await {
        DeleteOutcome::Conflict(detail) => assert!(detail.contains(because), "{context}: {detail}"),
        other => panic!("{context}: {other:?}, not {because}"),
    }
}

async fn kept_payments(fixture: &RealFixture) -> Vec<Vec<SqlValue>> {
    let kept = "SELECT payment, provider, amount, refund FROM rehearsal_payments ORDER BY payment";
    fixture.sql.run(kept, Vec::new()).await.unwrap()
}

#[tokio::test]
async fn a_rehearsal_is_one_for_good_and_not_listed() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 9, 9).await;
        let real = fixture.publish_another(|spec| spec.rehearsal = true).await;
        let listed = activities::list_published(&fixture.sql, NOW).await.unwrap().activities;
        assert_eq!(listed.iter().map(|listed| &listed.id).collect::<Vec<_>>(), [&real], "{ledger}");
        assert_eq!(activities::list(&fixture.sql, NOW).await.unwrap().activities.len(), 2, "{ledger}");
        let changed = fixture.change_spec(|spec| spec.rehearsal = false).await;
        assert!(matches!(changed, OperationOutcome::Conflict(_)), "{ledger}: {changed:?}");
        fixture.activity = real;
        let changed = fixture.change_spec(|spec| spec.rehearsal = true).await;
        assert!(matches!(changed, OperationOutcome::Conflict(_)), "{ledger}: {changed:?}");
    }
}

#[tokio::test]
async fn the_events_of_a_rehearsal_and_of_its_orders_say_so() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 9, 9).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.pending_order(1, "ada", 1).await;
        let real = fixture.publish_another(|spec| spec.rehearsal = true).await;
        fixture.pending_order(2, "ada", 1).await;
        fixture.set_state(ActivityState::Paused).await;
        let endpoint = FakeEndpoint::default();
        deliver_all(&fixture, &endpoint, LATER).await;
        let (mut of_real, mut of_rehearsal) = (0, 0);
        for document in endpoint.documents() {
            let data = &document["data"];
            let order_no = data["order_no"].as_str().unwrap_or_default();
            if data["activity"] == real.as_str() || order_no.starts_with(&format!("{real}.")) {
                assert!(data.get("rehearsal").is_none(), "{ledger}: {document}");
                of_real += 1;
            } else {
                assert_eq!(data["rehearsal"], true, "{ledger}: {document}");
                of_rehearsal += 1;
            }
        }
        assert!(of_real >= 1 && of_rehearsal >= 2, "{ledger}: {:?}", endpoint.documents());
    }
}

#[tokio::test]
async fn a_rehearsal_is_deleted_at_once_but_only_when_nothing_of_it_is_alive() {
    for ledger in LEDGERS {
        let fixture = rehearsal(ledger).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        refused(&fixture, "close it first", ledger).await;
        let unpaid = fixture.pending_order(1, "ada", 1).await;
        fixture.paid_order(2, "bob").await;
        let sandbox = fixture.pending_order(3, "eve", 1).await;
        fixture.open_session(&sandbox, PaymentProvider::Sandbox, NOW).await.unwrap();
        fixture.payment_succeeded(&sandbox, "e").await.unwrap();
        fixture.reserve(4, "dan", 1).await.unwrap();
        fixture.set_state(ActivityState::Closed).await;
        refused(&fixture, "1 queued orders", ledger).await;
        fixture.write_batch().await.unwrap();
        refused(&fixture, "2 orders that wait for payment", ledger).await;
        for order_no in [&unpaid, &fixture.order_no(4)] {
            fixture.cancel(order_no).await.unwrap();
        }
        refused(&fixture, "1 orders with a payment that is not the sandbox's", ledger).await;
        let real = fixture.order_no(2);
        fixture.request_refund(&real).await.unwrap();
        refused(&fixture, "1 orders that are being refunded", ledger).await;
        fixture.send_refunds(&FakeProvider::default(), 0).await.unwrap();
        fixture.refund_succeeded(&real, "r").await.unwrap();
        refused(&fixture, "events that are not delivered", ledger).await;
        deliver_all(&fixture, &FakeEndpoint::default(), LATER).await;
        for (change, undo, because) in [
            ("outcome = 'paid_twice'", "outcome = 'paid'", "callbacks that wait or are parked"),
            ("outcome = ''", "outcome = 'paid'", "callbacks that wait or are parked"),
        ] {
            for (set, is_undone) in [(change, false), (undo, true)] {
                let statement = format!("UPDATE callbacks SET {set} WHERE order_no = ?1");
                fixture.sql.run(&statement, vec![real.to_string().into()]).await.unwrap();
                if !is_undone {
                    refused(&fixture, because, ledger).await;
                }
            }
        }
        let dispute = "INSERT INTO disputes (dispute, provider, order_no, payment, amount, currency, reason, status, \
             opened_at, changed_at) VALUES ('d', 'stripe', ?1, 'p', 1, 'EUR', '', 'open', 0, 0)";
        fixture.sql.run(dispute, vec![real.to_string().into()]).await.unwrap();
        refused(&fixture, "1 open disputes", ledger).await;
        fixture.sql.run("UPDATE disputes SET status = 'won'", Vec::new()).await.unwrap();
        let epoch = async || epochs::load(&fixture.sql, &fixture.activity).await.unwrap();
        let before = epoch().await;
        assert_eq!(delete(&fixture).await, DeleteOutcome::Deleted, "{ledger}");
        assert_eq!(activities::load(&fixture.sql, &fixture.activity).await.unwrap(), None, "{ledger}");
        assert!(epoch().await > before, "{ledger}: its gate would count for the next sale of its id");
        let report = sweep(&fixture, NOW, None).await;
        assert_eq!((report.erased_activities, report.erased), (1, 4), "{ledger}: {report:?}");
        assert_eq!(rows(&fixture).await, [], "{ledger}");
        let kept = kept_payments(&fixture).await;
        assert_eq!(kept.len(), 1, "{ledger}: {kept:?}");
        assert_eq!(kept[0][0], SqlValue::Text(format!("pay-{real}")), "{ledger}");
        assert_ne!(kept[0][3], SqlValue::Text(String::new()), "{ledger}: {kept:?}");
        let listed = activities::list(&fixture.sql, NOW).await.unwrap().activities;
        assert_eq!(listed.len(), 1, "{ledger}: the other sale stays, {listed:?}");
    }
}

#[tokio::test]
async fn an_order_that_is_paid_after_the_deletion_stays_until_it_is_refunded() {
    for ledger in LEDGERS {
        let fixture = rehearsal(ledger).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.cancel(&order_no).await.unwrap();
        fixture.set_state(ActivityState::Closed).await;
        assert_eq!(delete(&fixture).await, DeleteOutcome::Deleted, "{ledger}");
        fixture.payment_succeeded(&order_no, "late").await.unwrap();
        sweep(&fixture, NOW, None).await;
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        assert!(rows(&fixture).await.contains(&("orders", 1)), "{ledger}: {:?}", rows(&fixture).await);
        fixture.request_refund(&order_no).await.unwrap();
        fixture.refund_succeeded(&order_no, "r").await.unwrap();
        assert_eq!(super::erasure::erase(&fixture, NOW).await, (1, 1), "{ledger}");
        assert_eq!(kept_payments(&fixture).await.len(), 1, "{ledger}");
    }
}
