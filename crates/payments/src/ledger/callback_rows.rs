//! Payment callbacks in the ledger, and the transitions of orders that payments and refunds cause.

use domain::{
    api::payments::MAX_ID_CHARS,
    ids::OrderNo,
    money::Money,
    order::OrderStatus,
    time::Millis,
    webhook::{PaymentProvider, ProviderCallback},
};
use orders::ledger::order_rows::{COLUMNS, OrderRow, parse_rows};
use schemars::JsonSchema;
use serde::Serialize;
use stores::{
    ledger::{clock::Clock, deletion::delete_batch, row_reader::RowReader},
    ports::{Sql, SqlValue, StoreError},
};

use super::{
    addresses,
    callback_outcomes::{CallbackOutcome, early_outcomes, parked_outcomes, unparked_outcomes},
};

/// A callback as the ledger has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Callback {
    /// The id of the provider's event.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The order that it names.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// Amount and currency.
    #[serde(flatten)]
    pub money: Money,
    /// The provider's id of a refund.
    pub refund: String,
    /// The provider's id of the payment session.
    pub session: String,
    /// Whether the order's latest session had another id when this was received.
    pub other_session: bool,
    /// The provider that signed it; empty if the app asked the provider.
    pub provider: String,
    /// When it was received.
    pub received_at: Millis,
    /// What was done about it.
    pub outcome: CallbackOutcome,
    /// Whether an operator has it applied again.
    #[serde(skip)]
    pub is_reapplied: bool,
}

pub(super) const CALLBACK_COLUMNS: &str = "id, type, order_no, payment, amount, currency, refund, session, other_session, \
     provider, received_at, outcome";

pub(super) fn parse_row(row: Vec<SqlValue>) -> Result<Callback, StoreError> {
    let mut row = RowReader::new(row);
    Ok(Callback {
        id: row.text()?,
        kind: row.text()?,
        order_no: row.text()?,
        payment: row.text()?,
        money: row.money()?,
        refund: row.text()?,
        session: row.text()?,
        other_session: row.int()? == 1,
        provider: row.text()?,
        received_at: Millis(row.int()?),
        outcome: CallbackOutcome::parse(&row.text()?).unwrap_or(CallbackOutcome::Unknown),
        is_reapplied: false,
    })
}

/// Which callbacks are recorded, as a condition in SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordIf {
    /// All.
    Always,
    /// Those of orders and of overpayments that the ledger has, and failed refunds of their payments, whatever number a
    /// tool of the shop gave them.
    Known,
    /// Those of orders whose buyer may have paid at the callback's provider: it opened the order's session, or the ledger
    /// lost who did. Of an order that was released without a session nothing was lost.
    MayHavePaid,
}

impl RecordIf {
    fn condition(self) -> &'static str {
        match self {
            Self::Always => "1 = 1",
            Self::Known => {
                "EXISTS (SELECT 1 FROM orders o WHERE o.order_no = ?3) \
                 OR EXISTS (SELECT 1 FROM overpayments p WHERE p.payment = ?4) \
                 OR ?2 = 'refund.failed' AND ?4 <> '' AND EXISTS (SELECT 1 FROM orders o WHERE o.payment = ?4)"
            }
            Self::MayHavePaid => {
                "EXISTS (SELECT 1 FROM orders o WHERE o.order_no = ?3 AND (o.provider = ?9 OR o.provider = '' \
                 AND (o.checkout_url <> '' OR o.status IN ('paid', 'refunding', 'refunded'))))"
            }
        }
    }
}

/// A callback that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The callback as it was before the ledger decided about it.
    pub callback: Callback,
    /// When the ledger decided.
    pub now: Millis,
}

/// How long after a callback was received a sweep tries to apply it, in milliseconds: longer than the request that
/// received it.
const FIRST_TRY_AFTER_MS: i64 = 5_000;

