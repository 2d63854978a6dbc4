//! Dead letters (D4, I4): orders that could not be written, kept for an operator, who can requeue them.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
    time::{Millis, null_if_zero},
};
use sale::reserve::Position;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    keys::Keys,
    ledger::{clock, row_reader::RowReader},
    ports::{Redis, Sql, StoreError},
    reply::unexpected,
};

use crate::{
    doorbell::DOORBELL_CHANNEL,
    order_record::{Offer, OrderFields},
    scripts::REQUEUE,
    stream,
};

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeadLetter {
    /// The order's number; `<activity>.<stream id>` for a message that cannot be parsed.
    pub order_no: String,
    /// The message as it was in the stream.
    pub message: String,
    /// Why it could not be written.
    pub reason: String,
    /// When it last failed.
    pub died_at: Millis,
    /// When an operator last put it back into the queue or dismissed it; null for never.
    #[serde(serialize_with = "null_if_zero")]
    #[schemars(with = "Option<Millis>")]
    pub replayed_at: Millis,
}

const COLUMNS: &str = "order_no, message, reason, died_at, replayed_at";

/// A position in the list of dead letters: where one was when it was listed, also if it has been requeued since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    waits: bool,
    died_at: i64,
    order_no: String,
}

impl Cursor {
    /// The position of a listed letter.
    #[must_use]
    pub fn of(letter: &DeadLetter) -> Self {
        let waits = letter.replayed_at < letter.died_at;
        Self { waits, died_at: letter.died_at.0, order_no: letter.order_no.clone() }
    }

    /// Reads what [`Display`] wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (waits, rest) = text.split_once('.')?;
        let (died_at, order_no) = rest.split_once('.')?;
        let waits = match waits {
            "waits" => true,
            "requeued" => false,
            _ => return None,
        };
        Some(Self { waits, died_at: died_at.parse().ok()?, order_no: order_no.to_owned() })
    }
}

impl Display for Cursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cursor { waits, died_at, order_no } = self;
        write!(f, "{}.{died_at}.{order_no}", if *waits { "waits" } else { "requeued" })
    }
}

/// Result of [`requeue`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequeueOutcome {
    /// The order is queued again.
    Queued,
    /// Its buyer waits in the line again, at the same place; or a unit is offered to them already.
    Joined,
    /// The order has not failed, or Redis has no room for it; the word of `lua/requeue.lua` says which.
    Refused(String),
    /// There is no such dead letter, or its message cannot be parsed.
    NotFound,
}

/// Records dead letters, each with order number, message and reason. One that is recorded already gets the new reason
/// and time.
pub async fn record<S: Sql>(sql: &S, letters: &[(String, String, &str)], now: Millis) -> Result<(), StoreError> {
    if letters.is_empty() {
        return Ok(());
    }
    let (json_rows, [order_no, message, reason]) = sql.dialect().json_rows("?1");
    let statement = format!(
        include_str!("../sql/dead_letters/record.sql"),
        order_no = order_no,
        message = message,
        reason = reason,
        json_rows = json_rows,
    );
    // One row for each order: a batch may contain a message twice.
    let letters: BTreeMap<_, _> = letters.iter().map(|letter| (&letter.0, letter)).collect();
    let json = json!(letters.into_values().collect::<Vec<_>>()).to_string();
    sql.run(&statement, vec![json.into(), now.0.into()]).await.map(|_| ())
}

/// Lists up to `limit` dead letters: first those not requeued since they last failed, then the others, each newest
/// first. Starts after the position `before`.
pub async fn list<S: Sql>(sql: &S, before: Option<Cursor>, limit: i64) -> Result<Vec<DeadLetter>, StoreError> {
    let Cursor { mut waits, died_at, order_no } =
        before.unwrap_or(Cursor { waits: true, died_at: i64::MAX, order_no: String::new() });
    let mut after = (died_at, order_no);
    // Each part is a range of an index of its own.
    let mut letters = Vec::new();
    loop {
        let part = if waits { "replayed_at < died_at" } else { "replayed_at >= died_at" };
        let statement = format!(
            "SELECT {COLUMNS} FROM dead_letters WHERE {part} AND (died_at, order_no) < (?1, ?2) \
             ORDER BY died_at DESC, order_no DESC LIMIT CAST(?3 AS BIGINT)"
        );
        let rows =
            sql.run(&statement, vec![after.0.into(), after.1.into(), (limit - letters.len() as i64).into()]).await?;
        for row in rows {
            letters.push(parse_row(row)?);
        }
        if !waits || letters.len() as i64 >= limit {
            return Ok(letters);
        }
        (waits, after) = (false, (i64::MAX, String::new()));
    }
}

