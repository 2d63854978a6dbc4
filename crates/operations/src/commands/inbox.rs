//! The inbox: what needs a person, and what that person does (G20, G22).
//!
//! What is alike is one item: its kind, its sale and its reason are the same. All but the first thousand of a kind are
//! left out, so that the inbox is read in bounded time.

use std::collections::BTreeSet;

use domain::{
    ids::{ActivityId, OrderNo},
    time::Millis,
};
use orders::{event_delivery::MAX_CONCURRENCY, ledger::events};
use payments::ledger::callback_outcomes::unparked_outcomes;
use sale::ledger::activities;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Redis, Sql, SqlValue, StoreError},
};

use crate::{
    commands::{audit, stats},
    upkeep::{erasure::activity_of, sweep::MAX_CLOCK_DIFFERENCE_MS},
};

/// Maximum number of items.
pub const MAX_ITEMS: usize = 100;

/// How long work of sweeps may be due before a person looks after the sweeper, in milliseconds.
const LATE_MS: i64 = 120_000;

/// What needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum InboxKind {
    /// Redis has lost orders of the sale, which sells nothing until it is rebuilt.
    StoppedGate,
    /// The sale should be on, and Redis has no gate of it.
    MissingGate,
    /// A rebuild has begun, and nobody continues it.
    UnfinishedRebuild,
    /// An invariant does not hold in the sale, by its counters.
    AuditNotOk,
    /// Orders are due for a sweep since two minutes: no sweep comes, or none gets through.
    LateOrders,
    /// The ledger has a sale that this app cannot read.
    UnreadableSale,
    /// A check of readiness fails; `reason` says which, and why.
    NotReady,
    /// The clocks of Redis and the ledger differ by minutes: nothing is erased.
    ClockDiffers,
    /// A payment callback is parked; `reason` is its outcome.
    ParkedCallback,
    /// A payment callback could not be applied three times.
    StuckCallback,
    /// The provider did not say three times whether a payment session was paid: its order is not released.
    UnansweredSession,
    /// The last try to refund an order failed.
    FailedRefund,
    /// The last try to give back a payment that pays no order failed.
    Overpayment,
    /// A buyer disputes a payment at the provider; `reason` is the provider's.
    OpenDispute,
    /// An order could not be written; `reason` says why.
    DeadLetter,
    /// The shop's endpoint has answered 410 again and again: it gets no events.
    EventsDisabled,
    /// The shop's endpoint answered 410.
    EventsGone,
    /// An event waits for longer than a quarter of an hour.
    LateEvent,
    /// An event was not delivered.
    FailedEvent,
}

/// What that person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum InboxAction {
    /// Rebuild the sale.
    Rebuild,
    /// Run the audit, and compare Redis with the ledger.
    Audit,
    /// See that sweeps run.
    RunSweeper,
    /// Save the sale anew.
    SaveAgain,
    /// See what `/readyz` says.
    CheckReadiness,
    /// Set the clock that is wrong.
    SetClock,
    /// Replay, refund or dismiss the callback.
    DecideCallback,
    /// Look for the reason in the log.
    CheckLog,
    /// See what the provider says: the sweeper goes on asking it.
    CheckProvider,
    /// Answer the dispute at the provider.
    AnswerDispute,
    /// Let the provider send its callback of the payment again.
    ResendCallback,
    /// Replay the dead letter.
    ReplayDeadLetter,
    /// Look at the dead letter, which cannot be replayed.
    InspectDeadLetter,
    /// Mend the endpoint, then enable it.
    EnableEvents,
    /// Mend the endpoint.
    CheckEndpoint,
    /// Send the events again.
    ReplayEvents,
}

/// Something that needs a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InboxItem {
    /// What.
    pub kind: InboxKind,
    /// The sale; null if it is about none.
    pub activity: Option<ActivityId>,
    /// The order, if it is about one.
    pub order_no: Option<OrderNo>,
    /// The callback, if it is about one.
    pub callback: Option<String>,
    /// Why, if that is known: a word, or what a check says.
    pub reason: Option<String>,
    /// How many are alike; 1,000 is that many or more.
    #[schemars(range(min = 1))]
    pub count: i64,
    /// Since when, of several since when the first; null if nobody noted it.
    pub since: Option<Millis>,
    /// What to do.
    pub action: InboxAction,
}

impl InboxItem {
    /// An item about one thing.
    #[must_use]
    pub fn new(kind: InboxKind, activity: Option<ActivityId>, since: Option<Millis>, reason: Option<String>) -> Self {
        let action = action(kind, reason.as_deref());
        Self { kind, activity, order_no: None, callback: None, reason, count: 1, since, action }
    }
}

fn action(kind: InboxKind, reason: Option<&str>) -> InboxAction {
    use InboxKind::*;
    match (kind, reason) {
        (StoppedGate | MissingGate | UnfinishedRebuild, _) => InboxAction::Rebuild,
        (AuditNotOk, _) => InboxAction::Audit,
        (LateOrders, _) => InboxAction::RunSweeper,
        (UnreadableSale, _) => InboxAction::SaveAgain,
        (NotReady, _) => InboxAction::CheckReadiness,
        (ClockDiffers, _) => InboxAction::SetClock,
        (ParkedCallback, _) => InboxAction::DecideCallback,
        (StuckCallback, _) => InboxAction::CheckLog,
        (FailedRefund, Some("payment_lost")) => InboxAction::ResendCallback,
        (UnansweredSession | FailedRefund | Overpayment, _) => InboxAction::CheckProvider,
        (OpenDispute, _) => InboxAction::AnswerDispute,
        (DeadLetter, Some("unreadable")) => InboxAction::InspectDeadLetter,
        (DeadLetter, _) => InboxAction::ReplayDeadLetter,
        (EventsDisabled, _) => InboxAction::EnableEvents,
        (EventsGone | LateEvent, _) => InboxAction::CheckEndpoint,
        (FailedEvent, _) => InboxAction::ReplayEvents,
    }
}

