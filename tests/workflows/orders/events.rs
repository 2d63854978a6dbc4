//! Tests of outgoing events, on both ledgers (E7).
//!
//! Every transition is sent after it is in the ledger, in order for each order, with the same id at each attempt.

use std::cell::RefCell;

use domain::{order::OrderStatus, time::Millis};
use operations::commands::inbox;
use orders::{
    event_delivery::{DeliveryReport, WebhookTarget, deliver_due},
    ledger::{
        events::{self, EventEndpoint, EventFilter, EventState, set_enabled},
        order_rows,
    },
};
use standardwebhooks::Webhook;
use stores::Sql;

use crate::{
    fakes::{FakeEndpoint, header},
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    operations::statistics::Recording,
};

pub const WEBHOOK_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

pub const TARGET: WebhookTarget<'static> =
    WebhookTarget { url: "https://shop.example/events", secrets: WEBHOOK_SECRET };

/// One hour after [`NOW`], in milliseconds.
pub const LATER: Millis = Millis(NOW.0 + 3_600_000);

async fn deliver_round(fixture: &RealFixture, endpoint: &FakeEndpoint, now: Millis) -> DeliveryReport {
    deliver_due(endpoint, &fixture.sql, TARGET, || now).await.unwrap()
}

/// Delivers until no event is due. Returns how many were delivered.
pub async fn deliver_all(fixture: &RealFixture, endpoint: &FakeEndpoint, now: Millis) -> usize {
    let mut delivered = 0;
    for _ in 0..100 {
        let round = deliver_round(fixture, endpoint, now).await;
        delivered += round.delivered;
        if round.delivered + round.failed == 0 {
            return delivered;
        }
    }
    panic!("no end of events");
}

fn event_types(endpoint: &FakeEndpoint) -> Vec<String> {
    endpoint.documents().iter().map(|document| document["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn all_events_of_an_order_are_sent_in_order_and_signed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 2).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let order_no = fixture.pending_order(1, "ada", 2).await;
        fixture.expire_orders().await.unwrap();
        fixture.payment_succeeded(&order_no, "e").await.unwrap();
        fixture.request_refund(&order_no).await.unwrap();
        fixture.refund_succeeded(&order_no, "r").await.unwrap();
        let endpoint = FakeEndpoint::default();
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 5, "{ledger}");
        let expected = ["order.pending_payment", "order.expired", "order.paid", "order.refunding", "order.refunded"];
        assert_eq!(event_types(&endpoint), expected, "{ledger}");
        for request in endpoint.requests.borrow().iter() {
            assert_eq!((request.method, request.url.as_str()), ("POST", TARGET.url));
            let (id, timestamp) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
            let signature =
                Webhook::new(WEBHOOK_SECRET).unwrap().sign(id, timestamp.parse().unwrap(), request.body.as_bytes());
            assert_eq!(header(request, "webhook-signature"), signature.unwrap(), "{ledger}");
            assert_eq!(timestamp, (LATER.0 / 1000).to_string(), "the time of the attempt");
        }
        let first = &endpoint.documents()[0];
        assert_eq!(first["timestamp"], NOW.to_string(), "the time at which it happened");
        assert_eq!(first["data"]["status"], "pending_payment", "the order as it was then");
        assert_eq!(first["data"]["order_no"], order_no.to_string());
        assert_eq!((&first["data"]["quantity"], &first["data"]["amount"]), (&2.into(), &200.into()));
        let paid = order_rows::load(&fixture.sql, &order_no).await.unwrap().unwrap().payment;
        for (document, payment) in endpoint.documents().iter().zip([None, None, Some(&paid), Some(&paid), Some(&paid)])
        {
            let data = &document["data"];
            assert_eq!((&data["user"], &data["name"]), (&"ada".into(), &"Phone".into()), "{ledger}: {document}");
            assert_eq!(data["activity"], fixture.activity.as_str(), "{ledger}");
            assert_eq!(
                data.get("payment").and_then(|id| id.as_str()),
                payment.map(String::as_str),
                "{ledger}: {document}"
            );
        }
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 0, "{ledger}: once");
    }
}

