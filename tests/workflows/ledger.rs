//! The ledger's own constraints: the last line, whatever Redis says (C5; I2, I3).

use domain::{order::Status, time::Millis};
use workflows::{
    Redis, Sql,
    hot::reserve::Outcome,
    keys::Keys,
    ledger::{orders, schema},
    operator::activities::OperationOutcome,
    settle::{OrderState, Settled, Transition, apply_transitions},
};

use crate::{
    epochs::{pause, resume},
    fixture::{LEDGERS, NOW, world},
};

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
async fn a_unit_that_redis_has_forgotten_is_sold_to_one_buyer_and_no_more() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        world.order(1, "ada", 1).await;
        world.order(2, "bob", 1).await;
        // As after a lost second: Redis has never heard of the second order.
        let keys = Keys::of(&world.activity);
        for field in ["held:phone", "pending:phone"] {
            let stats = vec![keys.named("stats").into(), field.into(), "-1".into()];
            world.redis.command("HINCRBY", stats).await.unwrap();
        }
        world.redis.command("INCR", vec![keys.stock(&world.sku).into()]).await.unwrap();
        assert!(matches!(world.reserve(3, "cyd", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
        assert_eq!(world.write().await.unwrap().failed, 1, "{ledger}");
        assert!(matches!(world.reserve(4, "dee", 1).await.unwrap().outcome, Outcome::SoldOut(_)), "{ledger}");
        assert_eq!(world.units().await, (0, 1, 1), "{ledger}: no drift");
        pause(&world).await;
        resume(&world).await;
        assert!(matches!(world.reserve(4, "dee", 1).await.unwrap().outcome, Outcome::SoldOut(_)), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_somebody_else_wrote_does_not_fail_any_more() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        let standing = OrderState {
            epoch: 1,
            status: Status::Failed,
            live: false,
            pay_by: Millis(0),
            paid_at: Millis(0),
            reason: "undeliverable".to_owned(),
        };
        let late = Transition { order_no: order_no.clone(), state: standing, stream_id: String::new() };
        assert_eq!(
            apply_transitions(&world.redis, &world.activity, &[late]).await.unwrap(),
            [Settled::Stale],
            "{ledger}"
        );
        assert_eq!(world.hot_status(&order_no).await, Some(Status::PendingPayment), "{ledger}");
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
        let restock = async |by| world.desk().restock(&world.activity, &world.sku, by, None).await.unwrap();
        for by in [-2, 1_000_000_000, i64::MAX] {
            assert!(matches!(restock(by).await, OperationOutcome::Conflict(_)), "{ledger}: {by}");
        }
        assert_eq!(world.units().await, (1, 4, 0), "{ledger}");
        assert!(matches!(restock(-1).await, OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(world.units().await, (0, 4, 0), "{ledger}");
        assert!(matches!(restock(6).await, OperationOutcome::Done(_)), "{ledger}");
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
        let taken = workflows::queue::order_writer::tick(&world.redis, &world.sql, &world.activity, NOW).await.unwrap();
        assert_eq!(taken.written, 100);
        let again =
            workflows::queue::order_writer::tick_redelivered(&world.redis, &world.sql, &world.activity, NOW, 0).await;
        assert_eq!(again.unwrap().taken, 0, "{ledger}: everything was acknowledged");
        assert_eq!(world.units().await, (0, 100, 0), "{ledger}");
        let known = orders::load_many(&world.sql, &[&world.order_no(3), &world.order_no(4)]).await.unwrap();
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
        let user = domain::ids::UserId::parse("ada").unwrap();
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

#[tokio::test]
async fn a_failed_order_is_a_dead_letter_and_can_be_put_back() {
    use workflows::queue::dead_letters::{self, Replayed};
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let stock = Keys::of(&world.activity).stock(&world.sku);
        world.redis.command("SET", vec![stock.into(), "2".into()]).await.unwrap();
        world.reserve(1, "ada", 1).await.unwrap();
        world.reserve(2, "bob", 1).await.unwrap();
        assert_eq!(world.write().await.unwrap().failed, 1, "{ledger}");
        let lost = world.order_no(2);
        let letter = dead_letters::load(&world.sql, &lost).await.unwrap().expect("a dead letter");
        assert_eq!(letter.reason, "no_room_in_ledger", "{ledger}");
        let refused = dead_letters::replay(&world.redis, &world.sql, &lost, NOW).await.unwrap();
        assert_eq!(refused, Replayed::Refused("sold_out".to_owned()), "{ledger}");
        world.desk().restock(&world.activity, &world.sku, 1, None).await.unwrap();
        for expected in [Replayed::Queued, Replayed::Refused("same".to_owned())] {
            assert_eq!(dead_letters::replay(&world.redis, &world.sql, &lost, NOW).await.unwrap(), expected, "{ledger}");
        }
        world.write().await.unwrap();
        assert_eq!(world.status(&lost).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.units().await, (0, 2, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_message_that_nobody_can_read_holds_up_nothing() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let stream = Keys::of(&world.activity).named("orders");
        world.redis.command("XADD", vec![stream.into(), "*".into(), "o".into(), "nonsense".into()]).await.unwrap();
        world.reserve(1, "ada", 1).await.unwrap();
        assert_eq!(world.write().await.unwrap().written, 1, "{ledger}");
        let letters = workflows::queue::dead_letters::list(&world.sql, "", 200).await.unwrap();
        let mine = letters.iter().filter(|letter| letter.order_no.starts_with(world.activity.as_str()));
        assert_eq!(mine.map(|letter| letter.message.as_str()).collect::<Vec<_>>(), ["nonsense"], "{ledger}");
    }
}

#[tokio::test]
async fn a_redis_that_lost_everything_is_rebuilt_from_the_ledger() {
    use domain::activity::State;
    use workflows::recovery::rebuild::{Rebuilt, rebuild};
    for ledger in LEDGERS {
        let world = world(ledger, 10, 3).await;
        let paid = world.order(1, "ada", 2).await;
        world.paid(&paid, "e").await.unwrap();
        world.order(2, "bob", 1).await;
        let gone = world.order(3, "cyd", 3).await;
        world.cancel(&gone).await.unwrap();
        let again =
            async || rebuild(&world.redis, &world.sql, &world.activity, crate::fixture::SECRET, NOW).await.unwrap();
        assert_eq!(again().await, Rebuilt::Open, "{ledger}: not while it is open");
        world.desk().set_state(&world.activity, State::Paused).await.unwrap();
        let before = world.units().await;
        let keys = Keys::of(&world.activity);
        for key in ["gate", "stats", "queue", "winners", "orders", "stock:phone", "holders:phone"] {
            world.redis.command("DEL", vec![keys.named(key).into()]).await.unwrap();
        }
        for n in 1..=3 {
            world.redis.command("DEL", vec![keys.order(world.order_no(n).ulid()).into()]).await.unwrap();
        }
        assert_eq!(again().await, Rebuilt::Done { orders: 3, epoch: 2 }, "{ledger}");
        assert_eq!(world.units().await, before, "{ledger}");
        assert_eq!(again().await, Rebuilt::Done { orders: 3, epoch: 3 }, "{ledger}: doing it again does no harm");
        assert_eq!(world.units().await, before, "{ledger}");
        world.desk().set_state(&world.activity, State::Published).await.unwrap();
        assert!(
            matches!(world.reserve(3, "cyd", 3).await.unwrap().outcome, Outcome::Queued(_)),
            "a used ticket replays"
        );
        assert_eq!(world.units().await, before, "{ledger}: and takes nothing");
        world.reserve(9, "ada", 2).await.unwrap();
        assert_eq!(world.units().await, before, "{ledger}: limits are known again");
    }
}

#[tokio::test]
async fn an_unpaid_order_is_a_strike() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 5).await;
        let user = domain::ids::UserId::parse(&format!("striker of {}", world.activity)).unwrap();
        for n in 0..3 {
            world.order(n, user.as_str(), 1).await;
        }
        world.expire().await.unwrap();
        assert_eq!(workflows::operator::bans::strikes(&world.sql, &user).await.unwrap().0, 3, "{ledger}");
        workflows::operator::bans::forgive(&world.sql, &user).await.unwrap();
        assert_eq!(workflows::operator::bans::strikes(&world.sql, &user).await.unwrap().0, 0, "{ledger}");
    }
}

#[tokio::test]
async fn a_ban_holds_in_every_sale_and_can_be_lifted() {
    use domain::{ids::UserId, problem::Code};
    use workflows::operator::bans::{self, Banned};
    let first = world("sqlite", 5, 1).await;
    let who = Banned::User(UserId::parse("mallory").unwrap());
    bans::ban(&first.redis, &first.sql, &who, domain::time::Millis(4_000_000_000_000), "robot").await.unwrap();
    assert_eq!(first.reserve(1, "mallory", 1).await.unwrap().outcome, Outcome::Refused(Code::Banned, 0));
    assert!(matches!(first.reserve(2, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)));
    bans::lift(&first.redis, &first.sql, &who).await.unwrap();
    assert!(matches!(first.reserve(1, "mallory", 1).await.unwrap().outcome, Outcome::Queued(_)));
}
