//! Events and their deliveries, as operators see them.

use domain::{
    ids::{ActivityId, OrderNo},
    schema::EventType,
    time::{Millis, null_if_zero},
};
use schemars::JsonSchema;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

use super::read_key;

domain::words! {
    /// Whether an event was delivered.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum EventState {
        /// It is to be delivered.
        Waiting = "waiting",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// Every attempt failed: it is sent again only if an operator says so.
        #[default]
        Failed = "failed",
    }
}

/// An event as operators see it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub struct EventRecord {
    /// Its id, the same as in the message to the endpoint.
    pub id: String,
    /// Its activity; null for a test.
    pub activity: Option<ActivityId>,
    /// Its order; null if it is about the activity, or a test.
    pub order_no: Option<OrderNo>,
    /// Its type.
    #[schemars(with = "EventType")]
    pub r#type: String,
    /// Whether it was delivered.
    pub state: EventState,
    /// When it happened.
    pub happened_at: Millis,
    /// Attempts so far.
    #[schemars(range(min = 0))]
    pub attempts: i64,
    /// When the next attempt is due; null unless the event is `waiting`.
    #[serde(serialize_with = "null_if_zero")]
    #[schemars(with = "Option<Millis>")]
    pub next_try_at: Millis,
    /// When the last attempt was made; null before the first.
    #[serde(serialize_with = "null_if_zero")]
    #[schemars(with = "Option<Millis>")]
    pub last_try_at: Millis,
    /// The HTTP status of the response to it; null without a response.
    #[schemars(range(min = 100, max = 599))]
    pub last_status: Option<i64>,
    /// The error of the last attempt.
    pub last_error: String,
    /// What it is about, and its position among the events about that.
    #[serde(skip)]
    columns: (String, i64),
}

impl EventRecord {
    /// Names it in a list: what it is about, and its step.
    #[must_use]
    pub fn cursor(&self) -> String {
        let (subject, step) = &self.columns;
        format!("{subject}/{step}")
    }
}

const EVENT_COLUMNS: &str =
    "subject, step, status, state, happened_at, attempts, next_try_at, last_try_at, last_status, last_error";

fn parse_row(row: Vec<SqlValue>) -> Result<EventRecord, StoreError> {
    let mut row = RowReader::new(row);
    let key = read_key(&mut row)?;
    Ok(EventRecord {
        id: key.id(),
        activity: key.activity().cloned(),
        order_no: key.order_no().cloned(),
        r#type: key.event_type(),
        state: row.parse(|text| EventState::parse(text).ok_or(()))?,
        happened_at: Millis(row.int()?),
        attempts: row.int()?,
        next_try_at: Millis(row.int()?),
        last_try_at: Millis(row.int()?),
        last_status: Some(row.int()?).filter(|status| *status > 0),
        last_error: row.text()?,
        columns: key.columns(),
    })
}

/// Which events to list.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Their state.
    pub state: EventState,
    /// Their type, one of [`domain::event::event_types`].
    pub r#type: Option<String>,
}

/// Lists up to `limit` events, newest first; those after the one with the cursor `before`, unless it is empty.
pub async fn list<S: Sql>(
    sql: &S,
    filter: &EventFilter,
    before: &str,
    limit: i64,
) -> Result<Vec<EventRecord>, StoreError> {
    // SQLite uses the index of ended events only if the statement contains the index's condition.
    let state = match filter.state {
        EventState::Waiting => "state = 'waiting'",
        EventState::Delivered => "state = 'delivered' AND state <> 'waiting'",
        EventState::Failed => "state = 'failed' AND state <> 'waiting'",
    };
    let (mut conditions, mut params) = (String::new(), vec![limit.into()]);
    if let Some((subject, step)) = before.rsplit_once('/') {
        params.extend([subject.into(), step.parse().unwrap_or(0_i64).into()]);
        conditions.push_str(
            " AND (happened_at, subject, step) < (SELECT b.happened_at, b.subject, b.step FROM events b \
             WHERE b.subject = ?2 AND b.step = CAST(?3 AS BIGINT))",
        );
    }
    if let Some(kind) = &filter.r#type {
        // The word after the full stop: no two types share one.
        params.push(kind.rsplit('.').next().unwrap_or_default().into());
        conditions.push_str(&format!(" AND status = ?{}", params.len()));
    }
    let statement = format!(
        "SELECT {EVENT_COLUMNS} FROM events WHERE {state}{conditions} \
         ORDER BY happened_at DESC, subject DESC, step DESC LIMIT CAST(?1 AS BIGINT)"
    );
    sql.run(&statement, params).await?.into_iter().map(parse_row).collect()
}

/// Adds an event with which an operator tests the endpoint; a failed attempt is the last. Returns it.
pub async fn add_test<S: Sql>(sql: &S, now: Millis) -> Result<EventRecord, StoreError> {
    let statement = format!(include_str!("../../../sql/events/add_test.sql"), columns = EVENT_COLUMNS);
    let row = sql.run(&statement, vec![now.0.into()]).await?.into_iter().next().unwrap_or_default();
    parse_row(row)
}

/// Lists the events of one order, in the order in which they happened.
pub async fn list_for_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Vec<EventRecord>, StoreError> {
    let statement = format!("SELECT {EVENT_COLUMNS} FROM events WHERE subject = ?1 ORDER BY step");
    sql.run(&statement, vec![order_no.to_string().into()]).await?.into_iter().map(parse_row).collect()
}
