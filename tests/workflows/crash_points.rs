//! Processes that die at a call to a store: every workflow is run again and again, dying one call later each time, before
//! or after that call took effect, until it comes to its end alive.
//!
//! The list of kill points is not kept by hand: what a workflow called until its end is compared with `crash.points`, so
//! that a reader sees the steps, and a change of them is seen; `UPDATE_POINTS=1` writes it anew.

use std::{
    cell::{Cell, RefCell},
    path::Path,
    rc::Rc,
    sync::Mutex,
};

use workflows::{
    Redis, Sql, StoreError,
    ports::{Arg, Dialect, Item, Value},
    script::name_of,
};

use crate::{
    fixture::{LEDGERS, World, world},
    stores::{RealLedger, RealRedis},
};

/// When a process dies: `calls` calls from now, before or after that call took effect.
#[derive(Clone)]
pub struct Death {
    calls: Rc<Cell<u32>>,
    /// Whether the last call still took effect.
    pub after: bool,
    points: Rc<RefCell<Vec<String>>>,
}

impl Death {
    /// Whether this call is the last, or the process is dead already.
    pub fn strikes(&self) -> (bool, bool) {
        let left = self.calls.get();
        self.calls.set(left.saturating_sub(1));
        (left == 1, left == 0)
    }

    /// Notes a call as a reader knows it; a script that Redis has yet to learn is called twice and noted once.
    fn note<T>(&self, point: String, answer: &Result<T, StoreError>) {
        if !matches!(answer, Err(StoreError::RedisRefused(text)) if text == "NOSCRIPT") {
            self.points.borrow_mut().push(point);
        }
    }
}

/// A store that its process loses at some call.
pub struct Mortal<T> {
    /// The store.
    pub store: T,
    /// When the process dies.
    pub death: Death,
}

impl Redis for Mortal<RealRedis> {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        let dead = || StoreError::RedisUnavailable("the process is dead".to_owned());
        // How often it takes a scan to read all keys depends on the other tests; dying there is dying before what follows.
        if name == "SCAN" && self.death.calls.get() > 0 {
            return self.store.command(name, args).await;
        }
        match self.death.strikes() {
            (_, true) => Err(dead()),
            (true, _) if self.death.after => self.store.command(name, args).await.and(Err(dead())),
            (true, _) => Err(dead()),
            _ => {
                let script = args.first().and_then(|script| name_of(script)).map(|script| format!("{script}.lua"));
                let answer = self.store.command(name, args).await;
                self.death.note(format!("redis   {}", script.unwrap_or_else(|| name.to_owned())), &answer);
                answer
            }
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
            _ => {
                let answer = self.store.run(statement, params).await;
                self.death.note(format!("ledger  {}", gist(statement)), &answer);
                answer
            }
        }
    }
}

/// A sale in stores that its process loses.
pub type Mortals = World<Mortal<RealRedis>, Mortal<RealLedger>>;

/// A statement as a reader knows it: its verb, its table, and what it sets.
fn gist(statement: &str) -> String {
    let words: Vec<_> = statement.split_whitespace().collect();
    let depth = |at: usize| words[..at].concat().matches('(').count() - words[..at].concat().matches(')').count();
    let after = |word: &str| {
        let found = (0..words.len()).find(|at| words[*at] == word && depth(*at) == 0);
        found.and_then(|at| words.get(at + 1)).copied()
    };
    let object = match words[0] {
        "INSERT" => after("INTO"),
        "UPDATE" => Some(words[1]),
        _ => after("FROM"),
    };
    let set = (words[0] == "UPDATE").then(|| after("SET").unwrap_or_default());
    [Some(words[0]), object, set].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Compares the calls of a workflow with the list, or writes them there.
fn check_points(workflow: &str, points: &[String]) {
    static FILE: Mutex<()> = Mutex::new(());
    let _one_at_a_time = FILE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("workflows/crash.points");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut list: std::collections::BTreeMap<String, String> = text
        .split("\n\n")
        .filter_map(|block| block.trim().split_once('\n'))
        .map(|(name, points)| (name.to_owned(), points.to_owned()))
        .collect();
    let now = points.iter().map(|point| format!("  {point}")).collect::<Vec<_>>().join("\n");
    if std::env::var_os("UPDATE_POINTS").is_some() {
        list.insert(workflow.to_owned(), now);
        let text: Vec<_> = list.iter().map(|(name, points)| format!("{name}\n{points}\n")).collect();
        std::fs::write(&path, text.join("\n")).unwrap();
    } else {
        let listed = list.get(workflow).cloned().unwrap_or_default();
        assert_eq!(now, listed, "{workflow}: not the steps of crash.points; if they are right, UPDATE_POINTS=1");
    }
}

/// Prepares a sale, runs `step` dying at each call in turn, recovers, and lets `check` look.
pub async fn die_everywhere(
    workflow: &str,
    total: i64,
    prepare: impl AsyncFn(&World<RealRedis, RealLedger>),
    step: impl AsyncFn(&Mortals) -> Result<(), StoreError>,
    check: impl AsyncFn(&World<RealRedis, RealLedger>, &str),
) {
    let mend = async |world: &World<RealRedis, RealLedger>| world.recover().await;
    die_everywhere_and_mend(workflow, total, prepare, step, mend, check).await;
}

/// The same with something else than a sweeper to mend what is left.
pub async fn die_everywhere_and_mend(
    workflow: &str,
    total: i64,
    prepare: impl AsyncFn(&World<RealRedis, RealLedger>),
    step: impl AsyncFn(&Mortals) -> Result<(), StoreError>,
    mend: impl AsyncFn(&World<RealRedis, RealLedger>),
    check: impl AsyncFn(&World<RealRedis, RealLedger>, &str),
) {
    for ledger in LEDGERS {
        for after in [false, true] {
            let mut survived = false;
            for call in 1..60 {
                let alive = world(ledger, total, 2).await;
                prepare(&alive).await;
                let death = Death { calls: Rc::new(Cell::new(call)), after, points: Rc::default() };
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
                mend(&alive).await;
                alive.units().await;
                let point = format!("{ledger}, dead {} call {call}", if after { "after" } else { "before" });
                check(&alive, &point).await;
                if lived {
                    assert!(call > 1, "the step makes no call at all");
                    check_points(workflow, &death.points.borrow());
                    survived = true;
                    break;
                }
            }
            assert!(survived, "the step never ended by itself");
        }
    }
}
