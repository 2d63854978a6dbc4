//! The fixture of the workflow tests: one activity in a real Redis and a real ledger.
//!
//! Its methods run the workflows of buyers, providers, operators, the order writer and the sweeper.

mod losses;
mod paying;

use std::{
    collections::BTreeSet,
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
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    order::OrderStatus,
    time::Millis,
    webhook::ProviderCallback,
};
use operations::{
    commands::{
        activities::{OperationOutcome, OperatorContext},
        audit,
    },
    upkeep::{
        budget::Budget,
        passes,
        rebuild::{Rebuild, RebuildOutcome},
    },
};
use orders::{ledger::order_rows, message_batch, order_writer};
use payments::{
    callbacks::{self, CallbackEffect},
    commands::{self, CommandOutcome},
    ledger::callback_rows::{self, RecordIf},
    provider::Provider,
    refunds,
};
use sale::{
    ledger::activities,
    reserve::{ReserveOutcome, ReserveReply, ReserveRequest, reserve},
};
use stores::{Redis, Sql, StoreError, ledger::schema, ports::SqlValue};
use tempfile::TempDir;
use ulid::Ulid;

pub use self::{
    losses::{RedisSnapshot, check_gates},
    paying::DUE,
};
use crate::stores::{RealLedger, RealRedis};

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
    let fixture = Fixture {
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
        refund_restocks: true,
        refund_window_seconds: None,
        max_wait_seconds: 60,
        limits: domain::activity::Limits { user: Some(None), ip: Some(None), all: Some(None) },
        skus: vec![Sku {
            sku: fixture.sku.clone(),
            name: "Phone".to_owned(),
            names: Default::default(),
            image: String::new(),
            price: 100,
            currency: "EUR".to_owned(),
            total,
        }],
    };
    assert!(matches!(fixture.operator().put(&fixture.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
    assert!(matches!(
        fixture.operator().set_state(&fixture.activity, ActivityState::Published).await.unwrap(),
        OperationOutcome::Done(_)
    ));
    let start_key = domain::gate::start_key(TICKET_SECRET, &fixture.activity, "nonce").unwrap();
    Fixture { start_key, ..fixture }
}

impl<R, S> Fixture<R, S> {
    /// The same activity on other stores.
    #[must_use]
    pub fn with_stores<R2, S2>(&self, redis: R2, sql: S2) -> Fixture<R2, S2> {
        let Self { activity, sku, start_key, per_user, .. } = self;
        let (activity, sku, start_key) = (activity.clone(), sku.clone(), start_key.clone());
        Fixture { redis, sql, activity, sku, start_key, per_user: *per_user }
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

    /// Publishes a second activity with the same spec and stores, and switches to it. Returns the id of the first.
    pub async fn publish_second_activity(&mut self) -> ActivityId {
        let spec = activities::load(&self.sql, &self.activity).await.unwrap().unwrap().spec;
        let id = ActivityId::parse(&format!("{}-b", self.activity)).unwrap();
        let first = std::mem::replace(&mut self.activity, id);
        assert!(matches!(self.operator().put(&self.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
        assert!(matches!(
            self.operator().set_state(&self.activity, ActivityState::Published).await.unwrap(),
            OperationOutcome::Done(_)
        ));
        self.start_key = domain::gate::start_key(TICKET_SECRET, &self.activity, "nonce").unwrap();
        first
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

/// Lets a rebuild end in one call.
pub const WHOLE_REBUILD: Budget = Budget { time: Duration::MAX, batch_size: 500 };

/// Lets a call of a rebuild drain, compare or restore one batch of one order.
pub const ONE_ORDER: Budget = Budget { time: Duration::ZERO, batch_size: 1 };

/// A rebuild of `activity` at [`NOW`].
pub fn rebuild_of<'a, R, S>(redis: &'a R, sql: &'a S, activity: &'a ActivityId, budget: Budget) -> Rebuild<'a, R, S> {
    Rebuild { redis, sql, activity, ticket_secret: TICKET_SECRET, now: NOW, budget }
}

/// The time that the workflows get unless a test sets another. Redis has its own clock.
pub const NOW: Millis = Millis(1_000_000_000_000);

impl<R: Redis, S: Sql> Fixture<R, S> {
    /// The operations of an operator on these stores, at [`NOW`].
    pub fn operator(&self) -> OperatorContext<'_, R, S> {
        OperatorContext {
            redis: &self.redis,
            sql: &self.sql,
            ticket_secret: TICKET_SECRET,
            now: NOW,
            nonce: "nonce".to_owned(),
            rebuild_budget: WHOLE_REBUILD,
            may_change_money: true,
        }
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

    /// The reservation of `quantity` units with ticket `n`.
    pub fn reservation(&self, n: u64, user: &str, quantity: i64) -> ReserveRequest {
        ReserveRequest {
            order_no: self.order_no(n),
            user: UserId::parse(user).unwrap(),
            sku: self.sku.clone(),
            quantity,
            start_key: self.start_key.clone(),
            ip: "127.0.0.1".to_owned(),
            decide_until: Millis(i64::MAX),
            counts: Vec::new(),
        }
    }

    /// Reserves with ticket `n` and writes the order to the ledger.
    pub async fn pending_order(&self, n: u64, user: &str, quantity: i64) -> OrderNo {
        let reply = self.reserve(n, user, quantity).await.unwrap();
        assert!(matches!(reply.outcome, ReserveOutcome::Queued(_)), "{reply:?}");
        self.write_batch().await.unwrap();
        self.order_no(n)
    }

    /// Creates a paid order of one unit.
    pub async fn paid_order(&self, n: u64, user: &str) -> OrderNo {
        let order_no = self.pending_order(n, user, 1).await;
        self.payment_succeeded(&order_no, "e").await.unwrap();
        order_no
    }

    /// Creates a paid order of one unit whose buyer requested a refund.
    pub async fn refunding_order(&self, n: u64, user: &str) -> OrderNo {
        let order_no = self.paid_order(n, user).await;
        assert!(matches!(self.request_refund(&order_no).await.unwrap(), CommandOutcome::Done(_)));
        order_no
    }

    /// Cancels an order as its buyer.
    pub async fn cancel(&self, order_no: &OrderNo) -> Result<CommandOutcome, StoreError> {
        commands::cancel(&self.redis, &self.sql, order_no, NOW).await
    }

    /// Requests a refund as the order's buyer.
    pub async fn request_refund(&self, order_no: &OrderNo) -> Result<CommandOutcome, StoreError> {
        commands::request_refund(&self.redis, &self.sql, order_no, NOW).await
    }

    /// Sends due refunds as the sweeper does, `ms` milliseconds after [`NOW`].
    pub async fn send_refunds<P: Provider>(&self, provider: &P, ms: i64) -> Result<refunds::SendReport, StoreError> {
        refunds::send_due(&self.redis, &self.sql, provider, NOW.plus(ms), 10).await
    }

    /// Runs one batch of the order writer.
    pub async fn write_batch(&self) -> Result<message_batch::WriteReport, StoreError> {
        order_writer::write_new(&self.redis, &self.sql, &self.activity, NOW).await
    }

    /// Writes one batch of messages that were read and not acknowledged.
    pub async fn write_reclaimed(&self) -> Result<message_batch::WriteReport, StoreError> {
        order_writer::write_reclaimed(&self.redis, &self.sql, &self.activity, NOW, 0).await
    }

    /// Applies the callback that the order's full amount was paid. The callback's id is `<event>-<order number>`.
    pub async fn payment_succeeded(&self, order_no: &OrderNo, event: &str) -> Result<CallbackEffect, StoreError> {
        let amount = match order_rows::load(&self.sql, order_no).await? {
            Some(row) => row.order.money.amount,
            None => 0,
        };
        self.apply_callback("payment.succeeded", order_no, event, amount).await
    }

    /// Applies the callback that the order's full amount was refunded.
    pub async fn refund_succeeded(&self, order_no: &OrderNo, event: &str) -> Result<CallbackEffect, StoreError> {
        let amount = order_rows::load(&self.sql, order_no).await?.map_or(0, |row| row.order.money.amount);
        self.apply_callback("refund.succeeded", order_no, event, amount).await
    }

    /// Applies the callback that a session ended unpaid.
    pub async fn session_ended(
        &self,
        order_no: &OrderNo,
        session: &str,
        event: &str,
    ) -> Result<CallbackEffect, StoreError> {
        let callback = ProviderCallback {
            id: format!("{event}-{order_no}"),
            kind: "session.ended".to_owned(),
            order_no: order_no.to_string(),
            session_id: session.to_owned(),
            ..ProviderCallback::default()
        };
        callbacks::apply(&self.redis, &self.sql, &callback, NOW).await
    }

    /// Returns the checkout URL that polling shows, from Redis.
    pub async fn redis_checkout_url(&self, order_no: &OrderNo) -> Option<String> {
        orders::status::load_order(&self.redis, order_no).await.unwrap().order.and_then(|order| order.checkout_url)
    }

    /// Applies a callback of type `kind` about payment `pay-<order number>`. `amount` is in cents.
    pub async fn apply_callback(
        &self,
        kind: &str,
        order_no: &OrderNo,
        event: &str,
        amount: i64,
    ) -> Result<CallbackEffect, StoreError> {
        let callback = ProviderCallback {
            id: format!("{event}-{order_no}"),
            kind: kind.to_owned(),
            order_no: order_no.to_string(),
            payment_id: format!("pay-{order_no}"),
            money: Money::new(amount, "EUR"),
            ..ProviderCallback::default()
        };
        callbacks::apply(&self.redis, &self.sql, &callback, NOW).await
    }

    /// Records the callback that one unit's price was paid, without applying it: as if an operator had a parked callback
    /// applied again, and the app died.
    pub async fn record_payment(&self, order_no: &OrderNo, received_at: Millis) {
        let callback = ProviderCallback {
            id: format!("recorded-{order_no}"),
            kind: "payment.succeeded".to_owned(),
            order_no: "held".to_owned(),
            payment_id: "pay".to_owned(),
            money: Money::new(100, "EUR"),
            ..ProviderCallback::default()
        };
        callback_rows::record(&self.sql, &callback, RecordIf::Always, received_at).await.unwrap();
        let statement = "UPDATE callbacks SET order_no = ?2, outcome = '' WHERE id = ?1";
        self.sql.run(statement, vec![callback.id.into(), order_no.to_string().into()]).await.unwrap();
    }

    /// Expires one batch of due orders, one hour after [`NOW`]. Returns how many.
    pub async fn expire_orders(&self) -> Result<usize, StoreError> {
        passes::expire(&self.redis, &self.sql, &self.activity, NOW.plus(3_600_000), None).await
    }

    /// Writes, syncs and applies what a crash left behind, two hours after [`NOW`], until nothing is left.
    pub async fn recover(&self) {
        let later = NOW.plus(7_200_000);
        for _ in 0..20 {
            let reclaimed = self.write_reclaimed().await.unwrap();
            let new = order_writer::write_new(&self.redis, &self.sql, &self.activity, NOW).await.unwrap();
            let (examined, _) = passes::sync(&self.redis, &self.sql, &self.activity, later).await.unwrap();
            let pending = callbacks::apply_pending(&self.redis, &self.sql, later, 100, &BTreeSet::new()).await.unwrap();
            assert_eq!(pending.failures, [], "a store failed on the recovery");
            if reclaimed.messages + new.messages + examined + pending.visited == 0 {
                return;
            }
        }
        panic!("the sweeper still found work after 20 runs");
    }

    /// Returns an order's status in the ledger.
    pub async fn ledger_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        order_rows::load(&self.sql, order_no).await.unwrap().map(|row| row.order.status)
    }

    /// Returns an order's status in Redis.
    pub async fn redis_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        orders::status::load_order(&self.redis, order_no).await.unwrap().order.map(|order| order.status)
    }

    /// Returns left, held and sold units in Redis. Asserts that the audit passes, and that the stores agree if no order
    /// is queued.
    pub async fn units(&self) -> (i64, i64, i64) {
        let audit = audit::audit(&self.redis, &self.sql, &self.activity, self.per_user).await.unwrap().unwrap();
        assert!(audit.ok, "{audit:#?}");
        let sku = &audit.skus[0];
        if audit.queue == 0 {
            assert_eq!(sku.drift, 0, "{audit:#?}");
        }
        (sku.redis.left.unwrap(), sku.redis.held, sku.redis.sold)
    }

    /// Claims all due refunds, 10,000 s after [`NOW`], and returns how many there were.
    pub async fn claim_open_refunds(&self) -> usize {
        payments::ledger::refunds::claim_due(&self.sql, NOW.plus(10_000_000), 1_000).await.unwrap().len()
    }
}
