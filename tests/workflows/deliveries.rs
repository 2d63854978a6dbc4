//! What the stream does to messages: late, twice, out of order, again and again (D3, D4; I4, I7).

use std::cell::Cell;

use domain::{order::Status, time::Millis};
use workflows::{
    Redis, Sql, StoreError,
    keys::Keys,
    ledger::activities,
    operator::activities::OperationOutcome,
    ports::{Dialect, Item, Value},
    queue::{
        dead_letters,
        order_writer::{self, BATCH, MAX_DELIVERIES},
    },
};

use crate::{
    fixture::{LEDGERS, NOW, World, world},
    stores::{RealLedger, RealRedis},
};

type Real = World<RealRedis, RealLedger>;

/// A ledger that chokes on statements about somebody, before or after they took effect, or is away.
struct Choking<'a> {
    sql: &'a RealLedger,
    on: &'static str,
    swallows: bool,
    away: Cell<bool>,
}

impl Sql for Choking<'_> {
    fn dialect(&self) -> Dialect {
        self.sql.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let about = |value: &Value| matches!(value, Value::Text(text) if text.contains(self.on));
        if self.away.get() || (statement.starts_with("INSERT INTO orders") && params.iter().any(about)) {
            if self.swallows {
                self.sql.run(statement, params).await?;
            }
            return Err(StoreError::LedgerUnavailable("choked".to_owned()));
        }
        self.sql.run(statement, params).await
    }
}

#[tokio::test]
async fn a_message_that_can_never_be_written_dies_after_some_deliveries_and_takes_nobody_along() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        for (n, user) in ["ada", "poison", "cyd"].into_iter().enumerate() {
            world.reserve(n as u64, user, 1).await.unwrap();
        }
        let sql = Choking { sql: &world.sql, on: "poison", swallows: false, away: Cell::new(false) };
        assert!(order_writer::tick(&world.redis, &sql, &world.activity, NOW).await.is_err(), "{ledger}");
        let again = async || order_writer::tick_redelivered(&world.redis, &sql, &world.activity, NOW, 0).await;
        for delivery in 2..=MAX_DELIVERIES {
            assert!(again().await.is_err(), "{ledger}: delivery {delivery}");
            assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap().len(), 0, "{ledger}");
        }
        let last = again().await.unwrap();
        assert_eq!((last.written, last.failed), (2, 1), "{ledger}");
        let letter = dead_letters::load(&world.sql, &world.order_no(1)).await.unwrap().expect("a dead letter");
        assert_eq!(letter.reason, "undeliverable", "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(1)).await, Some(Status::Failed), "{ledger}");
        assert_eq!(world.units().await, (3, 2, 0), "{ledger}");
        // An operator who has mended the ledger puts it back.
        dead_letters::replay(&world.redis, &world.sql, &world.order_no(1), NOW).await.unwrap();
        world.write().await.unwrap();
        assert_eq!(world.units().await, (2, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_was_written_without_an_answer_is_never_taken_for_failed() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        world.reserve(0, "poison", 1).await.unwrap();
        let sql = Choking { sql: &world.sql, on: "poison", swallows: true, away: Cell::new(false) };
        assert!(order_writer::tick(&world.redis, &sql, &world.activity, NOW).await.is_err(), "{ledger}");
        let again = async || order_writer::tick_redelivered(&world.redis, &sql, &world.activity, NOW, 0).await;
        for delivery in 2..=MAX_DELIVERIES {
            assert!(again().await.is_err(), "{ledger}: delivery {delivery}");
        }
        let last = again().await.unwrap();
        assert_eq!((last.taken, last.failed), (1, 0), "{ledger}");
        assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap().len(), 0, "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(0)).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.units().await, (4, 1, 0), "{ledger}");
        assert!(messages(&world).await.is_empty(), "{ledger}");
    }
}

#[tokio::test]
async fn a_ledger_that_is_away_for_long_kills_no_message() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        for n in 0..3 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let sql = Choking { sql: &world.sql, on: "nobody", swallows: false, away: Cell::new(true) };
        assert!(order_writer::tick(&world.redis, &sql, &world.activity, NOW).await.is_err(), "{ledger}");
        for _ in 0..3 * MAX_DELIVERIES {
            let again = order_writer::tick_redelivered(&world.redis, &sql, &world.activity, NOW, 0).await;
            assert!(again.is_err(), "{ledger}");
        }
        sql.away.set(false);
        let last = order_writer::tick_redelivered(&world.redis, &sql, &world.activity, NOW, 0).await.unwrap();
        assert_eq!((last.written, last.failed), (3, 0), "{ledger}");
        assert_eq!(world.units().await, (2, 3, 0), "{ledger}");
    }
}

