//! The workflows of a schedule, on one order and on its sale.

use std::{cell::RefCell, time::Duration};

use domain::{
    activity::ActivityState,
    ids::{OrderNo, UserId},
    language::Language,
    money::Money,
    order::OrderStatus,
    settings::Retention,
    time::Millis,
    webhook::ProviderCallback,
};
use operations::{
    commands::{activities::OperationOutcome, audit::audit},
    upkeep::{
        passes,
        rebuild::RebuildOutcome,
        sweep::{SweepOutcome, Sweeper},
    },
};
use orders::{
    dead_letters::{self, RequeueOutcome},
    ledger::{
        order_changes::{self, Canceller},
        order_rows,
    },
    status::load_order_of,
};
use payments::{
    callbacks,
    checkout::{CheckoutError, checkout},
    commands::CommandOutcome,
    ledger::addresses::SealedAddress,
    refunds::send_due,
    sessions::close_due,
};
use sale::{
    line::{self, LeaveOutcome, Leaver},
    reserve::ReserveOutcome,
};
use stores::{
    Redis, Sql, StoreError,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    keys::Keys,
};

use crate::{
    fakes::FakeKeyValue,
    fixture::{Fixture, NOW, TICKET_SECRET, WHOLE_REBUILD},
    scheduler::{Outcome, Ports},
};

pub type PortsFixture = Fixture<Ports, Ports>;

/// When the sweeper syncs what is unsynced in the start: later than the grace period of a request.
const SYNC_AT: Millis = Millis(NOW.0 + 10_000);

/// When unpaid orders are due, also extended ones.
pub const DUE: Millis = Millis(NOW.0 + 400_000);

/// Milliseconds from one sweep of the recovery to the next: longer than every grace period.
pub const SWEEP_INTERVAL: i64 = 11_000;

/// A workflow on order 1 or on the sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Workflow {
    /// Another buyer takes a unit.
    Reserve,
    /// The buyer of order 1 takes another unit.
    ReserveAgain,
    Write,
    Pay,
    /// A second payment of order 1.
    PayTwice,
    Checkout,
    Cancel,
    Expire,
    Refund,
    Restock,
    Lower,
    Pause,
    /// The sale ends, and its line.
    Close,
    Sync,
    /// An operator requeues the dead letter of order 3.
    Replay,
    Rebuild,
    Sweep,
    /// A sweep after order 1 is due.
    LateSweep,
    Audit,
    /// Dan leaves the line.
    Leave,
    /// Units left are offered to the line.
    Offer,
    /// A defect: removes every message from the stream.
    Trim,
    /// A defect: cancels order 1, and marks it synced without a call to Redis.
    CancelUnheard,
}

pub use Workflow::{
    Audit, Cancel, CancelUnheard, Checkout, Close, Expire, LateSweep, Leave, Lower, Offer, Pause, Pay, PayTwice,
    Rebuild, Refund, Replay, Reserve, ReserveAgain, Restock, Sweep, Sync, Trim, Write,
};

/// Workflows of a few calls: every interleaving of each two runs.
pub const SHORT: [Workflow; 13] =
    [Reserve, ReserveAgain, Write, Pay, PayTwice, Checkout, Cancel, Expire, Refund, Restock, Lower, Pause, Sync];

/// Workflows of many calls.
pub const LONG: [Workflow; 3] = [Rebuild, Sweep, Audit];

