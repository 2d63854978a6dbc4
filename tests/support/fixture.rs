//! The fixture of the workflow tests: one activity in a real Redis and a real ledger.
//!
//! Its methods run the workflows of buyers, providers, operators, the order writer and the sweeper.

mod losses;
mod paying;
mod sweeping;

use std::{
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use dev::{postgres::Postgres, redis::Redis as RedisServer};
use domain::{
    activity::{ActivitySpec, ActivityState, Sku},
    http::problem::Code,
    ids::{ActivityId, OrderNo, SkuId, UserId},
    order::OrderStatus,
    time::Millis,
};
use operations::{
    commands::{
        activities::{OperationOutcome, OperatorContext},
        audit,
    },
    upkeep::{
        budget::Budget,
        rebuild::{Rebuild, RebuildOutcome},
    },
};
use orders::ledger::{order_changes::Canceller, order_rows};
use payments::commands::{self, CommandOutcome};
use sale::{
    ledger::activities::{self, Activity},
    reserve::{Position, ReserveOutcome, ReserveReply, ReserveRequest, reserve},
};
use stores::{
    Redis, Sql, StoreError,
    keys::Keys,
    ledger::schema,
    ports::{RedisArg, RedisValue, SqlValue},
};
use tempfile::TempDir;
use ulid::Ulid;

pub use self::{
    losses::{RedisSnapshot, check_gates},
    paying::DUE,
    sweeping::{Services, completed, sweeper},
};
use crate::{
    poll::eventually,
    stores::{RealLedger, RealRedis},
};

/// Secret of start keys.
pub const TICKET_SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";

/// Servers that all tests share. Each test has its own activity, and its own database file or schema.
pub struct Servers {
    redis: RedisServer,
    /// PostgreSQL.
    pub postgres: Postgres,
    temp_dir: TempDir,
}

/// Starts the servers on the first call.
pub fn servers() -> &'static Servers {
    static SERVERS: OnceLock<Servers> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let temp_dir = TempDir::new().unwrap();
        Servers {
            redis: RedisServer::ephemeral(temp_dir.path()).unwrap(),
            postgres: Postgres::ephemeral().unwrap(),
            temp_dir,
        }
    })
}

/// The ledgers on which tests run.
pub const LEDGERS: [&str; 2] = ["sqlite", "postgres"];

/// An activity and its stores.
pub struct Fixture<R, S> {
    /// Redis, possibly wrapped to fail or to interleave.
    pub redis: R,
    /// The ledger, possibly wrapped alike.
    pub sql: S,
    /// The activity's id.
    pub activity: ActivityId,
    /// Its only SKU.
    pub sku: SkuId,
    /// Its current start key.
    pub start_key: String,
    /// Live units that one user may hold of the SKU.
    pub per_user: i64,
}

/// Numbers activities and ledgers.
fn next_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Publishes a new activity with `total` units (-1: unlimited) on a new ledger (`sqlite` or `postgres`).
pub async fn new_fixture(ledger: &str, total: i64, per_user: i64) -> RealFixture {
    let number = next_number();
    let servers = servers();
    let client = redis::Client::open(servers.redis.url()).unwrap();
    let redis = RealRedis(client.get_multiplexed_async_connection().await.unwrap());
    let sql = match ledger {
        "sqlite" => RealLedger::sqlite(&Path::join(servers.temp_dir.path(), format!("{number}.db"))),
        "postgres" => RealLedger::postgres(&servers.postgres.url(), &format!("w{number}")).await,
        // A database that ignores punctuation when it sorts text, as English dictionaries do.
        _ => {
            let url = servers.postgres.url();
            let server = RealLedger::postgres(&url, "public").await;
            let create =
                "CREATE DATABASE english TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US-u-ka-shifted'";
            server.run(create, Vec::new()).await.unwrap();
            RealLedger::postgres(&format!("{}english", url.strip_suffix("postgres").unwrap()), "public").await
        }
    };
    publish(redis, sql, &activity_id(number), total, per_user).await
}

fn activity_id(number: u64) -> String {
    format!("sale-{}-{number}", std::process::id())
}

