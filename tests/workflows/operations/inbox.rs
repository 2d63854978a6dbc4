//! Tests of the inbox: what needs a person, as one item for all that is alike (G22).

use domain::time::Millis;
use operations::commands::inbox::{self, InboxAction, InboxItem, InboxKind, InboxKind::*};
use orders::{
    dead_letters,
    ledger::events::{self, EventEndpoint},
};
use serde_json::json;
use stores::Sql;

use crate::{
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    orders::events::TARGET,
};

const MINUTE_MS: i64 = 60_000;

async fn items_at(fixture: &RealFixture, now: Millis) -> Vec<InboxItem> {
    inbox::load(&fixture.redis, &fixture.sql, TARGET.url, now, Some(0)).await.unwrap()
}

async fn items(fixture: &RealFixture) -> Vec<InboxItem> {
    items_at(fixture, NOW).await
}

async fn kinds(fixture: &RealFixture) -> Vec<InboxKind> {
    items(fixture).await.into_iter().map(|item| item.kind).collect()
}

/// Redis has every change, as a sweep would find.
async fn confirm_sync(fixture: &RealFixture) {
    fixture.sql.run("UPDATE orders SET unsynced_since = 0", vec![]).await.unwrap();
}

#[tokio::test]
async fn parked_callbacks_wait_for_a_decision_oldest_first() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let order_no = fixture.paid_order(1, "ada").await;
        assert_eq!(items(&fixture).await, [], "{ledger}: nothing needs a person");
        fixture.apply_callback("payment.succeeded", &order_no, "wrong", 1).await.unwrap();
        let expected = json!([{
            "kind": "parked_callback", "activity": fixture.activity, "order_no": order_no,
            "callback": format!("wrong-{order_no}"), "reason": "wrong_amount", "count": 1,
            "since": NOW, "action": "decide_callback",
        }]);
        assert_eq!(json!(items(&fixture).await), expected, "{ledger}");
        // A later one that is alike, and an earlier one of another sale that is none.
        fixture.apply_callback("payment.succeeded", &order_no, "wrong again", 1).await.unwrap();
        fixture.apply_callback("payment.succeeded", &fixture.order_no(7), "unknown", 100).await.unwrap();
        for (id, columns) in
            [("wrong again", "received_at = received_at + 1"), ("unknown", "order_no = '??', received_at = 1")]
        {
            let update = format!("UPDATE callbacks SET {columns} WHERE id LIKE '{id}-%'");
            fixture.sql.run(&update, vec![]).await.unwrap();
        }
        let found = items(&fixture).await;
        let reasons: Vec<_> = found.iter().map(|item| (item.reason.as_deref(), item.count, item.since)).collect();
        let expected = [(Some("unknown_order"), 1, Some(Millis(1))), (Some("wrong_amount"), 2, Some(NOW))];
        assert_eq!(reasons, expected, "{ledger}");
        assert_eq!((&found[0].activity, &found[0].order_no), (&None, &None), "{ledger}: it names none");
        assert_eq!((&found[1].order_no, &found[1].callback), (&None, &None), "{ledger}: of two, neither is named");
    }
}

#[tokio::test]
async fn the_dead_letters_of_a_sale_are_one_item_for_each_reason() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        for (n, reason) in ["old_epoch", "old_epoch", "unreadable"].into_iter().enumerate() {
            let letter = (fixture.order_no(n as u64).to_string(), "message".to_owned(), reason);
            dead_letters::record(&fixture.sql, &[letter], NOW.plus(n as i64)).await.unwrap();
        }
        let found: Vec<_> =
            items(&fixture).await.into_iter().map(|item| (item.kind, item.count, item.action)).collect();
        let expected =
            [(DeadLetter, 2, InboxAction::ReplayDeadLetter), (DeadLetter, 1, InboxAction::InspectDeadLetter)];
        assert_eq!(found, expected, "{ledger}");
        fixture.sql.run("UPDATE dead_letters SET replayed_at = died_at", vec![]).await.unwrap();
        assert_eq!(items(&fixture).await, [], "{ledger}: they are replayed");
    }
}

#[tokio::test]
async fn refunds_that_fail_and_sessions_that_nobody_answers_for_wait_for_the_provider() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 5).await, FakeProvider::default());
        let order_no = fixture.refunding_order(1, "ada").await;
        fixture.payment_succeeded_with_id(&order_no, "twice").await.unwrap();
        fixture.checked_out_order(&provider, 2, "bob").await;
        assert_eq!(items(&fixture).await, [], "{ledger}: nothing has failed yet");
        provider.refund_behaviour.set(RefundBehaviour::Fail);
        fixture.send_refunds(&provider, 0).await.unwrap();
        let statement = "UPDATE sessions SET last_error = 'silence', attempts = 3";
        fixture.sql.run(statement, vec![]).await.unwrap();
        let found = items(&fixture).await;
        assert!(found.iter().all(|item| item.action == InboxAction::CheckProvider && item.since == Some(NOW)));
        let found: Vec<_> = found.into_iter().map(|item| (item.kind, item.order_no)).collect();
        let expected = [
            (UnansweredSession, Some(fixture.order_no(2))),
            (FailedRefund, Some(order_no.clone())),
            (Overpayment, Some(order_no)),
        ];
        assert_eq!(found, expected, "{ledger}");
        fixture.sql.run("UPDATE refunds SET payment = 'lost'", vec![]).await.unwrap();
        let lost = items(&fixture).await.remove(1);
        assert_eq!((lost.kind, lost.action), (FailedRefund, InboxAction::ResendCallback), "{ledger}");
    }
}