impl Workflow {
    pub async fn run(self, fixture: PortsFixture) -> Result<Outcome, StoreError> {
        let order_no = fixture.order_no(1);
        let done = match self {
            Reserve | ReserveAgain => {
                let (ticket, user) = if self == Reserve { (7, "dee") } else { (8, "ada") };
                matches!(fixture.reserve(ticket, user, 1).await?.outcome, ReserveOutcome::Queued(_))
            }
            Write => fixture.write_batch().await.map(|_| true)?,
            Pay | PayTwice => {
                callbacks::apply(&fixture.redis, &fixture.sql, &self.callback(&order_no), NOW).await.map(|_| true)?
            }
            Checkout => {
                let Some(row) = order_rows::load(&fixture.sql, &order_no).await? else { return Ok(Outcome::Refused) };
                let order = row.order;
                let address = SealedAddress { sealed: "sealed", language: &Language::default() };
                let checked_out = checkout(&fixture.sql, &fixture.redis, &order, address, NOW).await;
                match checked_out {
                    Ok((outcome, session_number)) => {
                        fixture.show_session(&outcome, session_number).await;
                        matches!(outcome, CommandOutcome::Done(_))
                    }
                    Err(CheckoutError::AddressMissing) => return Ok(Outcome::Refused),
                    Err(CheckoutError::Store(error)) => return Err(error),
                    Err(CheckoutError::Provider(error)) => return Err(StoreError::Malformed(error.message)),
                }
            }
            Cancel => matches!(fixture.cancel(&order_no).await?, CommandOutcome::Done(_)),
            Expire => {
                close_due(&fixture.redis, &fixture.sql, &fixture.redis, DUE, 16).await?;
                passes::expire(&fixture.redis, &fixture.sql, &fixture.activity, DUE, None).await.map(|_| true)?
            }
            Refund => {
                let requested = matches!(fixture.request_refund(&order_no).await?, CommandOutcome::Done(_));
                send_due(&fixture.redis, &fixture.sql, &fixture.redis, NOW, 20).await?;
                requested
            }
            Restock | Lower => {
                let by = if self == Restock { 1 } else { -1 };
                let outcome = fixture.operator().restock(&fixture.activity, &fixture.sku, by, None).await?;
                matches!(outcome, OperationOutcome::Done(_))
            }
            Pause | Close => {
                let state = if self == Pause { ActivityState::Paused } else { ActivityState::Closed };
                is_done(&fixture.operator().set_state(&fixture.activity, state).await?)
            }
            Sync => passes::sync(&fixture.redis, &fixture.sql, &fixture.activity, SYNC_AT).await.map(|_| true)?,
            Replay => {
                let requeued = dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(3)).await?;
                matches!(requeued, RequeueOutcome::Queued | RequeueOutcome::Joined)
            }
            Rebuild => rebuild_and_resume(&fixture).await?,
            Sweep => sweep_all(&fixture, SYNC_AT).await.map(|_| true)?,
            LateSweep => sweep_all(&fixture, DUE).await.map(|_| true)?,
            Leave => {
                let dan = UserId::parse("dan").expect("a name");
                match load_order_of(&fixture.redis, &fixture.order_no(4), &dan).await?.order {
                    Some(entry) if entry.status == OrderStatus::Waiting => {
                        matches!(line::leave(&fixture.redis, &entry, Leaver::Buyer).await?, LeaveOutcome::Left(_))
                    }
                    _ => false,
                }
            }
            Offer => line::offer(&fixture.redis, &fixture.activity, 10).await.map(|_| true)?,
            Trim => {
                let orders = Keys::of(&fixture.activity).named("orders");
                fixture.redis.command("XTRIM", vec![orders.into(), "MAXLEN".into(), "0".into()]).await.map(|_| true)?
            }
            CancelUnheard => {
                order_changes::cancel(&fixture.sql, &order_no, Canceller::Buyer, NOW).await?;
                fixture.sql.run("UPDATE orders SET unsynced_since = 0", vec![]).await.map(|_| true)?
            }
            Audit => audit(&fixture.redis, &fixture.sql, &fixture.activity, fixture.per_user).await.map(|_| true)?,
        };
        Ok(if done { Outcome::Done } else { Outcome::Refused })
    }

    /// The callback of a payment of order 1.
    pub fn callback(self, order_no: &OrderNo) -> ProviderCallback {
        ProviderCallback {
            id: format!("{self:?}"),
            kind: "payment.succeeded".to_owned(),
            order_no: order_no.to_string(),
            payment_id: format!("payment of {self:?}"),
            money: Money::new(100, "EUR"),
            ..ProviderCallback::default()
        }
    }
}

/// Pauses the sale, rebuilds it, and resumes it. Returns whether all of it was done.
pub async fn rebuild_and_resume(fixture: &PortsFixture) -> Result<bool, StoreError> {
    let activity = &fixture.activity;
    fixture.operator().set_state(activity, ActivityState::Paused).await?;
    let rebuilt = fixture.rebuild(WHOLE_REBUILD).await?;
    let resumed = fixture.operator().set_state(activity, ActivityState::Published).await?;
    Ok(matches!(rebuilt, RebuildOutcome::Done { .. }) && is_done(&resumed))
}

/// Whether the sale is as the operator wants it.
fn is_done(outcome: &OperationOutcome) -> bool {
    matches!(outcome, OperationOutcome::Done(_) | OperationOutcome::Unchanged(_))
}

/// No shop: events are not recorded.
struct NoShop;

impl HttpClient for NoShop {
    async fn send(&self, _: HttpRequest) -> Result<HttpResponse, NoResponse> {
        panic!("an event is sent")
    }
}

/// One sweep, at `now`. Returns whether it leaves nothing to do.
pub async fn sweep_all(fixture: &PortsFixture, now: Millis) -> Result<bool, StoreError> {
    let Fixture { redis, sql, activity, .. } = fixture;
    let notices = RefCell::default();
    let sweeper = Sweeper {
        redis,
        key_value: &FakeKeyValue::default(),
        sql,
        provider: Some(redis),
        http: &NoShop,
        events: None,
        ticket_secret: TICKET_SECRET,
        retention: Retention { address_days: Some(0), activity_days: None },
        owner: "sweeper",
        clock: &|| now,
        redis_ahead_ms: Some(0),
        stopwatch: &|| Duration::ZERO,
        log: &|notice| Vec::push(&mut notices.borrow_mut(), notice.clone()),
    };
    let SweepOutcome::Swept(mut report, error) = sweeper.run(now).await? else { return Ok(false) };
    if let Some(error) = error {
        return Err(error);
    }
    // What changed just now is looked at again, too.
    let listed = std::slice::from_ref(activity);
    let left = passes::count_remaining(redis, sql, listed, now.plus(SWEEP_INTERVAL), &mut report).await?;
    if !report.stuck.is_empty() {
        return Err(StoreError::Malformed(format!("{:?} {:?}", notices.borrow(), report.notices)));
    }
    // The next sweep rebuilds a sale that a refused order has stopped.
    let changed_gates = report.warmed_up + report.failed + report.stopped;
    Ok(left.queued + left.unsynced + left.callbacks + left.refunds == 0 && changed_gates == 0)
}

/// Sweeps, from `now` on, until nothing is left to do, and returns when that was.
pub async fn sweep_until_done(fixture: &PortsFixture, mut now: Millis) -> Result<Millis, String> {
    for _ in 0..20 {
        now = now.plus(SWEEP_INTERVAL);
        fixture.redis.wait(now).await;
        if sweep_all(fixture, now).await.map_err(fail)? {
            return Ok(now);
        }
    }
    Err("sweeps never end".to_owned())
}

/// What is wrong if a store fails after the schedule.
pub fn fail(error: StoreError) -> String {
    format!("recovery: {error}")
}
