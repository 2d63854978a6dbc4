//! Tests of the list of a buyer's orders: those of the ledger, and those that are not written to it (D6).

use std::{cell::Cell, time::Duration};

use domain::{
    activity::LineMode,
    ids::{ActivityId, OrderNo, UserId},
    order::{Order, OrderStatus},
};
use orders::order_list::{self, Page};
use sale::{
    admission::{Endpoint, MAX_OPEN_TICKETS, Visitor, precheck},
    ledger::activities,
    line::{self, Leaver},
};
use stores::{
    Redis, Sql, StoreError,
    keys::Keys,
    ports::{RedisArg, RedisValue},
};

use crate::{
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    stores::{CountingRedis, NoRedis, RealRedis},
};

/// Notes ticket `n` as the admission of a user does.
async fn admit(fixture: &RealFixture, user: &str, n: u64) {
    let visitor = Visitor {
        activity: fixture.activity.clone(),
        user: UserId::parse(user).unwrap(),
        ip: "192.0.2.1".to_owned(),
        counts: Vec::new(),
    };
    let endpoint = Endpoint::Ticket(fixture.order_no(n).ulid());
    assert!(precheck(&fixture.redis, &visitor, endpoint).await.unwrap().outcome.is_ok());
}

/// Admits a user with ticket `n`, and reserves one unit with it.
async fn queue(fixture: &RealFixture, user: &str, n: u64) -> OrderNo {
    admit(fixture, user, n).await;
    fixture.reserve(n, user, 1).await.unwrap();
    fixture.order_no(n)
}

async fn list(fixture: &RealFixture, user: &str, page: Page<'_>) -> Vec<Order> {
    let activities = activities::list_lately_on_sale(&fixture.sql, NOW).await.unwrap();
    let user = UserId::parse(user).unwrap();
    let (orders, unread) = order_list::list(&fixture.redis, &fixture.sql, &activities, &user, page, NOW).await.unwrap();
    assert!(unread.is_empty(), "{unread:?}");
    orders
}

/// Other activities, and then the fixture's.
fn others_and_own(fixture: &RealFixture, others: usize) -> Vec<ActivityId> {
    let others = (0..others).map(|n| ActivityId::parse(&format!("other-{n}")).unwrap());
    others.chain([fixture.activity.clone()]).collect()
}

fn numbers(orders: Vec<Order>) -> Vec<OrderNo> {
    orders.into_iter().map(|order| order.order_no).collect()
}

async fn statuses(fixture: &RealFixture, user: &str) -> Vec<(OrderNo, OrderStatus)> {
    let orders = list(fixture, user, Page { before: None, limit: 100 }).await;
    orders.into_iter().map(|order| (order.order_no, order.status)).collect()
}

#[tokio::test]
async fn an_order_is_listed_once_before_and_after_it_is_written() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 10).await;
        let order_no = queue(&fixture, "ada", 1).await;
        admit(&fixture, "ada", 2).await;
        queue(&fixture, "bob", 3).await;
        assert_eq!(statuses(&fixture, "ada").await, [(order_no.clone(), OrderStatus::Queued)], "{ledger}");
        let second = list(&fixture, "ada", Page { before: None, limit: 1 }).await.remove(0);
        assert_eq!((second.sku, second.quantity, second.money.amount), (fixture.sku.clone(), 1, 100), "{ledger}");
        fixture.write_batch().await.unwrap();
        assert_eq!(statuses(&fixture, "ada").await, [(order_no.clone(), OrderStatus::PendingPayment)], "{ledger}");
        fixture.cancel(&order_no).await.unwrap();
        assert_eq!(statuses(&fixture, "ada").await, [(order_no, OrderStatus::Cancelled)], "{ledger}");
    }
}

#[tokio::test]
async fn queued_and_written_orders_are_one_sequence_of_pages() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 20, 20).await;
        let mut created = Vec::new();
        for n in 0..3 {
            created.push(queue(&fixture, "ada", n).await);
        }
        // The orders of the second activity are newer, and the first of them are written.
        fixture.publish_another(|_| {}).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        for n in 0..4 {
            created.push(queue(&fixture, "ada", n).await);
            if n == 1 {
                fixture.write_batch().await.unwrap();
            }
        }
        created.reverse();
        for limit in [1, 2, 3, 100] {
            let mut listed: Vec<OrderNo> = Vec::new();
            loop {
                let page = list(&fixture, "ada", Page { before: listed.last(), limit }).await;
                assert!(page.len() <= limit as usize, "{ledger}");
                if page.is_empty() {
                    break;
                }
                listed.extend(numbers(page));
            }
            assert_eq!(listed, created, "{ledger}: pages of {limit}");
        }
        let other = fixture.order_no(99);
        assert_eq!(list(&fixture, "ada", Page { before: Some(&other), limit: 9 }).await, [], "{ledger}: no such order");
        assert_eq!(list(&fixture, "bob", Page { before: Some(&created[0]), limit: 9 }).await, [], "{ledger}: not his");
    }
}