#[tokio::test]
async fn events_that_the_shop_does_not_take_need_a_person() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        events::set_enabled(&fixture.sql, true).await.unwrap();
        fixture.paid_order(1, "ada").await;
        events::set_enabled(&fixture.sql, false).await.unwrap();
        confirm_sync(&fixture).await;
        assert_eq!(items_at(&fixture, NOW.plus(14 * MINUTE_MS)).await, [], "{ledger}: they wait for a short time");
        let late = items_at(&fixture, NOW.plus(15 * MINUTE_MS)).await;
        assert_eq!((late.len(), late[0].kind, late[0].count), (1, LateEvent, 2), "{ledger}");
        fixture.sql.run("UPDATE events SET state = 'failed'", vec![]).await.unwrap();
        let healthy = EventEndpoint::healthy(1);
        let gone = EventEndpoint { gone: 1, ..healthy };
        let disabled = EventEndpoint { gone: 4, disabled_at: Some(NOW.plus(-1)), ..healthy };
        for (endpoint, expected) in [
            (healthy, &[FailedEvent][..]),
            (gone, &[EventsGone, FailedEvent]),
            (disabled, &[EventsDisabled, FailedEvent]),
        ] {
            events::save_endpoint(&fixture.sql, TARGET.url, &endpoint).await.unwrap();
            assert_eq!(kinds(&fixture).await, expected, "{ledger}");
        }
    }
}

#[tokio::test]
async fn sales_that_do_not_sell_or_cannot_be_trusted_need_a_person() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let of_sale = async |now| {
            let found = items_at(&fixture, now).await;
            assert!(found.iter().all(|item| item.activity.as_ref() == Some(&fixture.activity)), "{ledger}: {found:?}");
            found.into_iter().map(|item| item.kind).collect::<Vec<_>>()
        };
        fixture.pending_order(1, "ada", 1).await;
        confirm_sync(&fixture).await;
        let due = NOW.plus(300_000);
        assert_eq!(of_sale(due.plus(100_000)).await, [], "{ledger}");
        assert_eq!(of_sale(due.plus(130_000)).await, [LateOrders], "{ledger}: no sweep comes");

        let stats = fixture.key("stats");
        fixture.run_redis(&["HINCRBY", &stats, "sold:phone", "1"]).await;
        assert_eq!(of_sale(NOW).await, [AuditNotOk], "{ledger}");
        fixture.run_redis(&["HINCRBY", &stats, "sold:phone", "-1"]).await;

        fixture.delete_redis_keys().await;
        assert_eq!(of_sale(NOW).await, [MissingGate], "{ledger}");
        let rebuild = |lost_at| {
            format!(
                "INSERT INTO rebuilds (activity, version, epoch, due_at, lost_at) VALUES ('{}', 1, 1, {}, {lost_at})",
                fixture.activity, NOW.0
            )
        };
        fixture.sql.run(&rebuild(0), vec![]).await.unwrap();
        assert_eq!(of_sale(NOW.plus(MINUTE_MS)).await, [UnfinishedRebuild], "{ledger}");
        fixture.sql.run("DELETE FROM rebuilds", vec![]).await.unwrap();
        fixture.sql.run(&rebuild(NOW.0), vec![]).await.unwrap();
        assert_eq!(of_sale(NOW).await, [StoppedGate], "{ledger}");
        fixture.sql.run("DELETE FROM rebuilds", vec![]).await.unwrap();
        fixture.sql.run("UPDATE activities SET spec = '{'", vec![]).await.unwrap();
        assert_eq!(of_sale(NOW).await, [MissingGate, UnreadableSale], "{ledger}");
    }
}

#[tokio::test]
async fn without_redis_the_inbox_has_what_the_ledger_knows() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        fixture.apply_callback("payment.succeeded", &fixture.paid_order(1, "ada").await, "wrong", 1).await.unwrap();
        fixture.delete_redis_keys().await;
        let load = async |ahead_ms| {
            let loaded = inbox::load(&fixture.redis, &fixture.sql, "", NOW, ahead_ms).await.unwrap();
            loaded.into_iter().map(|item| item.kind).collect::<Vec<_>>()
        };
        assert_eq!(load(None).await, [ParkedCallback], "{ledger}");
        assert_eq!(load(Some(-6 * MINUTE_MS)).await, [MissingGate, ClockDiffers, ParkedCallback], "{ledger}");
    }
}

#[tokio::test]
async fn an_inbox_has_a_hundred_items_whatever_waits() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let letters: Vec<_> =
            (0..2_000).map(|n| (format!("sale-{}.{n:04}-0", n % 200), "nonsense".to_owned(), "unreadable")).collect();
        dead_letters::record(&fixture.sql, &letters, NOW).await.unwrap();
        let found = items(&fixture).await;
        assert_eq!(found.len(), inbox::MAX_ITEMS, "{ledger}");
        assert!(found.iter().all(|item| item.activity.is_some() && item.count <= 10), "{ledger}: {found:?}");
    }
}
