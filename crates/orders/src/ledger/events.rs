//! The outbox of events in the ledger (E7).
//!
//! Triggers insert events in the statements that change orders and activities. These functions claim events for
//! delivery, record the attempts and erase old events.

mod list;

use std::time::{Duration, Instant};

use domain::{
    event::{ActivityChange, Event, EventKey},
    ids::{OrderNo, UserId},
    order::{Order, OrderStatus},
    time::{Millis, null_if_zero},
};
use sale::ledger::items::ItemNames;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::{
        deletion::{count, delete_batch},
        row_reader::RowReader,
        switches,
    },
    ports::{Dialect, Sql, StoreError},
    reply::{non_empty, non_zero_time},
};

pub use self::list::{EventFilter, EventRecord, EventState, add_test, list, list_for_order};
use super::order_rows;
use crate::dead_letters;

/// How long a claimed event is reserved for the sweeper that claimed it, in milliseconds.
const CLAIM_MS: i64 = 60_000;

/// How long delivered events are kept, so that an operator can resend them, in milliseconds.
const DELIVERED_RETENTION_MS: i64 = 7 * 24 * 3_600 * 1_000;

/// How long events that were never delivered are kept, in milliseconds.
const UNDELIVERED_RETENTION_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// Turns the outbox on or off. While it is off, changes insert no events.
pub async fn set_enabled<S: Sql>(sql: &S, on: bool) -> Result<(), StoreError> {
    switches::set(sql, "events", on).await
}

/// The order of an event as it was then, and what a shop needs to ship it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrderOfEvent")]
pub struct OrderOfEvent {
    /// The order.
    #[serde(flatten)]
    order: Order,
    /// The buyer.
    user: UserId,
    /// What was bought, in the shop's language: the SKU's name, after that of its item if it is an option. Absent once the
    /// activity is erased.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    name: Option<String>,
    /// Once it is paid: the provider's id of the payment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    payment: Option<String>,
    /// Whether a unit came back, and was offered to who waited for one in the line.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    offered: bool,
    /// Whether the sale is a rehearsal: ship nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rehearsal: bool,
}

/// The reason with which an order of an offered unit is inserted.
const OFFERED: &str = "offered";

/// An event claimed for delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedEvent {
    /// The event.
    pub event: Event,
    /// The number of this attempt, from 1.
    pub attempt: i64,
}

/// Claims up to `limit` due events. Their next attempt is moved ahead, so that no two sweepers send the same event at
/// the same time. An event is not claimed while an earlier event of its order or activity is waiting.
pub async fn claim_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<ClaimedEvent>, StoreError> {
    let statement = include_str!("../../sql/events/claim_due.sql");
    let rows = sql.run(statement, vec![now.0.into(), limit.into(), CLAIM_MS.into()]).await?;
    let mut claimed_rows = Vec::with_capacity(rows.len());
    for row in rows {
        let mut row = RowReader::new(row);
        let key = read_key(&mut row)?;
        claimed_rows.push((key, row.text()?, row.int()?, row.int()?, row.int()?, row.int()?, row.int()?));
    }
    let order_numbers: Vec<_> = claimed_rows.iter().filter_map(|(key, ..)| key.order_no()).collect();
    let known_orders =
        if order_numbers.is_empty() { Vec::new() } else { order_rows::load_many(sql, &order_numbers).await? };
    let activities: Vec<_> = claimed_rows.iter().filter_map(|(key, ..)| key.activity()).collect();
    let names = if activities.is_empty() { ItemNames::default() } else { ItemNames::load(sql, &activities).await? };
    let mut claimed = Vec::with_capacity(claimed_rows.len());
    for (key, reason, pay_by, paid_at, refunded, happened_at, attempt) in claimed_rows {
        let rehearsal = key.activity().is_some_and(|activity| names.is_rehearsal(activity));
        let data = match &key {
            EventKey::Activity(activity, change, _) => {
                let mut data = match change {
                    ActivityChange::Restored => json!({ "epoch": reason.parse::<i64>().unwrap_or_default() }),
                    change if change.is_of_sku() => json!({ "sku": reason, "name": names.get(activity, &reason) }),
                    _ => json!({}),
                };
                data["activity"] = json!(activity);
                if rehearsal {
                    data["rehearsal"] = true.into();
                }
                data
            }
            EventKey::Test(_) => json!({}),
            EventKey::Order(order_no, _) | EventKey::Part(order_no, _) => {
                let known = known_orders.iter().find(|row| row.order.order_no == *order_no);
                let order = match known {
                    Some(row) => Some(row.order.clone()),
                    // A failed one has no row; its dead letter describes it.
                    None => dead_letters::load_failed_order(sql, order_no).await?,
                };
                let Some(mut order) = order else { continue };
                order.status = if let EventKey::Order(_, status) = key { status } else { OrderStatus::Paid };
                order.refunded = refunded;
                // What the ledger's trigger `orders_offered` leaves to the event alone.
                let offered = reason == OFFERED;
                order.reason = non_empty(reason).filter(|_| !offered);
                (order.pay_by, order.paid_at) = (non_zero_time(pay_by), non_zero_time(paid_at));
                order.checkout_url = None;
                let (user, name) = (order.user.clone(), names.get(order_no.activity(), order.sku.as_str()));
                // Until a callback names it, a payment that a ledger lost has no id.
                let payment = known.map(|row| row.payment.clone()).filter(|_| order.status.is_paid());
                let payment = payment.filter(|payment| !["", "lost"].contains(&payment.as_str()));
                json!(OrderOfEvent { order, user, name, payment, offered, rehearsal })
            }
        };
        claimed.push(ClaimedEvent { event: Event { key, data, happened_at: Millis(happened_at) }, attempt });
    }
    Ok(claimed)
}