#[tokio::test]
async fn a_batch_of_events_is_read_with_as_many_statements_as_one() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 9, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let sql = Recording(&fixture.sql, RefCell::default());
        let mut statements = Vec::new();
        for orders in [0..1, 1..9] {
            let count = orders.end - orders.start;
            for n in orders {
                fixture.pending_order(n, &format!("user {n}"), 1).await;
            }
            assert_eq!(events::claim_due(&sql, LATER, 16).await.unwrap().len() as u64, count, "{ledger}");
            statements.push(sql.1.take().len());
        }
        assert_eq!(statements, [3, 3], "{ledger}: events, orders, names");
    }
}

#[tokio::test]
async fn a_failed_order_sends_an_event_too() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.set_stock(2).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        fixture.reserve(2, "bob", 1).await.unwrap();
        assert_eq!(fixture.write_batch().await.unwrap().failed, 1, "{ledger}");
        let endpoint = FakeEndpoint::default();
        deliver_all(&fixture, &endpoint, LATER).await;
        let documents = endpoint.documents();
        let failed: Vec<_> = documents.iter().filter(|document| document["type"] == "order.failed").collect();
        assert_eq!(failed.len(), 1, "{ledger}");
        assert_eq!(failed[0]["data"]["order_no"], fixture.order_no(2).to_string(), "{ledger}");
        assert_eq!(failed[0]["data"]["reason"], "no_room_in_ledger", "{ledger}");
        assert_eq!(
            (&failed[0]["data"]["user"], &failed[0]["data"]["name"]),
            (&"bob".into(), &"Phone".into()),
            "{ledger}"
        );
    }
}

#[tokio::test]
async fn a_failed_event_delays_later_events_of_its_own_order_only() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.paid_order(1, "ada").await;
        let endpoint = FakeEndpoint::default();
        endpoint.responses.borrow_mut().push((500, ""));
        let first = deliver_round(&fixture, &endpoint, LATER).await;
        assert_eq!((first.delivered, first.failed), (0, 1), "{ledger}");
        let other = fixture.pending_order(2, "bob", 1).await;
        deliver_all(&fixture, &endpoint, LATER).await;
        let ids = endpoint.event_ids();
        assert_eq!(ids.len(), 2, "{ledger}: {ids:?}");
        assert!(ids[1].contains(&other.ulid().to_string()), "{ledger}: {ids:?}");
        endpoint.clear();
        assert_eq!(deliver_all(&fixture, &endpoint, LATER.plus(4_999)).await, 0, "{ledger}: retried too early");
        assert_eq!(deliver_all(&fixture, &endpoint, LATER.plus(5_000)).await, 2, "{ledger}");
        assert_eq!(event_types(&endpoint), ["order.pending_payment", "order.paid"], "{ledger}");
        assert_eq!(endpoint.event_ids()[0], ids[0], "{ledger}: the same id at each attempt");
    }
}

#[tokio::test]
async fn retries_follow_the_specified_schedule_and_then_an_operator_can_replay() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let endpoint = FakeEndpoint::default();
        endpoint.responses.borrow_mut().extend([(500, ""); 10]);
        let mut now = LATER;
        let waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
        for wait in waits {
            assert_eq!(deliver_round(&fixture, &endpoint, now).await.failed, 1, "{ledger}");
            now = now.plus(wait * 1_000);
            assert_eq!(deliver_round(&fixture, &endpoint, now.plus(-1)).await.failed, 0, "{ledger}, {wait} s");
        }
        assert_eq!(deliver_round(&fixture, &endpoint, now).await.failed, 1, "{ledger}: the tenth");
        let failed = events::list(&fixture.sql, &EventFilter::default(), "", 200).await.unwrap();
        assert_eq!(failed.len(), 1, "{ledger}");
        let after = events::list(&fixture.sql, &EventFilter::default(), &failed[0].cursor(), 200).await.unwrap();
        assert_eq!(after, [], "{ledger}");
        assert_eq!((failed[0].attempts, failed[0].last_error.as_str()), (10, "the endpoint answered 500"));
        assert_eq!(deliver_all(&fixture, &endpoint, now.plus(1_000_000_000)).await, 0, "{ledger}: retried for ever");
        assert_eq!(events::resend(&fixture.sql, None, now).await.unwrap(), (1, false), "{ledger}");
        assert_eq!(deliver_all(&fixture, &endpoint, now).await, 1, "{ledger}");
        assert_eq!(events::resend(&fixture.sql, None, now).await.unwrap(), (0, false), "{ledger}: delivered already");
        assert_eq!(events::resend(&fixture.sql, Some(&order_no), now).await.unwrap(), (1, false), "{ledger}");
        assert_eq!(deliver_all(&fixture, &endpoint, now).await, 1, "{ledger}: one order's, delivered or not");
    }
}

