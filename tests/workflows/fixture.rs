//! A sale in a real Redis and a real ledger, and the verbs that move it.

use std::{
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use dev::{postgres::Postgres, redis::Redis as RedisServer, temp_dir::TempDir};
use domain::{
    activity::{ActivitySpec, ActivityState, Sku},
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    order::OrderStatus,
    time::Millis,
    webhook::ProviderEvent,
};
use ulid::Ulid;
use workflows::{
    Redis, Sql, StoreError,
    hot::reserve::{ReserveOutcome, ReserveReply, ReserveRequest, reserve},
    ledger::{activities, orders, schema},
    operator::{
        activities::{OperationOutcome, OperatorContext},
        audit,
    },
    payments::{
        callbacks::{self, CallbackOutcome},
        commands::{self, CommandOutcome},
        provider::Provider,
        refunds,
    },
    ports::SqlValue,
    queue::order_writer,
    recovery::sweep,
};

use crate::stores::{RealLedger, RealRedis};

/// What start keys are made with.
pub const TICKET_SECRET: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";

/// Servers that all tests share; each test has a sale of its own.
struct Servers {
    redis: RedisServer,
    postgres: Postgres,
    temp_dir: TempDir,
}

fn servers() -> &'static Servers {
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

/// The ledgers that every test runs on.
pub const LEDGERS: [&str; 2] = ["sqlite", "postgres"];

/// A sale, its stores, and a clock of its own for the ledger.
pub struct Fixture<R, S> {
    /// Redis, perhaps one that dies at some call.
    pub redis: R,
    /// The ledger, perhaps one that dies at some call.
    pub sql: S,
    /// The sale.
    pub activity: ActivityId,
    /// What is on sale.
    pub sku: SkuId,
    /// Its start key.
    pub start_key: String,
    /// Units that one user may hold.
    pub per_user: i64,
}

/// A sale of `total` units in a fresh corner of the real stores.
pub async fn new_fixture(ledger: &str, total: i64, per_user: i64) -> Fixture<RealRedis, RealLedger> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let servers = servers();
    let client = redis::Client::open(servers.redis.url()).unwrap();
    let redis = RealRedis(client.get_multiplexed_async_connection().await.unwrap());
    let sql = match ledger {
        "sqlite" => RealLedger::sqlite(&Path::join(servers.temp_dir.path(), format!("{number}.db"))),
        _ => RealLedger::postgres(&servers.postgres.url(), &format!("w{number}")).await,
    };
    schema::migrate(&sql).await.unwrap();
    let fixture = Fixture {
        redis,
        sql,
        activity: ActivityId::parse(&format!("sale-{}-{number}", std::process::id())).unwrap(),
        sku: SkuId::parse("phone").unwrap(),
        start_key: String::new(),
        per_user,
    };
    let spec = ActivitySpec {
        title: "A sale".to_owned(),
        description: String::new(),
        image: String::new(),
        starts_at: Millis(0),
        ends_at: Millis(4_000_000_000_000),
        pay_timeout_seconds: 300,
        pay_extension_seconds: 60,
        per_user,
        human_check: domain::activity::HumanCheck::None,
        eligibility: domain::activity::Eligibility::default(),
        refund_restocks: true,
        max_wait_seconds: 60,
        limits: domain::activity::Limits { user: Some(None), ip: Some(None), all: Some(None) },
        skus: vec![Sku {
            sku: fixture.sku.clone(),
            name: "Phone".to_owned(),
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

impl Fixture<RealRedis, RealLedger> {
    /// Goes on with another sale in the same stores, alike; answers the one of before.
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

/// Another connection to the ledger of a sale on PostgreSQL.
pub async fn open_connection(fixture: &Fixture<RealRedis, RealLedger>) -> RealLedger {
    let rows = fixture.sql.run("SELECT CAST(current_schema() AS TEXT)", Vec::new()).await.unwrap();
    let SqlValue::Text(schema) = &rows[0][0] else { panic!("{rows:?}") };
    RealLedger::postgres(&servers().postgres.url(), schema).await
}

/// The moment at which everything happens unless a test says otherwise.
pub const NOW: Millis = Millis(1_000_000_000_000);

impl<R: Redis, S: Sql> Fixture<R, S> {
    /// The operators' desk.
    pub fn operator(&self) -> OperatorContext<'_, R, S> {
        OperatorContext {
            redis: &self.redis,
            sql: &self.sql,
            ticket_secret: TICKET_SECRET,
            now: NOW,
            nonce: "nonce".to_owned(),
        }
    }

    /// The number of the order that ticket `n` makes.
    pub fn order_no(&self, n: u64) -> OrderNo {
        OrderNo::new(self.activity.clone(), Ulid::from_parts(1, u128::from(n)))
    }

    /// Reserves with ticket `n`.
    pub async fn reserve(&self, n: u64, user: &str, quantity: i64) -> Result<ReserveReply, StoreError> {
        let reservation = ReserveRequest {
            order_no: self.order_no(n),
            user: UserId::parse(user).unwrap(),
            sku: self.sku.clone(),
            quantity,
            start_key: self.start_key.clone(),
            ip: "127.0.0.1".to_owned(),
            abuse_by_ip: Vec::new(),
        };
        reserve(&self.redis, &reservation, true).await
    }

    /// Reserves with ticket `n`, and has it written.
    pub async fn pending_order(&self, n: u64, user: &str, quantity: i64) -> OrderNo {
        let reply = self.reserve(n, user, quantity).await.unwrap();
        assert!(matches!(reply.outcome, ReserveOutcome::Queued(_)), "{reply:?}");
        self.write_batch().await.unwrap();
        self.order_no(n)
    }

    /// An order of one unit that is paid.
    pub async fn paid_order(&self, n: u64, user: &str) -> OrderNo {
        let order_no = self.pending_order(n, user, 1).await;
        self.payment_succeeded(&order_no, "e").await.unwrap();
        order_no
    }

    /// An order of one unit whose buyer wants the money back.
    pub async fn refunding_order(&self, n: u64, user: &str) -> OrderNo {
        let order_no = self.paid_order(n, user).await;
        assert!(matches!(self.request_refund(&order_no).await.unwrap(), CommandOutcome::Done(_)));
        order_no
    }

    /// The buyer cancels.
    pub async fn cancel(&self, order_no: &OrderNo) -> Result<CommandOutcome, StoreError> {
        commands::cancel(&self.redis, &self.sql, order_no, NOW).await
    }

    /// The buyer wants the money back.
    pub async fn request_refund(&self, order_no: &OrderNo) -> Result<CommandOutcome, StoreError> {
        commands::request_refund(&self.redis, &self.sql, order_no, NOW).await
    }

    /// What a sweep does about refunds, `ms` after everything happened.
    pub async fn send_refunds<P: Provider>(&self, provider: &P, ms: i64) -> Result<refunds::SendReport, StoreError> {
        refunds::send_due(&self.redis, &self.sql, provider, NOW.plus(ms), 10).await
    }

    /// One batch of the order writer.
    pub async fn write_batch(&self) -> Result<order_writer::WriteReport, StoreError> {
        order_writer::write_new(&self.redis, &self.sql, &self.activity, NOW).await
    }

    /// What a provider says when an order was paid.
    pub async fn payment_succeeded(&self, order_no: &OrderNo, event: &str) -> Result<CallbackOutcome, StoreError> {
        let amount = match orders::load(&self.sql, order_no).await? {
            Some(row) => row.order.money.amount,
            None => 0,
        };
        self.apply_callback("payment.succeeded", order_no, event, amount).await
    }

    /// What a provider says when the money of an order is back.
    pub async fn refund_succeeded(&self, order_no: &OrderNo, event: &str) -> Result<CallbackOutcome, StoreError> {
        let amount = orders::load(&self.sql, order_no).await?.map_or(0, |row| row.order.money.amount);
        self.apply_callback("refund.succeeded", order_no, event, amount).await
    }

    /// What a provider says when a session has ended unpaid.
    pub async fn session_ended(
        &self,
        order_no: &OrderNo,
        session: &str,
        event: &str,
    ) -> Result<CallbackOutcome, StoreError> {
        let event = ProviderEvent {
            id: format!("{event}-{order_no}"),
            kind: "session.ended".to_owned(),
            order_no: order_no.to_string(),
            session: session.to_owned(),
            ..ProviderEvent::default()
        };
        callbacks::apply(&self.redis, &self.sql, &event, NOW).await
    }

    /// Where whoever polls is sent to pay.
    pub async fn redis_checkout_url(&self, order_no: &OrderNo) -> Option<String> {
        workflows::hot::status::load_order(&self.redis, order_no).await.unwrap().1.and_then(|order| order.checkout_url)
    }

    /// What a provider says, in full.
    pub async fn apply_callback(
        &self,
        kind: &str,
        order_no: &OrderNo,
        event: &str,
        amount: i64,
    ) -> Result<CallbackOutcome, StoreError> {
        let event = ProviderEvent {
            id: format!("{event}-{order_no}"),
            kind: kind.to_owned(),
            order_no: order_no.to_string(),
            payment: format!("pay-{order_no}"),
            money: Money::new(amount, "EUR"),
            ..ProviderEvent::default()
        };
        callbacks::apply(&self.redis, &self.sql, &event, NOW).await
    }

    /// Lets every unpaid order run out of time.
    pub async fn expire_orders(&self) -> Result<usize, StoreError> {
        sweep::expire(&self.redis, &self.sql, NOW.plus(3_600_000), None).await
    }

    /// Everything that a sweeper does, as if all waiting times had passed.
    pub async fn recover(&self) {
        let later = NOW.plus(7_200_000);
        for _ in 0..20 {
            let reclaimed =
                order_writer::write_reclaimed(&self.redis, &self.sql, &self.activity, NOW, 0).await.unwrap();
            let new = order_writer::write_new(&self.redis, &self.sql, &self.activity, NOW).await.unwrap();
            let settled = sweep::settle(&self.redis, &self.sql, later, &mut 0).await.unwrap();
            let finished = callbacks::apply_pending(&self.redis, &self.sql, later, 100, &mut 0).await.unwrap();
            if reclaimed.messages + new.messages + settled + finished == 0 {
                return;
            }
        }
        panic!("the sweeper found work twenty times over");
    }

    /// Where the ledger has an order.
    pub async fn ledger_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        orders::load(&self.sql, order_no).await.unwrap().map(|row| row.order.status)
    }

    /// Where Redis has an order.
    pub async fn redis_status(&self, order_no: &OrderNo) -> Option<OrderStatus> {
        workflows::hot::status::load_order(&self.redis, order_no).await.unwrap().1.map(|order| order.status)
    }

    /// Left, held and sold, after checking that every invariant holds and, at rest, that the stores agree.
    pub async fn units(&self) -> (i64, i64, i64) {
        let audit = audit::audit(&self.redis, &self.sql, &self.activity, self.per_user).await.unwrap().unwrap();
        assert!(audit.ok, "{audit:#?}");
        let sku = &audit.skus[0];
        if audit.queue == 0 {
            assert_eq!(sku.drift, 0, "{audit:#?}");
        }
        (sku.redis.left.unwrap(), sku.redis.held, sku.redis.sold)
    }

    /// Refunds that are still to be done.
    pub async fn open_refund_count(&self) -> usize {
        workflows::ledger::refunds::claim_due(&self.sql, NOW.plus(10_000_000), 1_000).await.unwrap().len()
    }
}