/// Reads the columns `subject`, `step` and `status`.
fn read_key(row: &mut RowReader) -> Result<EventKey, StoreError> {
    let (subject, step) = (row.text()?, row.int()?);
    row.parse(|status| EventKey::parse(&subject, step, status).ok_or(()))
}

/// Result of an attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryAttempt {
    /// The endpoint accepted the event.
    Delivered,
    /// The attempt failed with this error. The next one is due at this time.
    RetryAt(Millis, String),
    /// The attempt failed with this error and was the last one.
    Failed(String),
}

/// Records the results of attempts, each with the HTTP status of the response; 0 without one.
///
/// # Errors
/// See [`ledger`](super). Events whose result is not recorded are sent again.
pub async fn record_attempts<S: Sql>(sql: &S, attempts: &[(&Event, DeliveryAttempt, u16)]) -> Result<(), StoreError> {
    if attempts.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = attempts
        .iter()
        .map(|(event, attempt, status)| {
            let (state, next_try_at, error) = match attempt {
                DeliveryAttempt::Delivered => ("delivered", 0, ""),
                DeliveryAttempt::RetryAt(retry_at, error) => ("waiting", retry_at.0, error.as_str()),
                DeliveryAttempt::Failed(error) => ("failed", 0, error.as_str()),
            };
            let (subject, step) = event.key.columns();
            json!([subject, step, state, next_try_at, error, status])
        })
        .collect();
    let statement = match sql.dialect() {
        Dialect::Sqlite => include_str!("../../sql/events/record_attempts.sqlite.sql"),
        Dialect::Postgres => include_str!("../../sql/events/record_attempts.postgres.sql"),
    };
    sql.run(statement, vec![serde_json::Value::from(rows).to_string().into()]).await.map(|_| ())
}

/// Number of failed events that one statement of [`resend`] makes due.
const RESEND_BATCH: usize = 1_000;

/// How long [`resend`] begins new batches. A request may take 30 s on Akamai Functions.
const RESEND_TIME: Duration = Duration::from_secs(5);

/// Makes events due now: all events of one order, including delivered ones, or for `None` all failed events. Returns
/// how many, and whether its time was up before the last one.
pub async fn resend<S: Sql>(sql: &S, order_no: Option<&OrderNo>, now: Millis) -> Result<(usize, bool), StoreError> {
    const MAKE_DUE: &str = "UPDATE events SET state = 'waiting', attempts = 0, next_try_at = ?1 WHERE";
    if let Some(order_no) = order_no {
        let statement = format!("{MAKE_DUE} subject = ?2 RETURNING step");
        let resent = sql.run(&statement, vec![now.0.into(), order_no.to_string().into()]).await?.len();
        return Ok((resent, false));
    }
    // SQLite uses the index of ended events only if the statement contains the index's condition.
    let failed = format!(
        "SELECT d.subject, d.step FROM events d WHERE d.state = 'failed' AND d.state <> 'waiting' LIMIT {RESEND_BATCH}"
    );
    let statement = format!("{MAKE_DUE} (subject, step) IN ({failed})");
    let (started, mut resent) = (Instant::now(), 0);
    loop {
        // Counted before: while a function reads changed rows, SQLite keeps all others from writing.
        let batch = count(sql, &failed, Vec::new()).await?;
        if batch > 0 {
            sql.run(&statement, vec![now.0.into()]).await?;
        }
        resent += batch;
        if batch < RESEND_BATCH || started.elapsed() > RESEND_TIME {
            return Ok((resent, batch == RESEND_BATCH));
        }
    }
}