#[tokio::test]
async fn deliveries_are_listed_by_state_and_type_with_their_last_attempt() {
    for ledger in LEDGERS {
        let (fixture, endpoint) = (new_fixture(ledger, 5, 1).await, FakeEndpoint::default());
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.paid_order(1, "ada").await;
        let list = async |state, event_type: &str| {
            let event_type = Some(event_type.to_owned()).filter(|text| !text.is_empty());
            let listed = events::list(&fixture.sql, &EventFilter { state, r#type: event_type }, "", 9).await.unwrap();
            listed.into_iter().map(|it| (it.r#type, it.attempts, it.last_try_at, it.last_status)).collect::<Vec<_>>()
        };
        let tried = |event_type: &str, attempts, at, status| (event_type.to_owned(), attempts, at, status);
        let never = tried("order.paid", 0, Millis(0), None);
        for (response, status) in [(500, Some(500)), (0, None)] {
            endpoint.responses.borrow_mut().push((response, ""));
            deliver_round(&fixture, &endpoint, LATER).await;
            fixture.sql.run("UPDATE events SET next_try_at = 0 WHERE attempts > 0", vec![]).await.unwrap();
            fixture.sql.run("DELETE FROM endpoints", vec![]).await.unwrap();
            let attempts = if response == 500 { 1 } else { 2 };
            let pending = tried("order.pending_payment", attempts, LATER, status);
            assert_eq!(list(EventState::Waiting, "").await, [never.clone(), pending.clone()], "{ledger}");
            assert_eq!(list(EventState::Waiting, "order.pending_payment").await, [pending], "{ledger}");
        }
        let later = LATER.plus(1);
        assert_eq!(deliver_all(&fixture, &endpoint, later).await, 2, "{ledger}");
        let paid = tried("order.paid", 1, later, Some(204));
        assert_eq!(list(EventState::Delivered, "order.paid").await, [paid], "{ledger}");
        assert_eq!(list(EventState::Delivered, "test").await, [], "{ledger}");
        assert_eq!(list(EventState::Failed, "").await, [], "{ledger}");
    }
}

#[tokio::test]
async fn a_test_of_the_endpoint_is_sent_once_and_needs_no_person() {
    for ledger in LEDGERS {
        let (fixture, endpoint) = (new_fixture(ledger, 5, 1).await, FakeEndpoint::default());
        let test = events::add_test(&fixture.sql, LATER).await.unwrap();
        assert_eq!((test.activity, test.order_no, test.state), (None, None, EventState::Waiting), "{ledger}");
        endpoint.responses.borrow_mut().push((500, ""));
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 0, "{ledger}");
        let failed = events::list(&fixture.sql, &EventFilter::default(), "", 9).await.unwrap();
        assert_eq!((failed.len(), failed[0].id.as_str(), failed[0].attempts), (1, test.id.as_str(), 1), "{ledger}");
        let inbox = inbox::load(&fixture.redis, &fixture.sql, TARGET.url, LATER, Some(0)).await.unwrap();
        assert_eq!(inbox, [], "{ledger}");
        let again = events::add_test(&fixture.sql, LATER.plus(1)).await.unwrap();
        assert_eq!(deliver_all(&fixture, &endpoint, LATER.plus(1)).await, 1, "{ledger}");
        assert_eq!(endpoint.event_ids(), [test.id, again.id], "{ledger}");
        assert_eq!(event_types(&endpoint), ["test", "test"], "{ledger}");
    }
}

#[tokio::test]
async fn an_endpoint_is_asked_again_three_times_after_a_410_and_status_429_delays_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 9, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let endpoint = FakeEndpoint::default();
        fixture.pending_order(1, "ada", 1).await;
        endpoint.responses.borrow_mut().push((429, "120"));
        assert_eq!(deliver_round(&fixture, &endpoint, LATER).await.failed, 1, "{ledger}");
        let resting = deliver_round(&fixture, &endpoint, LATER.plus(119_000)).await;
        assert_eq!(resting, DeliveryReport::default(), "{ledger}");
        assert_eq!(deliver_round(&fixture, &endpoint, LATER.plus(120_000)).await.delivered, 1, "{ledger}");

        fixture.pending_order(2, "bob", 1).await;
        fixture.pending_order(3, "cyd", 1).await;
        let mut now = LATER.plus(200_000);
        for times in 1..=3 {
            let before = endpoint.requests.borrow().len();
            endpoint.responses.borrow_mut().extend([(410, ""); 2]);
            let round = deliver_round(&fixture, &endpoint, now).await;
            assert_eq!((round.delivered, round.more), (0, false), "{ledger}");
            assert!(round.fault.unwrap().contains("an hour later"), "{ledger}: {:?}", round.fault);
            let asked = endpoint.requests.borrow().len() - before;
            assert!(asked == 1 || times == 1, "{ledger}: it is asked for one event, not {asked}");
            endpoint.responses.borrow_mut().clear();
            let resting = deliver_round(&fixture, &endpoint, now.plus(3_599_999)).await;
            assert_eq!(resting, DeliveryReport::default(), "{ledger}");
            now = now.plus(3_600_000);
        }
        let endpoint_state = async || events::load_endpoint(&fixture.sql, TARGET.url, 16).await.unwrap();
        assert_eq!((endpoint_state().await.gone, endpoint_state().await.disabled_at), (3, None), "{ledger}");
        endpoint.responses.borrow_mut().push((410, ""));
        let last = deliver_round(&fixture, &endpoint, now).await;
        assert!(last.fault.unwrap().contains("until an operator enables it"), "{ledger}");
        assert_eq!(endpoint_state().await.disabled_at, Some(now), "{ledger}");
        now = now.plus(7_200_000);
        assert_eq!(deliver_all(&fixture, &endpoint, now).await, 0, "{ledger}");

        events::save_endpoint(&fixture.sql, TARGET.url, &EventEndpoint::healthy(16)).await.unwrap();
        events::resend(&fixture.sql, None, now).await.unwrap();
        assert_eq!(deliver_all(&fixture, &endpoint, now).await, 2, "{ledger}: not all delivered");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_back_within_the_hour_gets_every_event() {
    for ledger in LEDGERS {
        let (fixture, endpoint) = (new_fixture(ledger, 9, 1).await, FakeEndpoint::default());
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.paid_order(1, "ada").await;
        endpoint.responses.borrow_mut().push((410, ""));
        assert_eq!(deliver_round(&fixture, &endpoint, LATER).await.failed, 1, "{ledger}");
        assert_eq!(deliver_all(&fixture, &endpoint, LATER.plus(3_600_000)).await, 2, "{ledger}");
        let state = events::load_endpoint(&fixture.sql, TARGET.url, 16).await.unwrap();
        assert_eq!((state.gone, state.fault()), (0, None), "{ledger}");
    }
}

#[tokio::test]
async fn concurrent_sweepers_send_each_event_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 50, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        for n in 0..40 {
            fixture.pending_order(n, &format!("user {n}"), 1).await;
        }
        let (one, two) = (FakeEndpoint::default(), FakeEndpoint::default());
        let (first, second) = tokio::join!(deliver_all(&fixture, &one, LATER), deliver_all(&fixture, &two, LATER));
        assert_eq!(first + second, 40, "{ledger}");
        let mut ids = [one.event_ids(), two.event_ids()].concat();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 40, "{ledger}");
    }
}

#[tokio::test]
async fn delivered_events_are_erased_after_a_week_and_undelivered_ones_after_a_month() {
    const DAY: i64 = 24 * 3_600 * 1_000;
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let delivered = fixture.pending_order(1, "ada", 1).await;
        deliver_all(&fixture, &FakeEndpoint::default(), LATER).await;
        let waiting = fixture.pending_order(2, "bob", 1).await;
        let stored = async |order_no| events::list_for_order(&fixture.sql, order_no).await.unwrap().len();
        assert_eq!(events::erase(&fixture.sql, NOW.plus(6 * DAY), 100).await.unwrap(), 0, "{ledger}");
        assert_eq!(events::erase(&fixture.sql, NOW.plus(7 * DAY), 100).await.unwrap(), 1, "{ledger}");
        assert_eq!((stored(&delivered).await, stored(&waiting).await), (0, 1), "{ledger}");
        assert_eq!(events::erase(&fixture.sql, NOW.plus(30 * DAY), 100).await.unwrap(), 1, "{ledger}");
        assert_eq!(stored(&waiting).await, 0, "{ledger}");
        assert_eq!(fixture.ledger_status(&waiting).await, Some(OrderStatus::PendingPayment), "{ledger}: it stays");
    }
}
