//! Dying at every call to a store, before and after it took effect: what is left is always finished (D3, E3, G3; I1–I6).
//!
//! The list of kill points is not kept by hand: every workflow is run again and again, dying one call later each time,
//! until it comes to its end alive.

use std::{cell::Cell, rc::Rc};

use stampede_domain::order::Status;
use stampede_sale::{
    Redis, Sql, StoreError, money,
    ports::{Arg, Dialect, Item, Value},
};

use crate::{
    stores::{RealLedger, RealRedis},
    world::{LEDGERS, NOW, World, world},
};

/// When a process dies: `calls` calls from now, before or after that call took effect.
#[derive(Clone)]
struct Death {
    calls: Rc<Cell<u32>>,
    after: bool,
}

impl Death {
    /// Whether this call is the last, or the process is dead already.
    fn strikes(&self) -> (bool, bool) {
        let left = self.calls.get();
        self.calls.set(left.saturating_sub(1));
        (left == 1, left == 0)
    }
}

/// A store that its process loses at some call.
struct Mortal<T> {
    store: T,
    death: Death,
}

impl Redis for Mortal<RealRedis> {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        let dead = || StoreError::RedisUnavailable("the process is dead".to_owned());
        match self.death.strikes() {
            (_, true) => Err(dead()),
            (true, _) if self.death.after => self.store.command(name, args).await.and(Err(dead())),
            (true, _) => Err(dead()),
            _ => self.store.command(name, args).await,
        }
    }
}

impl Sql for Mortal<RealLedger> {
    fn dialect(&self) -> Dialect {
        self.store.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        let dead = || StoreError::LedgerUnavailable("the process is dead".to_owned());
        match self.death.strikes() {
            (_, true) => Err(dead()),
            (true, _) if self.death.after => self.store.run(statement, params).await.and(Err(dead())),
            (true, _) => Err(dead()),
            _ => self.store.run(statement, params).await,
        }
    }
}

type Mortals = World<Mortal<RealRedis>, Mortal<RealLedger>>;

/// Prepares a sale, runs `step` dying at each call in turn, recovers, and lets `check` look.
async fn die_everywhere(
    total: i64,
    prepare: impl AsyncFn(&World<RealRedis, RealLedger>),
    step: impl AsyncFn(&Mortals) -> Result<(), StoreError>,
    check: impl AsyncFn(&World<RealRedis, RealLedger>, &str),
) {
    for ledger in LEDGERS {
        for after in [false, true] {
            let mut survived = false;
            for call in 1..60 {
                let alive = world(ledger, total, 2).await;
                prepare(&alive).await;
                let death = Death { calls: Rc::new(Cell::new(call)), after };
                let World { redis, sql, activity, sku, start_key, per_user } = alive;
                let mortal = World {
                    redis: Mortal { store: redis, death: death.clone() },
                    sql: Mortal { store: sql, death: death.clone() },
                    activity,
                    sku,
                    start_key,
                    per_user,
                };
                let _ = step(&mortal).await;
                let lived = death.calls.get() > 0;
                let World { redis, sql, activity, sku, start_key, per_user } = mortal;
                let alive = World { redis: redis.store, sql: sql.store, activity, sku, start_key, per_user };
                alive.recover().await;
                alive.units().await;
                let point = format!("{ledger}, dead {} call {call}", if after { "after" } else { "before" });
                check(&alive, &point).await;
                if lived {
                    assert!(call > 1, "the step makes no call at all");
                    survived = true;
                    break;
                }
            }
            assert!(survived, "the step never ended by itself");
        }
    }
}

#[tokio::test]
async fn a_writer_that_dies_loses_and_doubles_nothing() {
    die_everywhere(
        5,
        async |world| {
            for n in 0..3 {
                world.reserve(n, &format!("user {n}"), 1).await.unwrap();
            }
        },
        async |world| world.write().await.map(|_| ()),
        async |world, point| {
            assert_eq!(world.units().await, (2, 3, 0), "{point}");
            for n in 0..3 {
                assert_eq!(world.status(&world.order_no(n)).await, Some(Status::PendingPayment), "{point}");
                assert_eq!(world.hot_status(&world.order_no(n)).await, Some(Status::PendingPayment), "{point}");
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweeper_that_dies_returns_every_unit_once() {
    die_everywhere(
        3,
        async |world| {
            for n in 0..3 {
                world.order(n, &format!("user {n}"), 1).await;
            }
        },
        async |world| world.expire().await.map(|_| ()),
        async |world, point| {
            world.expire().await.unwrap();
            assert_eq!(world.units().await, (3, 0, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_cancel_that_dies_is_done_or_not() {
    die_everywhere(
        1,
        async |world| {
            world.order(1, "ada", 1).await;
        },
        async |world| money::cancel(&world.redis, &world.sql, &world.order_no(1), NOW).await.map(|_| ()),
        async |world, point| match world.status(&world.order_no(1)).await {
            Some(Status::Cancelled) => assert_eq!(world.units().await, (1, 0, 0), "{point}"),
            status => assert_eq!((status, world.units().await), (Some(Status::PendingPayment), (0, 1, 0)), "{point}"),
        },
    )
    .await;
}

#[tokio::test]
async fn a_payment_callback_that_dies_is_finished_when_it_comes_again() {
    die_everywhere(
        1,
        async |world| {
            world.order(1, "ada", 1).await;
        },
        async |world| world.paid(&world.order_no(1), "e").await.map(|_| ()),
        async |world, point| {
            world.paid(&world.order_no(1), "e").await.unwrap();
            assert_eq!(world.status(&world.order_no(1)).await, Some(Status::Paid), "{point}");
            assert_eq!(world.units().await, (0, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_late_payment_that_dies_takes_one_unit_or_is_refunded() {
    for free in [true, false] {
        die_everywhere(
            1,
            async |world| {
                world.order(1, "ada", 1).await;
                world.expire().await.unwrap();
                if !free {
                    world.order(2, "bob", 1).await;
                }
            },
            async |world| world.paid(&world.order_no(1), "e").await.map(|_| ()),
            async |world, point| {
                world.paid(&world.order_no(1), "e").await.unwrap();
                let status = world.status(&world.order_no(1)).await;
                if free {
                    assert_eq!((status, world.units().await), (Some(Status::Paid), (0, 0, 1)), "{point}");
                } else {
                    assert_eq!((status, world.units().await), (Some(Status::Refunding), (0, 1, 0)), "{point}");
                    assert_eq!(world.open_refunds().await, 1, "{point}");
                }
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_refund_that_dies_is_done_once() {
    die_everywhere(
        2,
        async |world| {
            let order_no = world.order(1, "ada", 1).await;
            world.paid(&order_no, "e").await.unwrap();
        },
        async |world| {
            money::request_refund(&world.redis, &world.sql, &world.order_no(1), NOW).await?;
            world.apply("refund.succeeded", &world.order_no(1), "r", 100).await.map(|_| ())
        },
        async |world, point| {
            money::request_refund(&world.redis, &world.sql, &world.order_no(1), NOW).await.unwrap();
            world.apply("refund.succeeded", &world.order_no(1), "r2", 100).await.unwrap();
            assert_eq!(world.status(&world.order_no(1)).await, Some(Status::Refunded), "{point}");
            assert_eq!(world.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}