/// Sorts items, the oldest first, before them those of which nobody noted the time, and leaves [`MAX_ITEMS`].
#[must_use]
pub fn sorted(mut items: Vec<InboxItem>) -> Vec<InboxItem> {
    items.sort_by_key(|item| (item.since, item.kind));
    items.truncate(MAX_ITEMS);
    items
}

/// Loads what needs a person at `now`, by the ledger and Redis. `redis_ahead_ms` is by how much Redis's clock is ahead of
/// the ledger's; `None` if Redis does not answer: only the ledger is asked then. `events_url` is where events are sent.
///
/// # Errors
/// [`StoreError`] of the ledger. A sale that Redis fails on is left out.
pub async fn load<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    events_url: &str,
    now: Millis,
    redis_ahead_ms: Option<i64>,
) -> Result<Vec<InboxItem>, StoreError> {
    let mut items = from_ledger(sql, now).await?;
    if !events_url.is_empty() {
        let endpoint = events::load_endpoint(sql, events_url, MAX_CONCURRENCY).await?;
        if let Some(disabled_at) = endpoint.disabled_at {
            items.push(InboxItem::new(InboxKind::EventsDisabled, None, Some(disabled_at), None));
        } else if endpoint.gone > 0 {
            items.push(InboxItem::new(InboxKind::EventsGone, None, None, None));
        }
    }
    let of_sales = |kind, sales: Vec<ActivityId>| {
        sales.into_iter().map(move |activity| InboxItem::new(kind, Some(activity), None, None))
    };
    let late = now.plus(-LATE_MS);
    items.extend(of_sales(InboxKind::LateOrders, activities::list_with_due_orders(sql, late, late).await?));
    for id in activities::list(sql, now).await?.unreadable {
        items.push(InboxItem::new(InboxKind::UnreadableSale, ActivityId::parse(&id).ok(), None, None));
    }
    if let Some(ahead_ms) = redis_ahead_ms {
        if ahead_ms.abs() > MAX_CLOCK_DIFFERENCE_MS {
            items.push(InboxItem::new(InboxKind::ClockDiffers, None, None, None));
        }
        let is_rebuilt = |item: &InboxItem| matches!(item.kind, InboxKind::StoppedGate | InboxKind::UnfinishedRebuild);
        let rebuilt = items.iter().filter(|item| is_rebuilt(item)).filter_map(|item| item.activity.clone()).collect();
        let (missing, not_ok) = compare_gates(redis, sql, now, rebuilt).await?;
        items.extend(of_sales(InboxKind::MissingGate, missing));
        items.extend(of_sales(InboxKind::AuditNotOk, not_ok));
    }
    Ok(sorted(items))
}

async fn from_ledger<S: Sql>(sql: &S, now: Millis) -> Result<Vec<InboxItem>, StoreError> {
    let statement = format!(
        include_str!("../../sql/inbox/load.sql"),
        activity_of = activity_of(sql.dialect()),
        unparked_outcomes = unparked_outcomes(),
    );
    let parse_row = |row: Vec<SqlValue>| {
        let mut row = RowReader::new(row);
        let kind = row.parse(|text| serde_json::from_value(json!(text)))?;
        let activity = ActivityId::parse(&row.text()?).ok();
        let reason = Some(row.text()?).filter(|reason| !reason.is_empty());
        let (count, since) = (row.int()?, Some(Millis(row.int()?)));
        let (order_no, callback) = (OrderNo::parse(&row.text()?).ok(), row.text()?);
        let is_one = count == 1;
        Ok(InboxItem {
            count,
            order_no: order_no.filter(|_| is_one),
            callback: Some(callback).filter(|callback| is_one && !callback.is_empty()),
            ..InboxItem::new(kind, activity, since, reason)
        })
    };
    sql.run(&statement, vec![now.0.into()]).await?.into_iter().map(parse_row).collect()
}

/// Returns the sales that should have a gate and have none, but for those that are `rebuilt`, and those whose counters
/// break an invariant.
async fn compare_gates<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    now: Millis,
    rebuilt: BTreeSet<ActivityId>,
) -> Result<(Vec<ActivityId>, Vec<ActivityId>), StoreError> {
    let listed = activities::list_in_redis(sql, now).await?;
    let expected = activities::expected_gates(sql, &listed, now).await?;
    let found = stats::recent_stats(redis, listed).await;
    let known: BTreeSet<_> = found.failures.iter().map(|(activity, _)| activity).collect();
    let known: BTreeSet<_> = known.into_iter().chain(found.activities.iter().map(|(activity, _)| activity)).collect();
    let missing = expected.into_iter().filter(|gate| gate.required).map(|gate| gate.id);
    let missing = missing.filter(|id| !known.contains(id) && !rebuilt.contains(id)).collect();
    let audits = audit::audit_counters(sql, &found.activities).await?.into_iter();
    Ok((missing, audits.filter(|(_, audit)| !audit.ok).map(|(activity, _)| activity).collect()))
}
