//! Runs a workflow repeatedly and crashes it one call later each time.
//!
//! Each call is crashed twice: before it takes effect, and after it but without its response. The last run completes.
//! Its calls must equal those listed in `crash.points`, which shows the steps of each workflow to a reader and makes a
//! change of them visible in review. `UPDATE_POINTS=1` rewrites the file.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    rc::Rc,
    sync::Mutex,
};

use workflows::{
    Redis, Sql, StoreError,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
    script::name_of,
};

use crate::{
    fixture::{Fixture, LEDGERS, new_fixture},
    stores::{RealLedger, RealRedis, summarize},
};

/// When the simulated process crashes: at its `calls`-th call from now. Clones share the count.
#[derive(Clone)]
pub struct CrashPoint {
    calls: Rc<Cell<u32>>,
    /// Whether the call at which the process crashes takes effect.
    pub takes_effect: bool,
    points: Rc<RefCell<Vec<String>>>,
}

impl CrashPoint {
    /// Counts one call. Returns whether the process crashes at it, and whether it has crashed before.
    pub fn count_call(&self) -> (bool, bool) {
        let left = self.calls.get();
        self.calls.set(left.saturating_sub(1));
        (left == 1, left == 0)
    }

    /// Records a call for `crash.points`. Skips `NOSCRIPT`: the script is called again at once, and recorded then.
    fn record<T>(&self, point: String, result: &Result<T, StoreError>) {
        if !matches!(result, Err(StoreError::ScriptNotLoaded)) {
            self.points.borrow_mut().push(point);
        }
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
            _ => {
                let script = args.first().and_then(|script| name_of(script)).map(|script| format!("{script}.lua"));
                let result = self.store.command(name, args).await;
                self.crash_point.record(format!("redis   {}", script.unwrap_or_else(|| name.to_owned())), &result);
                result
            }
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
            _ => {
                let result = self.store.run(statement, params).await;
                self.crash_point.record(format!("ledger  {}", summarize(statement)), &result);
                result
            }
        }
    }
}

/// A fixture whose stores fail from the crash point on.
pub type CrashingFixture = Fixture<Crashing<RealRedis>, Crashing<RealLedger>>;

/// Compares the calls of a workflow with `crash.points`, or writes them there if `UPDATE_POINTS` is set.
fn check_points(workflow: &str, points: &[String]) {
    static FILE_LOCK: Mutex<()> = Mutex::new(());
    let _guard = FILE_LOCK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/crash.points");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut known: std::collections::BTreeMap<String, String> = text
        .split("\n\n")
        .filter_map(|block| block.trim().split_once('\n'))
        .map(|(name, points)| (name.to_owned(), points.to_owned()))
        .collect();
    let actual = points.iter().map(|point| format!("  {point}")).collect::<Vec<_>>().join("\n");
    if std::env::var_os("UPDATE_POINTS").is_some() {
        known.insert(workflow.to_owned(), actual);
        let text: Vec<_> = known.iter().map(|(name, points)| format!("{name}\n{points}\n")).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
    } else {
        let expected = known.get(workflow).cloned().unwrap_or_default();
        assert_eq!(actual, expected, "{workflow}: not the steps of crash.points; if they are right, UPDATE_POINTS=1");
    }
}

/// Runs `step` once for each of its calls and crashes it there; then recovers as the sweeper does and runs `check`.
///
/// Every run gets a new fixture with `total` units and goes through `prepare` first. `check` gets a description of the
/// crash point for its messages. `workflow` is the title in `crash.points`.
pub async fn crash_at_every_call(
    workflow: &str,
    total: i64,
    prepare: impl AsyncFn(&Fixture<RealRedis, RealLedger>),
    step: impl AsyncFn(&CrashingFixture) -> Result<(), StoreError>,
    check: impl AsyncFn(&Fixture<RealRedis, RealLedger>, &str),
) {
    let recover = async |fixture: &Fixture<RealRedis, RealLedger>| fixture.recover().await;
    crash_at_every_call_and_recover(workflow, total, prepare, step, recover, check).await;
}

/// Like [`crash_at_every_call`], but recovers with `recover` instead of a sweeper.
pub async fn crash_at_every_call_and_recover(
    workflow: &str,
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
                let crash_point = CrashPoint { calls: Rc::new(Cell::new(call)), takes_effect, points: Rc::default() };
                let Fixture { redis, sql, activity, sku, start_key, per_user } = fixture;
                let crashing = Fixture {
                    redis: Crashing { store: redis, crash_point: crash_point.clone() },
                    sql: Crashing { store: sql, crash_point: crash_point.clone() },
                    activity,
                    sku,
                    start_key,
                    per_user,
                };
                let _ = step(&crashing).await;
                let uninterrupted = crash_point.calls.get() > 0;
                let Fixture { redis, sql, activity, sku, start_key, per_user } = crashing;
                fixture = Fixture { redis: redis.store, sql: sql.store, activity, sku, start_key, per_user };
                recover(&fixture).await;
                fixture.units().await;
                let point = format!("{ledger}, dead {} call {call}", if takes_effect { "after" } else { "before" });
                check(&fixture, &point).await;
                if uninterrupted {
                    assert!(call > 1, "the step makes no call at all");
                    check_points(workflow, &crash_point.points.borrow());
                    completed = true;
                    break;
                }
            }
            assert!(completed, "the step never ended by itself");
        }
    }
}
