//! Epochs (G5): after a rebuild, whatever still speaks for the Redis of before is refused, visibly (I1, I2, I4).

use std::cell::Cell;

use domain::{activity::State, order::Status, problem::Code};
use workflows::{
    Redis, Sql, StoreError,
    hot::reserve::Outcome,
    keys::Keys,
    ledger::epochs,
    ports::{Dialect, Item, Value},
    queue::{
        dead_letters::{self, Replayed},
        order_writer,
    },
    recovery::{
        rebuild::{Rebuilt, rebuild},
        sweep,
    },
};

use crate::{
    fixture::{LEDGERS, NOW, SECRET, World, world},
    interleaving::at_every_moment,
    stores::{RealLedger, RealRedis},
};

pub type Real = World<RealRedis, RealLedger>;

pub async fn pause(world: &Real) {
    world.desk().set_state(&world.activity, State::Paused).await.unwrap();
}

pub async fn resume(world: &Real) {
    world.desk().set_state(&world.activity, State::Published).await.unwrap();
}

pub async fn rebuilt(world: &Real) -> Rebuilt {
    rebuild(&world.redis, &world.sql, &world.activity, SECRET, NOW).await.unwrap()
}

/// Everything that Redis has of the sale is gone.
pub async fn lose_redis(world: &Real) {
    let pattern = format!("{}*", Keys::of(&world.activity).prefix());
    let keys = world.redis.command("KEYS", vec![pattern.into()]).await.unwrap();
    for key in keys {
        let Item::Bytes(key) = key else { panic!("{key:?}") };
        world.redis.command("DEL", vec![key]).await.unwrap();
    }
}

async fn reason_of(world: &Real, n: u64) -> Option<String> {
    dead_letters::load(&world.sql, &world.order_no(n)).await.unwrap().map(|letter| letter.reason)
}

/// A ledger in whose way something comes: `act` runs to its end just before the first order is written.
struct Meanwhile<'a, F> {
    sql: &'a RealLedger,
    act: F,
    done: Cell<bool>,
}

impl<F: AsyncFn()> Sql for Meanwhile<'_, F> {
    fn dialect(&self) -> Dialect {
        self.sql.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        if statement.contains("INSERT INTO orders") && !self.done.replace(true) {
            (self.act)().await;
        }
        self.sql.run(statement, params).await
    }
}

/// What an order writer does that took its messages, and sleeps while `act` runs to its end.
async fn write_after(world: &Real, act: impl AsyncFn()) -> order_writer::Written {
    let asleep = Meanwhile { sql: &world.sql, act, done: Cell::new(false) };
    order_writer::tick(&world.redis, &asleep, &world.activity, NOW).await.unwrap()
}

#[tokio::test]
async fn a_writer_that_slept_through_a_loss_and_a_rebuild_leaves_dead_letters() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        world.order(0, "zoe", 1).await;
        for n in 1..=2 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let late = write_after(&world, async || {
            pause(&world).await;
            lose_redis(&world).await;
            assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 2 });
            resume(&world).await;
            // The buyer of 1 was told 202 by the Redis that is gone, asks again, and has an order now.
            let again = world.reserve(1, "user 1", 1).await.unwrap().outcome;
            assert!(matches!(again, Outcome::Queued(_)), "{again:?}");
        })
        .await;
        assert_eq!((late.written, late.failed), (0, 2), "{ledger}");
        for n in 1..=2 {
            assert_eq!(reason_of(&world, n).await.as_deref(), Some(order_writer::OLD_EPOCH), "{ledger}");
        }
        assert_eq!(world.write().await.unwrap().written, 1, "{ledger}: the order of the new epoch lives");
        assert_eq!(world.status(&world.order_no(1)).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(1)).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.units().await, (1, 2, 0), "{ledger}");
        // What was lost can be put back by an operator, as an order of today.
        let replayed = dead_letters::replay(&world.redis, &world.sql, &world.order_no(2), NOW).await.unwrap();
        assert_eq!(replayed, Replayed::Queued, "{ledger}");
        world.write().await.unwrap();
        assert_eq!(world.units().await, (0, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_writer_that_slept_through_a_rebuild_finds_its_orders_written() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        for n in 1..=3 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let late = write_after(&world, async || {
            pause(&world).await;
            assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 3, epoch: 2 });
            resume(&world).await;
        })
        .await;
        assert_eq!((late.taken, late.written, late.failed), (3, 0, 0), "{ledger}");
        assert_eq!(world.units().await, (2, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_old_redis_that_comes_back_is_closed_by_its_first_message() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        world.order(1, "ada", 1).await;
        // Another Redis was rebuilt meanwhile: the ledger is an epoch further.
        epochs::raise(&world.sql, &world.activity, 1, 0).await.unwrap();
        for n in 2..=3 {
            assert!(matches!(world.reserve(n, &format!("user {n}"), 1).await.unwrap().outcome, Outcome::Queued(_)));
        }
        let written = world.write().await.unwrap();
        assert_eq!((written.written, written.failed), (0, 2), "{ledger}");
        for n in 2..=3 {
            assert_eq!(reason_of(&world, n).await.as_deref(), Some(order_writer::OLD_EPOCH), "{ledger}");
            assert_eq!(world.hot_status(&world.order_no(n)).await, Some(Status::Failed), "{ledger}");
        }
        let refused = world.reserve(4, "user 4", 1).await.unwrap().outcome;
        assert_eq!(refused, Outcome::Refused(Code::NotReady, 0), "{ledger}");
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 3 }, "{ledger}");
        assert_eq!(world.units().await, (4, 1, 0), "{ledger}");
        assert!(matches!(world.reserve(4, "user 4", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
    }
}

#[tokio::test]
async fn an_old_redis_that_comes_back_is_closed_by_the_sweeper() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let mut report = sweep::Report::default();
        let all = [world.activity.clone()];
        sweep::fence(&world.redis, &world.sql, &all, SECRET, NOW, &mut report).await.unwrap();
        assert_eq!(report.fenced, 0, "{ledger}: the gate of today stays");
        epochs::raise(&world.sql, &world.activity, 1, 0).await.unwrap();
        sweep::fence(&world.redis, &world.sql, &all, SECRET, NOW, &mut report).await.unwrap();
        assert_eq!(report.fenced, 1, "{ledger}");
        let refused = world.reserve(1, "ada", 1).await.unwrap().outcome;
        assert_eq!(refused, Outcome::Refused(Code::NotReady, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_stray_message_of_an_old_epoch_is_a_dead_letter_and_nothing_else() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 0, epoch: 2 }, "{ledger}");
        resume(&world).await;
        let stream = Keys::of(&world.activity).named("orders");
        let text = format!("{}\tada\tphone\t1\t100\tEUR\t{}\t1", world.order_no(1).ulid(), NOW.0);
        for _ in 0..2 {
            world
                .redis
                .command("XADD", vec![stream.clone().into(), "*".into(), "o".into(), text.clone().into()])
                .await
                .unwrap();
        }
        assert_eq!(world.write().await.unwrap().failed, 2, "{ledger}");
        assert_eq!(reason_of(&world, 1).await.as_deref(), Some(order_writer::OLD_EPOCH), "{ledger}");
        assert_eq!(world.units().await, (3, 0, 0), "{ledger}");
        assert!(
            matches!(world.reserve(2, "bob", 1).await.unwrap().outcome, Outcome::Queued(_)),
            "{ledger}: still open"
        );
    }
}