/// Creates the ledger's tables, and publishes an activity.
pub async fn publish<R: Redis, S: Sql>(redis: R, sql: S, id: &str, total: i64, per_user: i64) -> Fixture<R, S> {
    schema::migrate(&sql).await.unwrap();
    let mut fixture = Fixture {
        redis,
        sql,
        activity: ActivityId::parse(id).unwrap(),
        sku: SkuId::parse("phone").unwrap(),
        start_key: String::new(),
        per_user,
    };
    let spec = ActivitySpec {
        title: "A sale".to_owned(),
        titles: Default::default(),
        description: String::new(),
        descriptions: Default::default(),
        image: String::new(),
        starts_at: Millis(0),
        ends_at: Millis(4_000_000_000_000),
        pay_timeout_seconds: 300,
        pay_extension_seconds: 60,
        per_user,
        human_check: domain::activity::HumanCheck::None,
        min_difficulty: 1,
        eligibility: domain::activity::Eligibility::default(),
        checkout: domain::activity::Checkout::Form,
        rehearsal: false,
        line: Default::default(),
        refund_restocks: true,
        refund_window_seconds: None,
        max_wait_seconds: 60,
        limits: domain::activity::Limits { user: Some(None), ip: Some(None), all: Some(None) },
        skus: vec![Sku {
            sku: fixture.sku.clone(),
            name: "Phone".to_owned(),
            names: Default::default(),
            item: String::new(),
            items: Default::default(),
            image: String::new(),
            price: 100,
            currency: "EUR".to_owned(),
            total,
        }],
    };
    fixture.publish(spec).await;
    fixture
}

impl<R, S> Fixture<R, S> {
    /// The same activity on other stores.
    #[must_use]
    pub fn with_stores<R2, S2>(&self, redis: R2, sql: S2) -> Fixture<R2, S2> {
        let Self { activity, sku, start_key, per_user, .. } = self;
        let (activity, sku, start_key) = (activity.clone(), sku.clone(), start_key.clone());
        Fixture { redis, sql, activity, sku, start_key, per_user: *per_user }
    }

    /// The same activity on the stores that `wrap` makes of these.
    pub fn map_stores<R2, S2>(self, wrap: impl FnOnce(R, S) -> (R2, S2)) -> Fixture<R2, S2> {
        let Self { redis, sql, activity, sku, start_key, per_user } = self;
        let (redis, sql) = wrap(redis, sql);
        Fixture { redis, sql, activity, sku, start_key, per_user }
    }
}

/// A fixture on real stores.
pub type RealFixture = Fixture<RealRedis, RealLedger>;

impl RealFixture {
    /// The same as a [`new_fixture`], on the stores of this one where that is faster.
    pub async fn renew(self, ledger: &str, total: i64, per_user: i64) -> Self {
        if matches!(self.sql, RealLedger::Sqlite(_)) {
            return new_fixture(ledger, total, per_user).await;
        }
        self.sql.clear().await;
        publish(self.redis, self.sql, &activity_id(next_number()), total, per_user).await
    }
}

/// The address of the Redis server that all tests share.
pub fn redis_url() -> String {
    servers().redis.url()
}

/// Opens another connection to the fixture's ledger, which must be PostgreSQL.
pub async fn open_connection(fixture: &Fixture<RealRedis, RealLedger>) -> RealLedger {
    let rows = fixture.sql.run("SELECT CAST(current_schema() AS TEXT)", Vec::new()).await.unwrap();
    let SqlValue::Text(schema) = &rows[0][0] else { panic!("{rows:?}") };
    RealLedger::postgres(&servers().postgres.url(), schema).await
}

/// Commits on `holder`, a connection to PostgreSQL, when another connection waits for a lock that it holds.
pub async fn commit_when_blocking(holder: &RealLedger) {
    let waiting = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    eventually("another connection to wait", async || match holder.run(waiting, Vec::new()).await.unwrap()[0][0] {
        SqlValue::Int(1..) => Ok(()),
        ref other => Err(format!("{other:?}")),
    })
    .await;
    holder.run("COMMIT", Vec::new()).await.unwrap();
}

/// Lets a rebuild end in one call.
pub const WHOLE_REBUILD: Budget = Budget { time: Duration::MAX, batch_size: 500, ..Budget::REQUEST };

/// Lets a call of a rebuild drain, compare or restore one batch of one order.
pub const ONE_ORDER: Budget = Budget { time: Duration::ZERO, batch_size: 1, ..Budget::REQUEST };