/// Takes a letter off the operators' list as it is: its order stays failed. It can still be requeued. Returns whether
/// such a letter waited for an operator.
///
/// # Errors
/// `LedgerUnavailable`: the letter may or may not be dismissed; the call can be repeated.
pub async fn dismiss<S: Sql>(sql: &S, order_no: &str) -> Result<bool, StoreError> {
    let now = clock::now(sql).await?.0;
    // The clock of the ledger may be behind the one that said when it failed.
    let statement = "UPDATE dead_letters SET replayed_at = CASE WHEN died_at > ?2 THEN died_at ELSE ?2 END \
        WHERE order_no = ?1 AND replayed_at < died_at RETURNING order_no";
    sql.run(statement, vec![order_no.into(), now.into()]).await.map(|rows| !rows.is_empty())
}

/// Loads a dead letter.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<DeadLetter>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM dead_letters WHERE order_no = ?1");
    sql.run(&statement, vec![order_no.to_string().into()]).await?.into_iter().next().map(parse_row).transpose()
}

/// Loads the failed order of a dead letter; `None` if there is no such letter, or its message cannot be parsed.
pub async fn load_failed_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<Order>, StoreError> {
    let Some(letter) = load(sql, order_no).await? else { return Ok(None) };
    Ok(stream::decode_order(order_no.activity(), &letter.message).map(|new| Order {
        order_no: new.order_no,
        user: new.user,
        status: OrderStatus::Failed,
        sku: new.sku,
        quantity: new.quantity,
        money: new.money,
        created_at: new.created_at,
        pay_by: None,
        paid_at: None,
        reason: Some(letter.reason),
        checkout_url: None,
        refunded: 0,
        declined_at: None,
        ahead: Some(0),
        estimated_wait_ms: 0,
    }))
}

fn parse_row(row: Vec<stores::ports::SqlValue>) -> Result<DeadLetter, StoreError> {
    let mut row = RowReader::new(row);
    Ok(DeadLetter {
        order_no: row.text()?,
        message: row.text()?,
        reason: row.text()?,
        died_at: Millis(row.int()?),
        replayed_at: Millis(row.int()?),
    })
}

/// Puts the order of a dead letter back into the queue, if Redis has units for it.
///
/// The writer records a dead letter before its order fails in Redis (I4). Until then the order is refused here: it is
/// queued, but since before it became a dead letter.
///
/// # Errors
/// [`StoreError`]; the order may be queued already. Requeuing it again finishes the work.
pub async fn requeue<R: Redis, S: Sql>(redis: &R, sql: &S, order_no: &OrderNo) -> Result<RequeueOutcome, StoreError> {
    let Some(letter) = load(sql, order_no).await? else { return Ok(RequeueOutcome::NotFound) };
    let Some(order) = stream::decode_order(order_no.activity(), &letter.message) else {
        return Ok(RequeueOutcome::NotFound);
    };
    let keys = Keys::of(order_no.activity());
    let mut script_keys = vec![keys.named("gate"), keys.order(order_no.ulid())];
    script_keys.extend(keys.all(["stats", "holders", "orders", "queued", "entries"]));
    script_keys.push(keys.line(&order.sku));
    let mut options = json!({ "message": letter.message, "reason": letter.reason, "order": OrderFields::from(&order) });
    if let Some(Offer { place: Position { epoch, sequence }, .. }) = order.offer {
        options["place"] = format!("{epoch} {sequence}").into();
    }
    // By the clock that says when the order fails again, and read before it can: the dead letter waits if that was later.
    let requeued_at = clock::now(sql).await?;
    let word = REQUEUE.run_with(redis, script_keys, &options).await?.text()?;
    match word.as_str() {
        "queued" | "joined" => {}
        // An earlier call requeued the order, and stopped before it recorded that.
        "requeued" if letter.replayed_at < letter.died_at => {}
        "requeued" => return Ok(RequeueOutcome::Refused("same".to_owned())),
        "same" | "not_ready" | "limit_reached" | "sold_out" => return Ok(RequeueOutcome::Refused(word)),
        word => return Err(unexpected(word)),
    }
    let statement = "UPDATE dead_letters SET replayed_at = ?2 WHERE order_no = ?1";
    sql.run(statement, vec![order_no.to_string().into(), requeued_at.0.into()]).await?;
    redis.command("PUBLISH", vec![DOORBELL_CHANNEL.into(), order_no.activity().as_str().into()]).await?;
    if word != "joined" {
        return Ok(RequeueOutcome::Queued);
    }
    sale::line::offer(redis, order_no.activity(), 1).await?;
    Ok(RequeueOutcome::Joined)
}
