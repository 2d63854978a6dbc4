//! The ledger's own constraints: the last line, whatever Redis says (C5; I2, I3).

use stampede_domain::order::Status;
use stampede_sale::{
    Redis, Sql,
    hot::reserve::Outcome,
    keys::Keys,
    ledger::{orders, schema},
    operate::Operated,
};

use crate::world::{LEDGERS, NOW, world};

#[tokio::test]
async fn migrating_again_changes_nothing() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        schema::migrate(&world.sql).await.unwrap();
        assert_eq!(schema::version(&world.sql).await.unwrap(), schema::wanted(world.sql.dialect()));
    }
}

#[tokio::test]
async fn a_lying_redis_cannot_oversell() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let stock = Keys::of(&world.activity).stock(&world.sku);
        world.redis.command("SET", vec![stock.into(), "100".into()]).await.unwrap();
        for n in 0..10 {
            let decision = world.reserve(n, &format!("user {n}"), 1).await.unwrap();
            assert!(matches!(decision.outcome, Outcome::Queued(_)));
        }
        let written = world.write().await.unwrap();
        assert_eq!((written.written, written.failed), (3, 7), "{ledger}");
        for n in 3..10 {
            assert_eq!(world.hot_status(&world.order_no(n)).await, Some(Status::Failed), "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_lying_redis_cannot_pass_a_buyers_limit() {
    for ledger in LEDGERS {
        let world = world(ledger, 10, 1).await;
        for n in 0..3 {
            world.reserve(n, "ada", 1).await.unwrap();
            let holders = Keys::of(&world.activity).holders(&world.sku);
            world.redis.command("DEL", vec![holders.into()]).await.unwrap();
        }
        let written = world.write().await.unwrap();
        assert_eq!((written.written, written.failed), (1, 2), "{ledger}");
    }
}

#[tokio::test]
async fn an_illegal_move_and_a_deletion_are_refused() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        for statement in [
            "UPDATE orders SET status = 'refunded' WHERE order_no = ?1",
            "UPDATE orders SET live = 0 WHERE order_no = ?1",
            "UPDATE orders SET status = 'paid', live = 0 WHERE order_no = ?1",
            "DELETE FROM orders WHERE order_no = ?1",
        ] {
            let refused = world.sql.run(statement, vec![order_no.to_string().into()]).await;
            assert!(refused.is_err(), "{ledger}: {statement}");
        }
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment));
    }
}

#[tokio::test]
async fn a_total_never_goes_below_what_is_held_and_sold() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        for n in 0..4 {
            world.order(n, &format!("user {n}"), 1).await;
        }
        let restock = async |by| world.desk().restock(&world.activity, &world.sku, by).await.unwrap();
        assert!(matches!(restock(-2).await, Operated::Conflict(_)), "{ledger}");
        assert_eq!(world.units().await, (1, 4, 0), "{ledger}");
        assert!(matches!(restock(-1).await, Operated::Done(_)), "{ledger}");
        assert_eq!(world.units().await, (0, 4, 0), "{ledger}");
        assert!(matches!(restock(6).await, Operated::Done(_)), "{ledger}");
        assert_eq!(world.units().await, (6, 4, 0), "{ledger}");
    }
}

#[tokio::test]
async fn two_writers_write_an_order_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 100, 1).await;
        for n in 0..100 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        // One took the messages and died; the other gets them again, and so does the first one's ghost.
        let taken = stampede_sale::write::tick(&world.redis, &world.sql, &world.activity, NOW).await.unwrap();
        assert_eq!(taken.written, 100);
        let again = stampede_sale::write::tick_redelivered(&world.redis, &world.sql, &world.activity, NOW, 0).await;
        assert_eq!(again.unwrap().taken, 0, "{ledger}: everything was acknowledged");
        assert_eq!(world.units().await, (0, 100, 0), "{ledger}");
        let known = orders::load_many(&world.sql, &[world.order_no(3), world.order_no(4)]).await.unwrap();
        assert_eq!(known.len(), 2);
    }
}

#[tokio::test]
async fn a_users_orders_come_newest_first_in_pages() {
    for ledger in LEDGERS {
        let world = world(ledger, 100, 100).await;
        for n in 0..5 {
            world.order(n, "ada", 1).await;
        }
        world.order(9, "bob", 1).await;
        let user = stampede_domain::ids::UserId::parse("ada").unwrap();
        let mut seen = Vec::new();
        let mut before = None;
        loop {
            let page = orders::of_user(&world.sql, &user, before.as_ref(), 2).await.unwrap();
            let mine = page.iter().filter(|order| order.activity() == &world.activity);
            seen.extend(mine.map(|order| (order.created_at, order.order_no.clone())));
            match page.last() {
                Some(last) => before = Some(last.order_no.clone()),
                None => break,
            }
        }
        assert_eq!(seen.len(), 5, "{ledger}");
        assert!(seen.is_sorted_by(|a, b| a > b), "{ledger}: {seen:?}");
    }
}