/// A rebuild of `activity` at [`NOW`].
pub fn rebuild_of<'a, R, S>(redis: &'a R, sql: &'a S, activity: &'a ActivityId, budget: Budget) -> Rebuild<'a, R, S> {
    Rebuild { redis, sql, activity, ticket_secret: TICKET_SECRET, now: NOW, budget }
}

/// The operations of an operator on these stores, at [`NOW`].
pub fn operator<'a, R, S>(redis: &'a R, sql: &'a S) -> OperatorContext<'a, R, S> {
    let nonce = "nonce".to_owned();
    let (rebuild_budget, may_change_money) = (WHOLE_REBUILD, true);
    OperatorContext { redis, sql, ticket_secret: TICKET_SECRET, now: NOW, nonce, rebuild_budget, may_change_money }
}

/// The time that the workflows get unless a test sets another. Redis has its own clock.
pub const NOW: Millis = Millis(1_000_000_000_000);

impl<R: Redis, S: Sql> Fixture<R, S> {
    /// Publishes a new activity.
    async fn publish(&mut self, spec: ActivitySpec) {
        let saved = self.operator().put(&self.activity, spec, None).await.unwrap();
        assert!(matches!(saved, OperationOutcome::Done(_)), "{saved:?}");
        let published = self.set_state(ActivityState::Published).await;
        assert!(matches!(published, OperationOutcome::Done(_)), "{published:?}");
        self.start_key = domain::gate::start_key(TICKET_SECRET, &self.activity, "nonce").unwrap();
    }

    /// Publishes a second activity with the same stores and such a spec, and switches to it. Returns the id of the first.
    pub async fn publish_another(&mut self, change: impl FnOnce(&mut ActivitySpec)) -> ActivityId {
        let mut spec = self.stored().await.spec;
        change(&mut spec);
        let id = ActivityId::parse(&format!("{}-b", self.activity)).unwrap();
        let first = std::mem::replace(&mut self.activity, id);
        self.publish(spec).await;
        first
    }

    /// Loads the activity from the ledger.
    pub async fn stored(&self) -> Activity {
        activities::load(&self.sql, &self.activity).await.unwrap().expect("an activity")
    }

    /// Changes the activity's spec as an operator.
    pub async fn change_spec(&self, change: impl FnOnce(&mut ActivitySpec)) -> OperationOutcome {
        let mut spec = self.stored().await.spec;
        change(&mut spec);
        self.operator().put(&self.activity, spec, None).await.unwrap()
    }

    /// Changes the activity's state as an operator.
    pub async fn set_state(&self, state: ActivityState) -> OperationOutcome {
        self.operator().set_state(&self.activity, state).await.unwrap()
    }

    /// Adds units to the total as an operator.
    pub async fn restock(&self, by: i64) -> OperationOutcome {
        self.operator().restock(&self.activity, &self.sku, by, None).await.unwrap()
    }

    /// Runs a command of Redis, given as its words.
    pub async fn run_redis(&self, words: &[&str]) -> Vec<RedisValue> {
        let (name, args) = words.split_first().expect("a command");
        self.redis.command(name, args.iter().map(|word| RedisArg::from(*word)).collect()).await.unwrap()
    }

    /// Returns the activity's key of this name.
    pub fn key(&self, name: &str) -> String {
        Keys::of(&self.activity).named(name)
    }

    /// Sets the units that Redis has on sale, as if it were wrong.
    pub async fn set_stock(&self, units: i64) {
        self.run_redis(&["HSET", &self.key("stats"), &format!("left:{}", self.sku), &units.to_string()]).await;
    }

    /// The units that Redis has on sale.
    pub async fn stock(&self) -> i64 {
        let left = self.run_redis(&["HGET", &self.key("stats"), &format!("left:{}", self.sku)]).await;
        stores::reply::Reply::new(left).int().unwrap()
    }

    /// The units that a user holds or has bought, as Redis counts them for the user's limit.
    pub async fn held_by(&self, user: &str) -> i64 {
        let held = self.run_redis(&["HGET", &self.key("holders"), &format!("{}:{user}", self.sku)]).await;
        stores::reply::Reply::new(held).int().unwrap()
    }

