//! What comes between any two calls of a workflow to its stores.

use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
};

use workflows::{
    Redis, Sql, StoreError,
    ports::{Arg, Dialect, Item, Value},
};

use crate::{
    epochs::Real,
    fixture::LEDGERS,
    stores::{RealLedger, RealRedis},
};

/// What runs at one call of the other stores, to its end.
struct Interruption<'a> {
    calls: Cell<u32>,
    act: &'a dyn Fn() -> Pin<Box<dyn Future<Output = ()> + 'a>>,
    ran: RefCell<bool>,
}

impl Interruption<'_> {
    async fn look(&self) {
        let left = self.calls.get();
        self.calls.set(left.saturating_sub(1));
        if left == 1 {
            (self.act)().await;
            *self.ran.borrow_mut() = true;
        }
    }
}

pub struct Interrupted<'a, T>(&'a T, Rc<Interruption<'a>>);

impl Redis for Interrupted<'_, RealRedis> {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        self.1.look().await;
        self.0.command(name, args).await
    }
}

impl Sql for Interrupted<'_, RealLedger> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        self.1.look().await;
        self.0.run(statement, params).await
    }
}

/// Runs `work` on a sale of its own for each of its calls, and `act`, to its end, just before that call; in the last turn
/// `act` comes after all of them. Then `judge`, which hears the moment.
pub async fn at_every_moment(
    begin: impl AsyncFn(&'static str) -> Real,
    work: impl AsyncFn(&Interrupted<'_, RealRedis>, &Interrupted<'_, RealLedger>, &Real),
    act: impl AsyncFn(&Real),
    judge: impl AsyncFn(&Real, &str),
) {
    'ledgers: for ledger in LEDGERS {
        for call in 1..80 {
            let world = begin(ledger).await;
            let shared = &world;
            let acting = || -> Pin<Box<dyn Future<Output = ()> + '_>> { Box::pin(act(shared)) };
            let interruption = Rc::new(Interruption { calls: Cell::new(call), act: &acting, ran: RefCell::new(false) });
            let redis = Interrupted(&world.redis, Rc::clone(&interruption));
            let sql = Interrupted(&world.sql, Rc::clone(&interruption));
            work(&redis, &sql, &world).await;
            let ran = *interruption.ran.borrow();
            if !ran {
                act(&world).await;
            }
            judge(&world, &format!("{ledger}, call {call}")).await;
            if !ran {
                assert!(call > 3, "it makes more calls");
                continue 'ledgers;
            }
        }
        panic!("work that never ended");
    }
}