/// Records a callback once, if it meets the condition. The statement also decides about it if it has no outcome (view
/// `callback_decisions`).
pub async fn record<S: Sql>(
    sql: &S,
    callback: &ProviderCallback,
    condition: RecordIf,
    now: impl Into<Clock>,
) -> Result<Option<Recorded>, StoreError> {
    let now = now.into();
    let params = vec![
        sanitize(&callback.id),
        sanitize(&callback.kind),
        sanitize(&callback.order_no),
        sanitize(&callback.payment_id),
        callback.money.amount.into(),
        sanitize(&callback.money.currency),
        sanitize(&callback.refund_id),
        sanitize(&callback.session_id),
        callback.provider.map_or("", PaymentProvider::as_str).into(),
    ];
    let statement = format!(
        include_str!("../../sql/payments/record_callback.sql"),
        condition = condition.condition(),
        columns = CALLBACK_COLUMNS,
        now = now.sql(sql.dialect()),
        first_try_after_ms = FIRST_TRY_AFTER_MS,
    );
    // First: the provider sends a callback again until it is recorded.
    if !callback.sealed_address.is_empty() {
        addresses::save_collected(sql, &callback.order_no, &callback.sealed_address, now).await?;
    }
    let Some(mut row) = sql.run(&statement, params).await?.into_iter().next() else { return Ok(None) };
    let now = Millis(RowReader::new(row.pop().into_iter().collect()).int()?);
    Ok(Some(Recorded { callback: parse_row(row)?, now }))
}

/// Decides again about a callback without an outcome (view `callback_decisions`).
pub async fn decide<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<(), StoreError> {
    let statement = "UPDATE callbacks SET decided_at = ?3 WHERE order_no = ?1 AND id = ?2 AND outcome = ''";
    let params = vec![callback.order_no.as_str().into(), callback.id.as_str().into(), now.0.into()];
    sql.run(statement, params).await.map(|_| ())
}

/// What the ledger has decided about a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The outcome; `Unprocessed` if the ledger alone cannot decide.
    pub outcome: CallbackOutcome,
    /// Whether its payment is refunded, or is to be, by its provider without changing an order.
    pub is_overpayment: bool,
    /// Whether a refund of its order is parked because its payment was unknown.
    pub has_early_refund: bool,
    /// Its order.
    pub order: Option<OrderRow>,
}

/// Loads what the ledger has decided about a callback, and its order.
pub async fn load_decision<S: Sql>(sql: &S, callback: &Callback) -> Result<Decision, StoreError> {
    let statement =
        format!(include_str!("../../sql/payments/load_decision.sql"), early = early_outcomes(), columns = COLUMNS);
    let params = vec![callback.order_no.as_str().into(), callback.id.as_str().into()];
    let mut row = sql.run(&statement, params).await?.into_iter().next().unwrap_or_default();
    let order = row.split_off(row.len().min(3));
    let mut decision = RowReader::new(row);
    Ok(Decision {
        outcome: CallbackOutcome::parse(&decision.text()?).unwrap_or(CallbackOutcome::Unknown),
        is_overpayment: decision.int()? == 1,
        has_early_refund: decision.int()? == 1,
        order: match order.first() {
            Some(SqlValue::Null) | None => None,
            Some(_) => parse_rows(vec![order])?.pop(),
        },
    })
}

/// A provider's text as the ledger stores it: without NUL, which PostgreSQL rejects, and cut to [`MAX_TEXT_CHARS`].
pub(super) fn sanitize(text: &str) -> SqlValue {
    text.chars().filter(|c| *c != '\0').take(MAX_TEXT_CHARS).collect::<String>().into()
}

/// Maximum length of a text of a callback in the ledger: the longest id of a provider, with what the app puts before it in
/// the id of an answer.
const MAX_TEXT_CHARS: usize = MAX_ID_CHARS + 50;

/// The id of a stored callback as an operator names it; `None` if no callback is stored under exactly this id.
fn stored_id(id: &str) -> Option<SqlValue> {
    Some(sanitize(id)).filter(|stored| *stored == id.into())
}

/// Gives a callback that names no order the number of the one order whose payment, or overpayment, it is about. Returns the
/// callback as the ledger has it then.
pub async fn name_order<S: Sql>(sql: &S, callback: &Callback) -> Result<Callback, StoreError> {
    let statement = format!(include_str!("../../sql/payments/name_order.sql"), columns = CALLBACK_COLUMNS);
    let params = [&callback.id, &callback.payment, &callback.provider].map(|it| it.as_str().into());
    let named = sql.run(&statement, params.into()).await?.into_iter().next().map(parse_row).transpose()?;
    Ok(Callback { is_reapplied: callback.is_reapplied, ..named.unwrap_or_else(|| callback.clone()) })
}