    /// The operations of an operator on these stores, at [`NOW`].
    pub fn operator(&self) -> OperatorContext<'_, R, S> {
        operator(&self.redis, &self.sql)
    }

    /// Runs one call of a rebuild.
    pub async fn rebuild(&self, budget: Budget) -> Result<RebuildOutcome, StoreError> {
        rebuild_of(&self.redis, &self.sql, &self.activity, budget).run(None).await
    }

    /// Returns the number of the order that ticket `n` makes.
    pub fn order_no(&self, n: u64) -> OrderNo {
        OrderNo::new(self.activity.clone(), Ulid::from_parts(1, u128::from(n)))
    }

    /// Reserves `quantity` units with ticket `n`.
    pub async fn reserve(&self, n: u64, user: &str, quantity: i64) -> Result<ReserveReply, StoreError> {
        reserve(&self.redis, &self.reservation(n, user, quantity), true).await
    }

    /// Reserves `quantity` units with ticket `n`. Returns the code of a refusal, and `None` if the order is queued.
    pub async fn refusal(&self, n: u64, user: &str, quantity: i64) -> Option<Code> {
        match self.reserve(n, user, quantity).await.unwrap().outcome {
            ReserveOutcome::Queued(_) => None,
            ReserveOutcome::Refused(code, _) => Some(code),
            ReserveOutcome::InsufficientStock(_) => Some(Code::InsufficientStock),
            ReserveOutcome::PriceChanged(_) => Some(Code::PriceChanged),
            ReserveOutcome::OnlyOneByOne => Some(Code::SoldOut),
            ReserveOutcome::WaitsAlready(_) => Some(Code::LimitReached),
        }
    }

    /// Reserves a unit with each of these tickets, for a user of its own.
    pub async fn queue_orders(&self, tickets: impl IntoIterator<Item = u64>) {
        for n in tickets {
            assert_eq!(self.refusal(n, &format!("user {n}"), 1).await, None);
        }
    }

    /// The reservation of `quantity` units with ticket `n`.
    pub fn reservation(&self, n: u64, user: &str, quantity: i64) -> ReserveRequest {
        ReserveRequest {
            order_no: self.order_no(n),
            user: UserId::parse(user).unwrap(),
            sku: self.sku.clone(),
            quantity,
            amount: None,
            start_key: self.start_key.clone(),
            ip: "127.0.0.1".to_owned(),
            decide_until: Millis(i64::MAX),
            last_order: Position::default(),
            counts: Vec::new(),
        }
    }

    /// Reserves with ticket `n` and writes the order to the ledger.
    pub async fn pending_order(&self, n: u64, user: &str, quantity: i64) -> OrderNo {
        assert_eq!(self.refusal(n, user, quantity).await, None);
        self.write_batch().await.unwrap();
        self.order_no(n)
    }

    /// Cancels an order as its buyer.
    pub async fn cancel(&self, order_no: &OrderNo) -> Result<CommandOutcome, StoreError> {
        let cancelled = commands::cancel(&self.sql, order_no, Canceller::Buyer, NOW).await?;
        cancelled.sync(&self.redis).await;
        Ok(cancelled.outcome)
    }

    /// Returns an order's status in the ledger.
    pub async fn ledger_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        order_rows::load(&self.sql, order_no).await.unwrap().map(|row| row.order.status)
    }

    /// Returns an order's status in Redis.
    pub async fn redis_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        orders::status::load_order(&self.redis, order_no).await.unwrap().order.map(|order| order.status)
    }

    /// Asserts that an order has this status in the ledger and in Redis.
    pub async fn assert_status(&self, order_no: &OrderNo, status: OrderStatus, context: &str) {
        let found = (self.ledger_status(order_no).await, self.redis_status(order_no).await);
        assert_eq!(found, (Some(status), Some(status)), "{context}");
    }

    /// Returns left, held and sold units in Redis. Asserts that the audit passes, that the ledger's counters are right, and
    /// that the stores agree if no order is queued.
    pub async fn units(&self) -> (i64, i64, i64) {
        self.check_revenue().await;
        let audit = audit::audit(&self.redis, &self.sql, &self.activity, self.per_user).await.unwrap().unwrap();
        assert!(audit.ok, "{audit:#?}");
        let sku = &audit.skus[0];
        if audit.queue == 0 {
            assert_eq!(sku.drift, 0, "{audit:#?}");
        }
        (sku.redis.left.unwrap(), sku.redis.held, sku.redis.sold)
    }
}