/// Counts the events that are to be delivered.
pub async fn count_waiting<S: Sql>(sql: &S) -> Result<i64, StoreError> {
    let rows = sql.run("SELECT COUNT(*) FROM events WHERE state = 'waiting'", Vec::new()).await?;
    rows.into_iter().next().map_or(Ok(0), |row| RowReader::new(row).int())
}

/// Erases up to `limit` events of each state whose retention time is over. Returns how many were erased.
pub async fn erase<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<usize, StoreError> {
    let mut erased = 0;
    // SQLite uses the index of ended events only if the statement contains the index's condition.
    for (state, retention_ms) in [
        ("'delivered' AND state <> 'waiting'", DELIVERED_RETENTION_MS),
        ("'failed' AND state <> 'waiting'", UNDELIVERED_RETENTION_MS),
        ("'waiting'", UNDELIVERED_RETENTION_MS),
    ] {
        let condition = format!("state = {state} AND happened_at <= ?1");
        let params = vec![now.plus(-retention_ms).0.into(), limit.into()];
        erased += delete_batch(sql, "events", "subject, step", &condition, params).await?;
    }
    Ok(erased)
}

/// The state of the endpoint that receives events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, JsonSchema)]
pub struct EventEndpoint {
    /// When it was disabled, because it answered four times in a row, an hour apart, that it is gone (410); `None` while it
    /// is enabled.
    pub disabled_at: Option<Millis>,
    /// How often in a row it answered that it is gone.
    #[schemars(range(min = 0))]
    pub gone: i64,
    /// Nothing is sent to it before this time; null for no pause.
    #[serde(serialize_with = "null_if_zero")]
    #[schemars(with = "Option<Millis>")]
    pub rest_until: Millis,
    /// Events sent to it at the same time.
    #[schemars(range(min = 1))]
    pub pace: i64,
}

impl EventEndpoint {
    /// The state of an endpoint of which nothing is known, or that an operator enabled.
    #[must_use]
    pub fn healthy(pace: i64) -> Self {
        Self { disabled_at: None, gone: 0, rest_until: Millis(0), pace }
    }

    /// What its last answers that it is gone (410) mean for operators; `None` without one.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        if self.disabled_at.is_some() {
            return Some("answered 410 again and again: it gets no events until an operator enables it");
        }
        (self.gone > 0).then_some("answered 410: it gets the next event an hour later")
    }
}

/// Loads the state of an endpoint. One that is not recorded yet is enabled and has `default_pace`.
pub async fn load_endpoint<S: Sql>(sql: &S, url: &str, default_pace: i64) -> Result<EventEndpoint, StoreError> {
    let statement = "SELECT disabled_at, gone, rest_until, pace FROM endpoints WHERE url = ?1";
    let Some(row) = sql.run(statement, vec![url.into()]).await?.into_iter().next() else {
        return Ok(EventEndpoint::healthy(default_pace));
    };
    let mut row = RowReader::new(row);
    Ok(EventEndpoint {
        disabled_at: non_zero_time(row.int()?),
        gone: row.int()?,
        rest_until: Millis(row.int()?),
        pace: row.int()?,
    })
}

/// Saves the state of an endpoint.
pub async fn save_endpoint<S: Sql>(sql: &S, url: &str, endpoint: &EventEndpoint) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/events/save_endpoint.sql");
    let EventEndpoint { disabled_at, gone, rest_until, pace } = *endpoint;
    let disabled_at = disabled_at.unwrap_or_default().0;
    let params = vec![url.into(), disabled_at.into(), rest_until.0.into(), pace.into(), gone.into()];
    sql.run(statement, params).await.map(|_| ())
}
