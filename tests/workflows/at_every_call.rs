//! Runs another action before each store call of a workflow in turn.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
};

use stores::{
    Redis, Sql, StoreError,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
};

use crate::{
    fixture::LEDGERS,
    operations::epochs::RealFixture,
    stores::{RealLedger, RealRedis},
};

/// An action that runs to its end before the `calls_left`-th call from now.
struct Interleaving<'a> {
    calls_left: Cell<u32>,
    action: &'a dyn Fn() -> Pin<Box<dyn Future<Output = ()> + 'a>>,
    ran: RefCell<bool>,
}

impl Interleaving<'_> {
    async fn before_call(&self) {
        let left = self.calls_left.get();
        self.calls_left.set(left.saturating_sub(1));
        if left == 1 {
            (self.action)().await;
            *self.ran.borrow_mut() = true;
        }
    }
}

pub struct Interleaved<'a, T>(&'a T, Rc<Interleaving<'a>>);

impl Redis for Interleaved<'_, RealRedis> {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        self.1.before_call().await;
        self.0.command(name, args).await
    }
}

impl Sql for Interleaved<'_, RealLedger> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        self.1.before_call().await;
        self.0.run(statement, params).await
    }
}

/// Runs `workflow` once for each of its calls, with `action` just before that call. In the last run `action` follows
/// all calls. Every run gets a new fixture from `setup`, on each ledger.
///
/// `check` runs after both and gets a description of the call for its messages.
pub async fn at_every_call(
    setup: impl AsyncFn(&'static str) -> RealFixture,
    workflow: impl AsyncFn(&Interleaved<'_, RealRedis>, &Interleaved<'_, RealLedger>, &RealFixture),
    action: impl AsyncFn(&RealFixture),
    check: impl AsyncFn(&RealFixture, &str),
) {
    'ledgers: for ledger in LEDGERS {
        for call in 1..200 {
            let fixture = setup(ledger).await;
            let shared = &fixture;
            let boxed_action = || -> Pin<Box<dyn Future<Output = ()> + '_>> { Box::pin(action(shared)) };
            let interleaving =
                Rc::new(Interleaving { calls_left: Cell::new(call), action: &boxed_action, ran: RefCell::new(false) });
            let redis = Interleaved(&fixture.redis, Rc::clone(&interleaving));
            let sql = Interleaved(&fixture.sql, Rc::clone(&interleaving));
            workflow(&redis, &sql, &fixture).await;
            let ran = *interleaving.ran.borrow();
            if !ran {
                action(&fixture).await;
            }
            check(&fixture, &format!("{ledger}, call {call}")).await;
            if !ran {
                assert!(call > 3, "it makes more calls");
                continue 'ledgers;
            }
        }
        panic!("work that never ended");
    }
}