#[tokio::test]
async fn queued_orders_cost_a_call_for_each_open_activity_and_one_more_where_the_user_has_tickets() {
    let fixture = new_fixture("sqlite", 10, 10).await;
    let order_no = queue(&fixture, "ada", 1).await;
    let activities = others_and_own(&fixture, 19);
    let redis = CountingRedis(&fixture.redis, Cell::new(0));
    let (user, page) = (UserId::parse("ada").unwrap(), Page { before: None, limit: 9 });
    let (orders, _) = order_list::list(&redis, &fixture.sql, &activities, &user, page, NOW).await.unwrap();
    assert_eq!(numbers(orders), [order_no]);
    // The first call of a script may find that Redis has not loaded it.
    assert!((21..=22).contains(&redis.1.get()), "{} calls", redis.1.get());
}

#[tokio::test]
async fn a_failed_order_is_listed() {
    let fixture = new_fixture("sqlite", 1, 2).await;
    let order_no = queue(&fixture, "ada", 1).await;
    // The ledger has no room for it.
    fixture.sql.run("UPDATE skus SET total = 0", Vec::new()).await.unwrap();
    fixture.write_batch().await.unwrap();
    assert_eq!(statuses(&fixture, "ada").await, [(order_no, OrderStatus::Failed)]);
}

#[tokio::test]
async fn the_latest_tickets_of_a_user_are_noted_for_a_while() {
    let fixture = new_fixture("sqlite", 100, 100).await;
    for n in 0..=u64::try_from(MAX_OPEN_TICKETS).unwrap() {
        // Redis's clock orders the notes.
        tokio::time::sleep(Duration::from_millis(2)).await;
        queue(&fixture, "ada", n).await;
    }
    let listed = statuses(&fixture, "ada").await;
    assert_eq!(listed.len(), usize::try_from(MAX_OPEN_TICKETS).unwrap());
    assert!(listed.iter().all(|(order_no, _)| *order_no != fixture.order_no(0)), "the first is forgotten");
    let left = fixture.run_redis(&["PTTL", &Keys::of(&fixture.activity).tickets(&UserId::parse("ada").unwrap())]).await;
    assert!(matches!(left[..], [RedisValue::Int(left)] if left > 40 * 60_000 && left <= 100 * 60_000), "{left:?}");
}

/// A Redis that does not answer where an activity is concerned.
pub struct WithoutActivity<'a>(pub &'a RealRedis, pub &'a ActivityId);

impl Redis for WithoutActivity<'_> {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let keys = Keys::of(self.1);
        match args.iter().any(|arg| arg.starts_with(keys.prefix().as_bytes())) {
            true => NoRedis.command(name, args).await,
            false => self.0.command(name, args).await,
        }
    }
}

#[tokio::test]
async fn an_activity_that_redis_fails_on_is_named_and_the_orders_of_the_other_are_listed() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 10, 10).await;
        let written = queue(&fixture, "ada", 1).await;
        fixture.write_batch().await.unwrap();
        queue(&fixture, "ada", 2).await;
        let away = fixture.publish_another(|_| {}).await;
        let queued = queue(&fixture, "ada", 3).await;
        let (user, page) = (UserId::parse("ada").unwrap(), Page { before: None, limit: 9 });
        let (redis, activities) = (WithoutActivity(&fixture.redis, &away), [away.clone(), fixture.activity.clone()]);
        let (orders, unread) = order_list::list(&redis, &fixture.sql, &activities, &user, page, NOW).await.unwrap();
        assert_eq!((numbers(orders), unread), (vec![queued, written], vec![away.clone()]), "{ledger}");
    }
}

#[tokio::test]
async fn without_redis_the_list_has_what_the_ledger_has_and_names_the_first_activities() {
    let fixture = new_fixture("sqlite", 10, 10).await;
    let written = queue(&fixture, "ada", 1).await;
    fixture.write_batch().await.unwrap();
    let (user, page) = (UserId::parse("ada").unwrap(), Page { before: None, limit: 9 });
    let activities = others_and_own(&fixture, 20);
    let (orders, unread) = order_list::list(&NoRedis, &fixture.sql, &activities, &user, page, NOW).await.unwrap();
    assert_eq!((numbers(orders), &unread[..]), (vec![written], &activities[..20]));
}

#[tokio::test]
async fn who_waits_in_a_line_sees_their_place_also_without_a_noted_ticket() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        fixture.change_spec(|spec| (spec.line.mode, spec.line.max_units) = (LineMode::Waitlist, Some(5))).await;
        for (user, n) in [("ada", 1), ("bob", 2), ("cyd", 3)] {
            fixture.reserve(n, user, 1).await.unwrap();
        }
        let listed = list(&fixture, "cyd", Page { before: None, limit: 100 }).await;
        let places: Vec<_> = listed.iter().map(|order| (order.status, order.ahead)).collect();
        assert_eq!(places, [(OrderStatus::Waiting, Some(1))], "{ledger}");
        // How a wait ended, too.
        line::leave(&fixture.redis, &listed[0], Leaver::Operator).await.unwrap();
        let listed = list(&fixture, "cyd", Page { before: None, limit: 100 }).await;
        let ends: Vec<_> = listed.iter().map(|order| (order.status, order.reason.as_deref())).collect();
        assert_eq!(ends, [(OrderStatus::Cancelled, Some("removed_by_operator"))], "{ledger}");
        // And an offer before it is written.
        fixture.reserve(4, "dan", 1).await.unwrap();
        fixture.write_batch().await.unwrap();
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        let listed = list(&fixture, "bob", Page { before: None, limit: 100 }).await;
        assert_eq!(listed.iter().map(|order| order.status).collect::<Vec<_>>(), [OrderStatus::Queued], "{ledger}");
    }
}
