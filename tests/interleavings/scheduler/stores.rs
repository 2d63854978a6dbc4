//! The stores of a schedule: a Redis whose clock stands still, a ledger, and a provider; each can go back to a former
//! state.
//!
//! Calls block. With a clock that stands still, the same call in the same state always has the same result.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::FileExt,
    process::Command,
    rc::Rc,
    time::Duration,
};

use dev::{
    poll::{self, Probe},
    process::Process as Server,
};
use domain::time::Millis;
use futures::future::{LocalBoxFuture, join};
use stores::{
    Sql, StoreError,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::{Call, Ports, Process, ProviderCall, Reply};
use crate::{
    fixture::NOW,
    stores::{RealLedger, redis_command, redis_reply},
};

/// Replaces the clock of a process by the time in the file `CLOCK` (seconds). `libfaketime` cannot: it crashes Redis
/// with jemalloc.
const CLOCK_SOURCE: &str = r#"
    #include <fcntl.h>
    #include <stdlib.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <sys/time.h>
    #include <time.h>
    #include <unistd.h>
    static const volatile long long *clock_file;
    __attribute__((constructor)) static void open_clock(void) {
      clock_file = mmap(0, sizeof *clock_file, PROT_READ, MAP_SHARED, open(getenv("CLOCK"), O_RDONLY), 0);
    }
    static long long now(void) { return clock_file ? *clock_file : 0; }
    time_t time(time_t *t) { if (t) *t = now(); return now(); }
    int gettimeofday(struct timeval *t, void *zone) { t->tv_sec = now(); t->tv_usec = 0; return 0; }
    int clock_gettime(clockid_t id, struct timespec *t) {
      if (id != CLOCK_REALTIME) return syscall(SYS_clock_gettime, id, t);
      t->tv_sec = now(); t->tv_nsec = 0; return 0;
    }"#;

/// Reads every key: its name, its value as `DUMP` has it, and its time to live.
const DUMP: &str = "local reply = {}
    for _, key in ipairs(redis.call('KEYS', '*')) do
      reply[#reply + 1] = key
      reply[#reply + 1] = redis.call('DUMP', key)
      reply[#reply + 1] = redis.call('PTTL', key)
    end
    return reply";

/// No workflow makes as many calls.
pub const MAX_CALLS: usize = 2_000;

/// All keys of a Redis: values and times to live (ms, -1 for none).
pub type Keys = BTreeMap<Vec<u8>, (Vec<u8>, i64)>;

/// A Redis server of its own, whose clock stands still: at [`NOW`], unless a check moves it on.
pub struct FrozenRedis {
    connection: RefCell<redis::Connection>,
    clock: std::fs::File,
    _process: Server,
    _directory: TempDir,
}

impl FrozenRedis {
    pub fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("clock.c"), CLOCK_SOURCE).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).args([at("clock.so"), at("clock.c")]);
        assert!(compiler.status().unwrap().success(), "cc: scripts/install cc");
        let clock = std::fs::File::create(at("clock")).unwrap();
        clock.write_all_at(&(NOW.0 / 1_000).to_ne_bytes(), 0).unwrap();
        let mut command = Command::new("redis-server");
        command.env("LD_PRELOAD", at("clock.so")).env("CLOCK", at("clock"));
        // With a clock that stands still, jemalloc's thread would never sleep.
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--jemalloc-bg-thread", "no"]);
        command.arg("--unixsocket").arg(at("socket"));
        let process = Server::spawn("redis-server", &mut command, None).unwrap();
        let client = redis::Client::open(format!("redis+unix://{}", at("socket").display())).unwrap();
        let connection = poll::until("redis-server to accept", Duration::from_secs(30), || {
            Ok(client.get_connection().map_or_else(|error| Probe::Pending(error.to_string()), Probe::Ready))
        });
        Self { connection: RefCell::new(connection.unwrap()), clock, _process: process, _directory: directory }
    }

    fn call(&self, name: &str, args: &[RedisArg]) -> Result<Vec<RedisValue>, StoreError> {
        redis_reply(redis_command(name, args).query(&mut *self.connection.borrow_mut()))
    }

    /// Sets the clock.
    fn set_time(&self, now: Millis) {
        self.clock.write_all_at(&(now.0 / 1_000).to_ne_bytes(), 0).unwrap();
    }

    /// Reads all keys.
    pub fn dump(&self) -> Keys {
        let reply = self.call("EVAL", &[DUMP.into(), b"0".to_vec()]).unwrap();
        let mut keys = Keys::new();
        for entry in reply.chunks(3) {
            let [RedisValue::Bytes(key), RedisValue::Bytes(value), RedisValue::Int(ttl)] = entry else { panic!() };
            keys.insert(key.clone(), (value.clone(), *ttl));
        }
        keys
    }

    /// Replaces all keys, and sets the clock to [`NOW`].
    pub fn restore(&self, keys: &Keys) {
        self.set_time(NOW);
        let mut pipeline = redis::pipe();
        pipeline.cmd("FLUSHDB");
        for (key, (value, ttl)) in keys {
            pipeline.cmd("RESTORE").arg(key).arg((*ttl).max(0)).arg(value);
        }
        pipeline.exec(&mut *self.connection.borrow_mut()).unwrap();
    }
}

/// A ledger that can go back to a savepoint.
pub struct Ledger {
    inner: RealLedger,
    runtime: Rc<Runtime>,
    depth: Cell<usize>,
    /// Reads all tables at once, on PostgreSQL.
    dump_statement: OnceCell<String>,
}

impl Ledger {
    pub fn new(inner: RealLedger, runtime: Rc<Runtime>) -> Self {
        Self { inner, runtime, depth: Cell::new(0), dump_statement: OnceCell::new() }
    }

    fn execute(&self, text: &str) {
        match &self.inner {
            RealLedger::Sqlite(connection) => connection.lock().unwrap().execute_batch(text).unwrap(),
            RealLedger::Postgres(client) => self.runtime.block_on(client.batch_execute(text)).unwrap(),
        }
    }

    /// Runs `action`, and then undoes all changes to the ledger since.
    pub fn undo_after<T>(&self, action: impl FnOnce() -> T) -> T {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        self.execute(&if depth == 0 { "BEGIN".to_owned() } else { format!("SAVEPOINT s{depth}") });
        let result = action();
        self.execute(&match depth {
            0 => "ROLLBACK".to_owned(),
            _ => format!("ROLLBACK TO SAVEPOINT s{depth}; RELEASE SAVEPOINT s{depth}"),
        });
        self.depth.set(depth);
        result
    }

    pub fn dialect(&self) -> Dialect {
        Sql::dialect(&self.inner)
    }

    fn call(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        match &self.inner {
            RealLedger::Sqlite(connection) => crate::stores::run_sqlite(&connection.lock().unwrap(), statement, params),
            RealLedger::Postgres(client) if self.depth.get() == 0 => {
                self.runtime.block_on(crate::stores::run_postgres(client, statement, params))
            }
            // In PostgreSQL a statement that fails ends its transaction, unless there is a savepoint.
            RealLedger::Postgres(client) => self.runtime.block_on(async {
                let run = crate::stores::run_postgres(client, statement, params);
                let (savepoint, result) = join(client.batch_execute("SAVEPOINT statement"), run).await;
                savepoint.unwrap();
                let undo = if result.is_err() { "ROLLBACK TO SAVEPOINT statement;" } else { "" };
                client.batch_execute(&format!("{undo} RELEASE SAVEPOINT statement")).await.unwrap();
                result
            }),
        }
    }

    /// All rows of all tables, as text.
    pub fn dump(&self) -> String {
        let mut rows = match self.dialect() {
            Dialect::Sqlite => self
                .texts("SELECT name FROM sqlite_schema WHERE type = 'table'")
                .iter()
                .flat_map(|table| {
                    let rows = self.call(&format!("SELECT * FROM {table}"), vec![]).unwrap();
                    rows.into_iter().map(move |row| format!("{table} {row:?}"))
                })
                .collect(),
            Dialect::Postgres => {
                let statement = self.dump_statement.get_or_init(|| {
                    let tables =
                        self.texts("SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()");
                    let select = |table: &String| format!("SELECT '{table} ' || CAST(t AS TEXT) FROM {table} t");
                    tables.iter().map(select).collect::<Vec<_>>().join(" UNION ALL ")
                });
                self.texts(statement)
            }
        };
        rows.sort_unstable();
        rows.join("\n")
    }

    fn texts(&self, statement: &str) -> Vec<String> {
        let text = |row: &Vec<SqlValue>| match &row[..] {
            [SqlValue::Text(text)] => text.clone(),
            _ => panic!("{row:?}"),
        };
        self.call(statement, vec![]).unwrap().iter().map(text).collect()
    }
}

/// What happened at the provider: `paid SESSION`, `closed SESSION`, `refunded PAYMENT FAILURES`.
pub type Facts = BTreeSet<String>;

/// The three stores.
pub struct Stores {
    pub redis: FrozenRedis,
    pub ledger: Ledger,
    pub provider: RefCell<Facts>,
}

impl Stores {
    /// Executes a call.
    pub fn execute(&self, call: &Call) -> Reply {
        match call {
            Call::Redis(name, args) => Reply::Redis(self.redis.call(name, args)),
            Call::Sql(statement, params) => Reply::Sql(self.ledger.call(statement, params.clone())),
            Call::Provider(call) => Reply::Provider(Ok(self.ask_provider(call))),
            Call::Wait(until) => {
                self.redis.set_time(*until);
                Reply::Waited
            }
        }
    }

    /// The provider's answer: the id of a session, the payment of a closed session or nothing, or the id of a refund.
    fn ask_provider(&self, call: &ProviderCall) -> String {
        let mut facts = self.provider.borrow_mut();
        match call {
            ProviderCall::Open { order_no, session_number } => format!("cs-{order_no}-{session_number}"),
            ProviderCall::Close { session } if facts.contains(&format!("paid {session}")) => format!("pay-{session}"),
            ProviderCall::Close { session } => {
                facts.insert(format!("closed {session}"));
                String::new()
            }
            ProviderCall::Refund { payment, failures } => {
                facts.insert(format!("refunded {payment} {failures}"));
                format!("re-{payment}-{failures}")
            }
        }
    }

    /// Runs a workflow alone, to its end.
    pub fn run<T>(&self, workflow: impl FnOnce(Ports) -> LocalBoxFuture<'static, T>) -> T {
        let mut process = Process::start(self.ledger.dialect(), workflow);
        for _ in 0..MAX_CALLS {
            if let Some(result) = process.result {
                return result;
            }
            for (id, call) in process.pending() {
                process.answer(id, self.execute(&call));
            }
        }
        panic!("a workflow never ends");
    }
}
