//! Events out, on both ledgers (E7): every move of an order is told once it is true, in order, under one id.

use domain::{order::Status, time::Millis};
use standardwebhooks::Webhook;
use workflows::{
    Redis, Sql,
    keys::Keys,
    ledger::events::{self, switch},
    queue::outbox::{Round, Target, deliver},
};

use crate::{
    fakes::{Endpoint, header},
    fixture::{LEDGERS, NOW, World, world},
};

const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

const TARGET: Target<'static> = Target { url: "https://shop.example/events", secrets: SECRET };

/// An hour after everything happened, and a little later each time.
const LATER: Millis = Millis(NOW.0 + 3_600_000);

async fn round<R: Redis, S: Sql>(world: &World<R, S>, endpoint: &Endpoint, now: Millis) -> Round {
    deliver(endpoint, &world.sql, TARGET, || now).await.unwrap()
}

/// Rounds until nothing is due.
async fn deliver_all<R: Redis, S: Sql>(world: &World<R, S>, endpoint: &Endpoint, now: Millis) -> usize {
    let mut delivered = 0;
    for _ in 0..100 {
        let round = round(world, endpoint, now).await;
        delivered += round.delivered;
        if round.delivered + round.failed == 0 {
            return delivered;
        }
    }
    panic!("no end of events");
}

fn types(endpoint: &Endpoint) -> Vec<String> {
    endpoint.documents().iter().map(|document| document["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_whole_life_is_told_in_order_and_signed() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 2).await;
        switch(&world.sql, true).await.unwrap();
        let order_no = world.order(1, "ada", 2).await;
        world.expire().await.unwrap();
        world.paid(&order_no, "e").await.unwrap();
        world.ask_refund(&order_no).await.unwrap();
        world.money_back(&order_no, "r").await.unwrap();
        let endpoint = Endpoint::default();
        assert_eq!(deliver_all(&world, &endpoint, LATER).await, 5, "{ledger}");
        let told = ["order.pending_payment", "order.expired", "order.paid", "order.refunding", "order.refunded"];
        assert_eq!(types(&endpoint), told, "{ledger}");
        for request in endpoint.seen.borrow().iter() {
            assert_eq!((request.method, request.url.as_str()), ("POST", TARGET.url));
            let (id, timestamp) = (header(request, "webhook-id"), header(request, "webhook-timestamp"));
            let signature = Webhook::new(SECRET).unwrap().sign(id, timestamp.parse().unwrap(), request.body.as_bytes());
            assert_eq!(header(request, "webhook-signature"), signature.unwrap(), "{ledger}");
            assert_eq!(timestamp, (LATER.0 / 1000).to_string(), "the time of the attempt");
        }
        let first = &endpoint.documents()[0];
        assert_eq!(first["timestamp"], NOW.to_string(), "the time at which it happened");
        assert_eq!(first["data"]["status"], "pending_payment", "the order as it was then");
        assert_eq!(first["data"]["order_no"], order_no.to_string());
        assert_eq!((&first["data"]["quantity"], &first["data"]["amount"]), (&2.into(), &200.into()));
        assert_eq!(deliver_all(&world, &endpoint, LATER).await, 0, "{ledger}: once");
    }
}

#[tokio::test]
async fn without_an_endpoint_nothing_piles_up() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 2).await;
        switch(&world.sql, false).await.unwrap();
        let order_no = world.order(1, "ada", 2).await;
        world.paid(&order_no, "e").await.unwrap();
        assert_eq!(events::waiting(&world.sql).await.unwrap(), 0, "{ledger}");
        assert!(events::of_order(&world.sql, &order_no).await.unwrap().is_empty(), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_failed_is_told_too() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        switch(&world.sql, true).await.unwrap();
        let stock = Keys::of(&world.activity).stock(&world.sku);
        world.redis.command("SET", vec![stock.into(), "2".into()]).await.unwrap();
        world.reserve(1, "ada", 1).await.unwrap();
        world.reserve(2, "bob", 1).await.unwrap();
        assert_eq!(world.write().await.unwrap().failed, 1, "{ledger}");
        let endpoint = Endpoint::default();
        deliver_all(&world, &endpoint, LATER).await;
        let documents = endpoint.documents();
        let failed: Vec<_> = documents.iter().filter(|document| document["type"] == "order.failed").collect();
        assert_eq!(failed.len(), 1, "{ledger}");
        assert_eq!(failed[0]["data"]["order_no"], world.order_no(2).to_string(), "{ledger}");
        assert_eq!(failed[0]["data"]["reason"], "no_room_in_ledger", "{ledger}");
    }
}

#[tokio::test]
async fn a_later_event_waits_for_an_earlier_one_that_failed_and_other_orders_do_not() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        switch(&world.sql, true).await.unwrap();
        world.paid_order(1, "ada").await;
        let endpoint = Endpoint::default();
        endpoint.answers.borrow_mut().push((500, ""));
        let first = round(&world, &endpoint, LATER).await;
        assert_eq!((first.delivered, first.failed), (0, 1), "{ledger}");
        let other = world.order(2, "bob", 1).await;
        deliver_all(&world, &endpoint, LATER).await;
        let ids = endpoint.ids();
        assert_eq!(ids.len(), 2, "{ledger}: {ids:?}");
        assert!(ids[1].contains(&other.ulid().to_string()), "{ledger}: {ids:?}");
        endpoint.forget();
        assert_eq!(deliver_all(&world, &endpoint, LATER.plus(4_999)).await, 0, "{ledger}: not before its time");
        assert_eq!(deliver_all(&world, &endpoint, LATER.plus(5_000)).await, 2, "{ledger}");
        assert_eq!(types(&endpoint), ["order.pending_payment", "order.paid"], "{ledger}");
        assert_eq!(endpoint.ids()[0], ids[0], "{ledger}: the same id at each attempt");
    }
}

