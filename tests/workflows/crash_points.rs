//! Runs a workflow repeatedly and crashes it one call later each time.
//!
//! Each call is crashed twice: before it takes effect, and after it but without its response. The last run completes.

use std::{cell::Cell, rc::Rc};

use stores::{
    Redis, Sql, StoreError,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
};

use crate::{
    fixture::{Fixture, LEDGERS, new_fixture},
    stores::{RealLedger, RealRedis},
};

/// When the simulated process crashes: at its `calls`-th call from now. Clones share the count.
#[derive(Clone)]
pub struct CrashPoint {
    calls: Rc<Cell<u32>>,
    /// Whether the call at which the process crashes takes effect.
    pub takes_effect: bool,
}

impl CrashPoint {
    /// Counts one call. Returns whether the process crashes at it, and whether it has crashed before.
    pub fn count_call(&self) -> (bool, bool) {
        let left = self.calls.get();
        self.calls.set(left.saturating_sub(1));
        (left == 1, left == 0)
    }
}

/// A store, or another service, whose calls fail from the crash point on.
pub struct Crashing<T> {
    /// The wrapped store.
    pub store: T,
    /// When its calls begin to fail.
    pub crash_point: CrashPoint,
}

impl Redis for Crashing<RealRedis> {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let crashed = || StoreError::RedisUnavailable("the process is dead".to_owned());
        match self.crash_point.count_call() {
            (_, true) => Err(crashed()),
            (true, _) if self.crash_point.takes_effect => self.store.command(name, args).await.and(Err(crashed())),
            (true, _) => Err(crashed()),
            _ => self.store.command(name, args).await,
        }
    }
}

impl Sql for Crashing<RealLedger> {
    fn dialect(&self) -> Dialect {
        self.store.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let crashed = || StoreError::LedgerUnavailable("the process is dead".to_owned());
        match self.crash_point.count_call() {
            (_, true) => Err(crashed()),
            (true, _) if self.crash_point.takes_effect => self.store.run(statement, params).await.and(Err(crashed())),
            (true, _) => Err(crashed()),
            _ => self.store.run(statement, params).await,
        }
    }
}

/// A fixture whose stores fail from the crash point on.
pub type CrashingFixture = Fixture<Crashing<RealRedis>, Crashing<RealLedger>>;

/// Runs `step` once for each of its calls and crashes it there; then recovers as the sweeper does and runs `check`.
///
/// Every run gets a new fixture with `total` units and goes through `prepare` first. `check` gets a description of the
/// crash point for its messages.
pub async fn crash_at_every_call(
    total: i64,
    prepare: impl AsyncFn(&Fixture<RealRedis, RealLedger>),
    step: impl AsyncFn(&CrashingFixture) -> Result<(), StoreError>,
    check: impl AsyncFn(&Fixture<RealRedis, RealLedger>, &str),
) {
    let recover = async |fixture: &Fixture<RealRedis, RealLedger>| fixture.recover().await;
    crash_at_every_call_and_recover(total, prepare, step, recover, check).await;
}

/// Like [`crash_at_every_call`], but recovers with `recover` instead of a sweeper.
pub async fn crash_at_every_call_and_recover(
    total: i64,
    prepare: impl AsyncFn(&Fixture<RealRedis, RealLedger>),
    step: impl AsyncFn(&CrashingFixture) -> Result<(), StoreError>,
    recover: impl AsyncFn(&Fixture<RealRedis, RealLedger>),
    check: impl AsyncFn(&Fixture<RealRedis, RealLedger>, &str),
) {
    for ledger in LEDGERS {
        for takes_effect in [false, true] {
            let mut completed = false;
            let mut fixture = new_fixture(ledger, total, 2).await;
            for call in 1..200 {
                if call > 1 {
                    fixture = fixture.renew(ledger, total, 2).await;
                }
                prepare(&fixture).await;
                let crash_point = CrashPoint { calls: Rc::new(Cell::new(call)), takes_effect };
                let crashing = fixture.map_stores(|redis, sql| {
                    let [first, second] = [crash_point.clone(), crash_point.clone()];
                    (Crashing { store: redis, crash_point: first }, Crashing { store: sql, crash_point: second })
                });
                let _ = step(&crashing).await;
                let uninterrupted = crash_point.calls.get() > 0;
                fixture = crashing.map_stores(|redis, sql| (redis.store, sql.store));
                recover(&fixture).await;
                fixture.units().await;
                let point = format!("{ledger}, dead {} call {call}", if takes_effect { "after" } else { "before" });
                check(&fixture, &point).await;
                if uninterrupted {
                    assert!(call > 1, "the step makes no call at all");
                    completed = true;
                    break;
                }
            }
            assert!(completed, "the step never ended by itself");
        }
    }
}