#[tokio::test]
async fn publishing_again_after_a_loss_counts_what_the_ledger_holds() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 2).await;
        world.order(1, "ada", 1).await;
        world.paid_order(2, "bob").await;
        lose_redis(&world).await;
        resume(&world).await;
        assert_eq!(epochs::current(&world.sql, &world.activity).await.unwrap(), 2, "{ledger}: a new epoch");
        assert_eq!(world.units().await, (1, 1, 1), "{ledger}");
        assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}: a replay");
        assert_eq!(world.units().await, (1, 1, 1), "{ledger}: takes nothing");
    }
}

/// Runs `act` at each moment of a rebuild in turn; afterwards the books agree to the unit.
async fn at_every_moment_of_a_rebuild(act: impl AsyncFn(&Real), expected: (i64, i64, i64)) {
    let sale = async |ledger: &'static str| {
        let world = world(ledger, 10, 5).await;
        for n in 1..=4 {
            world.order(n, "ada", 1).await;
        }
        world.paid_order(5, "bob").await;
        pause(&world).await;
        world
    };
    at_every_moment(
        sale,
        async |redis, sql, world| {
            rebuild(redis, sql, &world.activity, SECRET, NOW).await.unwrap();
        },
        act,
        async |world, moment| {
            // Another rebuild may have come between, and this one given way to it.
            world.recover().await;
            assert_eq!(world.units().await, expected, "{moment}");
            resume(world).await;
            let held = Keys::of(&world.activity).holders(&world.sku);
            let held = world.redis.command("HGET", vec![held.into(), "ada".into()]).await.unwrap();
            assert_eq!(held, [Item::Bytes(expected.1.to_string().into_bytes())], "{moment}: ada's units");
        },
    )
    .await;
}

/// What finds no gate makes one; whatever comes between, the sale sells then, and what it sells is written.
#[tokio::test]
async fn a_gate_that_two_make_at_once_sells() {
    let lost = async |ledger: &'static str| {
        let world = world(ledger, 10, 5).await;
        world.order(1, "ada", 1).await;
        lose_redis(&world).await;
        world
    };
    at_every_moment(
        lost,
        async |redis, sql, world| {
            rebuild(redis, sql, &world.activity, SECRET, NOW).await.unwrap();
        },
        async |world| {
            resume(world).await;
            world.order(2, "bob", 1).await;
        },
        async |world, moment| {
            assert!(matches!(world.reserve(3, "cyd", 1).await.unwrap().outcome, Outcome::Queued(_)), "{moment}");
            assert_eq!(world.write().await.unwrap().failed, 0, "{moment}");
            assert_eq!(world.units().await, (7, 3, 0), "{moment}");
        },
    )
    .await;
}

#[tokio::test]
async fn an_order_cancelled_at_any_moment_of_a_rebuild_returns_its_unit_once() {
    at_every_moment_of_a_rebuild(
        async |world| {
            for n in [1, 3] {
                world.cancel(&world.order_no(n)).await.unwrap();
            }
        },
        (7, 2, 1),
    )
    .await;
}

#[tokio::test]
async fn two_rebuilds_at_once_leave_one() {
    at_every_moment_of_a_rebuild(
        async |world| {
            let other = rebuilt(world).await;
            assert!(matches!(other, Rebuilt::Done { .. } | Rebuilt::Queued), "{other:?}");
        },
        (5, 4, 1),
    )
    .await;
}