/// Records what was done about a callback.
pub async fn set_outcome<S: Sql>(sql: &S, id: &str, outcome: CallbackOutcome) -> Result<(), StoreError> {
    let params = vec![id.into(), outcome.as_str().into()];
    sql.run("UPDATE callbacks SET outcome = ?2 WHERE id = ?1", params).await.map(|_| ())
}

/// Lists up to `limit` parked callbacks, newest first, with those whose outcome a later build wrote. If `before` is not
/// empty, only those that follow the callback with this id.
pub async fn list_parked<S: Sql>(sql: &S, before: &str, limit: i64) -> Result<Vec<Callback>, StoreError> {
    let page = match before {
        "" => "?1 = ''",
        _ => "(received_at, id) < (SELECT received_at, id FROM callbacks WHERE id = ?1)",
    };
    let statement = format!(
        "SELECT {CALLBACK_COLUMNS} FROM callbacks WHERE outcome NOT IN {} AND {page} \
         ORDER BY received_at DESC, id DESC LIMIT ?2",
        unparked_outcomes()
    );
    let params = vec![sanitize(before), limit.into()];
    sql.run(&statement, params).await?.into_iter().map(parse_row).collect()
}

/// Loads a callback if this build holds it for an operator.
pub async fn load_parked<S: Sql>(sql: &S, id: &str) -> Result<Option<Callback>, StoreError> {
    let Some(id) = stored_id(id) else { return Ok(None) };
    let parked_outcomes = parked_outcomes();
    let statement = format!("SELECT {CALLBACK_COLUMNS} FROM callbacks WHERE id = ?1 AND outcome IN {parked_outcomes}");
    sql.run(&statement, vec![id]).await?.into_iter().next().map(parse_row).transpose()
}

/// Lists the first 100 callbacks that name an order, oldest first.
pub async fn list_for_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Vec<Callback>, StoreError> {
    let statement =
        format!("SELECT {CALLBACK_COLUMNS} FROM callbacks WHERE order_no = ?1 ORDER BY received_at LIMIT 100");
    sql.run(&statement, vec![order_no.to_string().into()]).await?.into_iter().map(parse_row).collect()
}

/// Reopens refunds that are parked because their payment was unknown, if it is known now: it paid the order, or is refunded
/// as an overpayment. Those of a callback's order and payment, or all. Returns those that this call reopened.
pub async fn reopen_early_refunds<S: Sql>(sql: &S, of: Option<&Callback>) -> Result<Vec<Callback>, StoreError> {
    let (which, params) = match of {
        Some(callback) => (
            "order_no = ?1 AND payment = ?2".to_owned(),
            vec![callback.order_no.as_str().into(), callback.payment.as_str().into()],
        ),
        // The condition of the index of parked callbacks.
        None => (format!("outcome NOT IN {}", unparked_outcomes()), Vec::new()),
    };
    let statement = format!(
        "UPDATE callbacks SET outcome = '' \
         WHERE {which} AND payment <> '' AND type = 'refund.succeeded' AND outcome IN {} \
         AND (EXISTS (SELECT 1 FROM orders o WHERE o.order_no = callbacks.order_no AND o.payment = callbacks.payment) \
           OR EXISTS (SELECT 1 FROM overpayments p WHERE p.payment = callbacks.payment)) RETURNING {CALLBACK_COLUMNS}",
        early_outcomes()
    );
    sql.run(&statement, params).await?.into_iter().map(parse_row).collect()
}

/// Sets a new outcome of a parked callback. Returns the callback if this call changed it.
pub async fn set_outcome_if_parked<S: Sql>(
    sql: &S,
    id: &str,
    outcome: CallbackOutcome,
) -> Result<Option<Callback>, StoreError> {
    let Some(id) = stored_id(id) else { return Ok(None) };
    let statement = format!(
        "UPDATE callbacks SET outcome = ?2 WHERE id = ?1 AND outcome IN {} RETURNING {CALLBACK_COLUMNS}",
        parked_outcomes()
    );
    let rows = sql.run(&statement, vec![id, outcome.as_str().into()]).await?;
    rows.into_iter().next().map(parse_row).transpose()
}