/// The texts of all messages in the stream.
async fn messages(world: &Real) -> Vec<Vec<u8>> {
    let stream = Keys::of(&world.activity).named("orders");
    let items = world.redis.command("XRANGE", vec![stream.into(), "-".into(), "+".into()]).await.unwrap();
    items
        .chunks(3)
        .map(|message| match message {
            [_, _, Item::Bytes(text)] => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

async fn send_again(world: &Real, text: &[u8]) {
    let stream = Keys::of(&world.activity).named("orders");
    world.redis.command("XADD", vec![stream.into(), "*".into(), "o".into(), text.to_vec()]).await.unwrap();
}

#[tokio::test]
async fn messages_that_come_twice_out_of_order_and_late_make_one_order_each() {
    for ledger in LEDGERS {
        let world = world(ledger, 10, 1).await;
        for n in 0..4 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let texts = messages(&world).await;
        for text in texts.iter().rev() {
            send_again(&world, text).await;
        }
        world.write().await.unwrap();
        assert_eq!(world.units().await, (6, 4, 0), "{ledger}");
        // Later than everything that became of them: nobody comes back to life.
        world.cancel(&world.order_no(0)).await.unwrap();
        world.paid(&world.order_no(1), "e").await.unwrap();
        for text in &texts {
            send_again(&world, text).await;
        }
        world.write().await.unwrap();
        assert_eq!(world.status(&world.order_no(0)).await, Some(Status::Cancelled), "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(1)).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (7, 2, 1), "{ledger}");
    }
}

#[tokio::test]
async fn many_writers_at_once_write_each_order_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 700, 1).await;
        for n in 0..700 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let some: Vec<_> = messages(&world).await.into_iter().take(50).collect();
        for text in &some {
            send_again(&world, text).await;
        }
        let writers = (0..6).map(|n| async move { n });
        let writers = writers.map(async |n| {
            let n = n.await;
            match n % 2 {
                0 => order_writer::tick(&world.redis, &world.sql, &world.activity, NOW).await,
                _ => order_writer::tick_redelivered(&world.redis, &world.sql, &world.activity, NOW, 0).await,
            }
        });
        for written in futures::future::join_all(writers).await {
            written.unwrap();
        }
        world.recover().await;
        assert_eq!(world.units().await, (0, 700, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_writers_turn_is_bounded_and_says_whether_there_is_more() {
    let world = world("sqlite", 5_000, 5_000).await;
    for n in 0..2 * BATCH as u64 + 1 {
        world.reserve(n, "ada", 1).await.unwrap();
    }
    let turn = async || order_writer::turn(&world.redis, &world.sql, &world.activity, NOW, 2).await.unwrap();
    let (first, more) = turn().await;
    assert_eq!((first.written, more), (2 * BATCH, true));
    let (second, more) = turn().await;
    assert_eq!((second.written, more), (1, false));
}

#[tokio::test]
async fn a_batch_that_fails_leaves_the_other_one_of_its_turn_alone() {
    for ledger in LEDGERS {
        let all = BATCH as i64 + 2;
        let world = world(ledger, all, all).await;
        world.reserve(0, "poison", 1).await.unwrap();
        for n in 1..all as u64 {
            world.reserve(n, "ada", 1).await.unwrap();
        }
        let sql = Choking { sql: &world.sql, on: "poison", swallows: true, away: Cell::new(false) };
        assert!(order_writer::turn(&world.redis, &sql, &world.activity, NOW, 2).await.is_err(), "{ledger}");
        let last = world.order_no(all as u64 - 1);
        assert_eq!(world.hot_status(&last).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(0)).await, Some(Status::Queued), "{ledger}");
        world.recover().await;
        assert_eq!(world.units().await, (0, all, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_end_that_an_operator_moves_far_back_loses_no_order() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        world.reserve(1, "ada", 1).await.unwrap();
        let mut spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
        spec.ends_at = Millis(1);
        assert!(
            matches!(world.desk().put(&world.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)),
            "{ledger}"
        );
        assert_eq!(world.write().await.unwrap().written, 1, "{ledger}");
        assert_eq!(world.units().await, (2, 1, 0), "{ledger}");
    }
}