#[tokio::test]
async fn the_specs_schedule_is_kept_and_then_an_operator_may_replay() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        switch(&world.sql, true).await.unwrap();
        let order_no = world.order(1, "ada", 1).await;
        let endpoint = Endpoint::default();
        endpoint.answers.borrow_mut().extend([(500, ""); 10]);
        let mut now = LATER;
        let waits = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];
        for wait in waits {
            assert_eq!(round(&world, &endpoint, now).await.failed, 1, "{ledger}");
            assert_eq!(round(&world, &endpoint, now.plus(wait * 1_000 - 1)).await.failed, 0, "{ledger}, {wait} s");
            now = now.plus(wait * 1_000);
        }
        assert_eq!(round(&world, &endpoint, now).await.failed, 1, "{ledger}: the tenth");
        let failed = events::failed(&world.sql).await.unwrap();
        assert_eq!(failed.len(), 1, "{ledger}");
        assert_eq!((failed[0].attempts, failed[0].last_error.as_str()), (10, "the endpoint answered 500"));
        assert_eq!(deliver_all(&world, &endpoint, now.plus(1_000_000_000)).await, 0, "{ledger}: given up");
        assert_eq!(events::replay(&world.sql, None, now).await.unwrap(), 1, "{ledger}");
        assert_eq!(deliver_all(&world, &endpoint, now).await, 1, "{ledger}");
        assert_eq!(events::replay(&world.sql, None, now).await.unwrap(), 0, "{ledger}: nothing failed any more");
        assert_eq!(events::replay(&world.sql, Some(&order_no), now).await.unwrap(), 1, "{ledger}");
        assert_eq!(deliver_all(&world, &endpoint, now).await, 1, "{ledger}: one order's, delivered or not");
    }
}

#[tokio::test]
async fn an_endpoint_that_is_gone_gets_nothing_more_and_one_that_is_busy_gets_its_rest() {
    for ledger in LEDGERS {
        let world = world(ledger, 9, 1).await;
        switch(&world.sql, true).await.unwrap();
        let endpoint = Endpoint::default();
        world.order(1, "ada", 1).await;
        endpoint.answers.borrow_mut().push((429, "120"));
        assert_eq!(round(&world, &endpoint, LATER).await.failed, 1, "{ledger}");
        assert_eq!(round(&world, &endpoint, LATER.plus(119_000)).await, Round::default(), "{ledger}");
        assert_eq!(round(&world, &endpoint, LATER.plus(120_000)).await.delivered, 1, "{ledger}");

        world.order(2, "bob", 1).await;
        endpoint.answers.borrow_mut().push((410, ""));
        assert_eq!(round(&world, &endpoint, LATER.plus(200_000)).await.failed, 1, "{ledger}");
        world.order(3, "cyd", 1).await;
        assert_eq!(deliver_all(&world, &endpoint, LATER.plus(1_000_000)).await, 0, "{ledger}");
        assert!(events::endpoint(&world.sql, TARGET.url, 16).await.unwrap().disabled_at.is_some(), "{ledger}");

        let well = events::Endpoint { disabled_at: None, rest_until: Millis(0), pace: 16 };
        events::set_endpoint(&world.sql, TARGET.url, &well).await.unwrap();
        events::replay(&world.sql, None, LATER).await.unwrap();
        assert_eq!(deliver_all(&world, &endpoint, LATER.plus(1_000_000)).await, 2, "{ledger}: nothing was lost");
    }
}

#[tokio::test]
async fn two_sweepers_at_once_send_an_event_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 50, 1).await;
        switch(&world.sql, true).await.unwrap();
        for n in 0..40 {
            world.order(n, &format!("user {n}"), 1).await;
        }
        let (one, two) = (Endpoint::default(), Endpoint::default());
        let (first, second) = tokio::join!(deliver_all(&world, &one, LATER), deliver_all(&world, &two, LATER));
        assert_eq!(first + second, 40, "{ledger}");
        let mut ids = [one.ids(), two.ids()].concat();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 40, "{ledger}");
    }
}

#[tokio::test]
async fn what_was_delivered_is_forgotten_after_a_week_and_what_was_not_after_a_month() {
    const DAY: i64 = 24 * 3_600 * 1_000;
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        switch(&world.sql, true).await.unwrap();
        let delivered = world.order(1, "ada", 1).await;
        deliver_all(&world, &Endpoint::default(), LATER).await;
        let waiting = world.order(2, "bob", 1).await;
        let kept = async |order_no| events::of_order(&world.sql, order_no).await.unwrap().len();
        assert_eq!(events::erase(&world.sql, NOW.plus(6 * DAY), 100).await.unwrap(), 0, "{ledger}");
        assert_eq!(events::erase(&world.sql, NOW.plus(7 * DAY), 100).await.unwrap(), 1, "{ledger}");
        assert_eq!((kept(&delivered).await, kept(&waiting).await), (0, 1), "{ledger}");
        assert_eq!(events::erase(&world.sql, NOW.plus(30 * DAY), 100).await.unwrap(), 1, "{ledger}");
        assert_eq!(kept(&waiting).await, 0, "{ledger}");
        assert_eq!(world.status(&waiting).await, Some(Status::PendingPayment), "{ledger}: the order stays");
    }
}
