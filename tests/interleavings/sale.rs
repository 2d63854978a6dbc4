//! The state that schedules start from.

use std::{
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use domain::activity::{ActivitySpec, LineMode};
use futures::future::FutureExt;
use orders::ledger::order_changes::{self, Canceller};
use payments::callbacks::{self, CallbackEffect};
use tokio::runtime::Runtime;

use crate::{
    fixture::{Fixture, NOW, publish, servers},
    invariants::check,
    scheduler::{
        Outcome, Ports,
        plan::{Ending, Faults, Plan},
        stores::{FrozenRedis, Ledger, Stores},
    },
    stores::RealLedger,
    workflow::{Checkout, Pay, PortsFixture, Workflow},
};

/// Where a schedule starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Order 1 waits for payment.
    Pending,
    /// Order 1 has expired.
    Expired,
    /// Order 1 is paid.
    Paid,
    /// There is an order for every step of a sweep: order 1 has an open payment session, the payment of order 4 is
    /// recorded and not applied, and the refund of order 5 is requested and not sent.
    Backlog,
    /// Order 1 waits for payment. Redis has accepted cyd's order 3 as well, and the ledger has no room for it.
    Refused,
    /// Order 1 waits for payment and has the only unit. Dan waits in the line, with ticket 4, then eli, whose entry is in the
    /// stream, with ticket 5.
    Line,
}

impl Start {
    /// The starts of pairs.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Expired, Self::Paid];
}

impl Start {
    /// The total of the SKU: one unit is left.
    pub fn total(self) -> i64 {
        match self {
            Self::Expired => 3,
            Self::Pending | Self::Paid => 4,
            Self::Backlog => 6,
            Self::Refused | Self::Line => 1,
        }
    }

    /// Order 1 of ada as the start says; the ledger has cancelled bob's order 2, and Redis does not know it; cyd's
    /// order 3 is in the stream.
    async fn prepare(self, ports: Ports) -> PortsFixture {
        let fixture = publish(ports.clone(), ports.clone(), "sale", self.total(), 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        match self {
            Self::Pending => {}
            Self::Refused => {
                fixture.set_stock(1).await;
                fixture.reserve(3, "cyd", 1).await.unwrap();
                return fixture;
            }
            Self::Line => {
                let open = |spec: &mut ActivitySpec| {
                    (spec.line.mode, spec.line.max_units) = (LineMode::Waitlist, Some(5));
                };
                fixture.change_spec(open).await;
                assert_eq!(fixture.refusal(4, "dan", 1).await, None);
                fixture.write_batch().await.unwrap();
                assert_eq!(fixture.refusal(5, "eli", 1).await, None);
                return fixture;
            }
            Self::Backlog => {
                assert_eq!(Checkout.run(fixture.with_stores(ports.clone(), ports)).await, Ok(Outcome::Done));
                let eves = fixture.pending_order(4, "eve", 1).await;
                fixture.record_payment(&eves, NOW).await;
                fixture.refunding_order(5, "fay").await;
            }
            Self::Expired => assert_eq!(fixture.expire_orders().await.unwrap(), 1),
            Self::Paid => {
                let paid = callbacks::apply(&fixture.redis, &fixture.sql, &Pay.callback(&order_no), NOW).await;
                assert_eq!(paid.unwrap(), CallbackEffect::Changed);
            }
        }
        let bobs = fixture.pending_order(2, "bob", 1).await;
        order_changes::cancel(&fixture.sql, &bobs, Canceller::Buyer, NOW).await.unwrap().unwrap();
        fixture.reserve(3, "cyd", 1).await.unwrap();
        fixture
    }
}

/// The stores at the start of schedules.
pub struct Sale {
    pub stores: Stores,
    fixture: Fixture<(), ()>,
    pub start: Start,
}

impl Sale {
    pub fn new(ledger: &str, start: Start) -> Self {
        let runtime = Rc::new(Runtime::new().unwrap());
        let inner = match ledger {
            "sqlite" => RealLedger::Sqlite(rusqlite::Connection::open_in_memory().unwrap().into()),
            _ => {
                static COUNT: AtomicU64 = AtomicU64::new(0);
                let schema = format!("interleavings_{}", COUNT.fetch_add(1, Ordering::Relaxed));
                runtime.block_on(RealLedger::postgres(&servers().postgres.url(), &schema))
            }
        };
        if let RealLedger::Sqlite(connection) = &inner {
            connection.lock().unwrap().set_prepared_statement_cache_capacity(500);
        }
        let stores =
            Stores { redis: FrozenRedis::start(), ledger: Ledger::new(inner, runtime), provider: Default::default() };
        let fixture = stores.run(|ports| start.prepare(ports).boxed_local());
        Self { stores, fixture: fixture.with_stores((), ()), start }
    }

    /// Makes the plan of a schedule for `run`.
    pub fn with_plan<T>(&self, workflows: &[Workflow], faults: Faults, run: impl FnOnce(&Plan<'_>) -> T) -> T {
        let fixture = |ports: Ports| self.fixture.with_stores(ports.clone(), ports);
        let start = |index: usize, ports: Ports| {
            let run = workflows[index].run(fixture(ports));
            async move { run.await.unwrap_or(Outcome::Unknown) }.boxed_local()
        };
        let check = |ports: Ports, ending: Ending| {
            let (fixture, workflows, start) = (fixture(ports), workflows.to_vec(), self.start);
            async move { check(&fixture, &workflows, start, &ending).await }.boxed_local()
        };
        let names = workflows.iter().enumerate().map(|(index, workflow)| format!("{workflow:?} {index}")).collect();
        run(&Plan { names, start: &start, check: &check, faults })
    }
}