/// Erases up to `limit` processed callbacks that were received at or before `before`. Parked ones stay, and those whose
/// outcome a later build wrote. Returns how many were erased.
pub async fn erase<S: Sql>(sql: &S, before: Millis, limit: i64) -> Result<usize, StoreError> {
    let condition = format!("received_at <= ?1 AND outcome <> '' AND outcome IN {}", unparked_outcomes());
    delete_batch(sql, "callbacks", "id", &condition, vec![before.0.into(), limit.into()]).await
}

/// An order whose provider was lost with a ledger belongs to the one that has its payment.
const PROVIDER_OF_PAYMENT: &str = "provider = CASE WHEN provider = '' THEN ?4 ELSE provider END";

/// The first parameters of a statement that applies a payment: order, payment, time, provider.
fn params_of_payment(Callback { order_no, payment, provider, .. }: &Callback, now: Millis) -> Vec<SqlValue> {
    let [order_no, payment, provider] = [order_no, payment, provider].map(|it| it.as_str().into());
    vec![order_no, payment, now.0.into(), provider]
}

/// `from → paid`; the order holds its units. Returns the order if this call changed it. A trigger leaves the order
/// unchanged if the payment is being refunded as an overpayment.
///
/// # Errors
/// `LedgerRefused` if the order was released and there is no room for its units (I2).
pub async fn mark_paid<S: Sql>(
    sql: &S,
    callback: &Callback,
    from: OrderStatus,
    now: Millis,
) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'paid', live = 1, reason = '', payment = ?2, paid_at = ?3, updated_at = ?3, \
         unsynced_since = ?3, {PROVIDER_OF_PAYMENT} WHERE order_no = ?1 AND status = ?5 RETURNING {COLUMNS}"
    );
    let mut params = params_of_payment(callback, now);
    params.push(from.as_str().into());
    Ok(parse_rows(sql.run(&statement, params).await?)?.pop())
}

/// The payment id of an order whose id was lost with the ledger (see `operations::upkeep::backfill`). The next callback of
/// its payment replaces it.
pub const LOST_PAYMENT: &str = "lost";

/// `window_ms` of [`request_refund`] if it does not matter when the order was paid.
pub const EVER: i64 = i64::MAX / 2;

/// `paid → refunding`, for an order that was paid within the last `window_ms` milliseconds. A trigger inserts the refund in the same
/// statement. Returns the order if this call changed it.
pub async fn request_refund<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    window_ms: i64,
    now: impl Into<Clock>,
) -> Result<Option<OrderRow>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let statement = format!(
        "UPDATE orders SET status = 'refunding', reason = 'refund_requested', updated_at = {now}, \
         unsynced_since = {now} WHERE order_no = ?1 AND status = 'paid' AND paid_at >= {now} - CAST(?2 AS BIGINT) RETURNING {COLUMNS}"
    );
    let params = vec![order_no.to_string().into(), window_ms.into()];
    Ok(parse_rows(sql.run(&statement, params).await?)?.pop())
}

/// Reason of the refund of an order that was paid after it was released, when no units were left.
pub const PAID_TOO_LATE: &str = "paid_too_late";

/// `cancelled | expired → refunding`, for a payment that came after the release and found no units left. Returns the
/// order if this call changed it.
pub async fn refund_late_payment<S: Sql>(
    sql: &S,
    callback: &Callback,
    now: Millis,
) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(
        include_str!("../../sql/payments/refund_late_payment.sql"),
        reason = PAID_TOO_LATE,
        provider = PROVIDER_OF_PAYMENT,
        columns = COLUMNS,
    );
    let params = params_of_payment(callback, now);
    Ok(parse_rows(sql.run(&statement, params).await?)?.pop())
}

/// `refunding → refunded`; the units are released if the activity's policy says so. A trigger marks the refund as
/// confirmed. Returns the order if this call changed it.
pub async fn mark_refunded<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(include_str!("../../sql/payments/mark_refunded.sql"), columns = COLUMNS);
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into(), now.0.into()]).await?)?.pop())
}
