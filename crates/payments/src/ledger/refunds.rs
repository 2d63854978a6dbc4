//! Refunds in the ledger as durable work: requested, sent, confirmed (E4, I6).
//!
//! There are two kinds, each with its own table: refunds of orders, and overpayments. An overpayment is refunded
//! without changing its order, because the payment came a second time or an operator decided so.

use domain::{
    money::Money,
    time::{Millis, null_if_zero},
};
use schemars::JsonSchema;
use serde::Serialize;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

use super::{callback_rows::Callback, partial_refunds};

mod list;

pub use list::{list_for_order, list_unconfirmed};

/// What a refund is for; selects its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RefundKind {
    /// An order. A trigger inserts the refund when the order becomes `refunding`, and confirms it when it becomes
    /// `refunded`.
    Orders,
    /// A payment that pays no order.
    Overpayments,
    /// A part of an order's payment, whose rest stays paid.
    Parts,
}

impl RefundKind {
    const ALL: [RefundKind; 3] = [RefundKind::Orders, RefundKind::Overpayments, RefundKind::Parts];

    pub(super) fn table(self) -> &'static str {
        match self {
            RefundKind::Orders => "refunds",
            RefundKind::Overpayments => "overpayments",
            RefundKind::Parts => "refund_parts",
        }
    }

    fn key_column(self) -> &'static str {
        match self {
            RefundKind::Orders => "order_no",
            RefundKind::Overpayments => "payment",
            RefundKind::Parts => "id",
        }
    }
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refund {
    /// What it is for.
    #[serde(rename = "book")]
    pub kind: RefundKind,
    /// The id of a part; empty for other refunds.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// The order's number; of an overpayment, the text that the provider sent.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// Amount and currency of the payment, or of the part.
    #[serde(flatten)]
    pub money: Money,
    /// How much of it the provider has reported as refunded in parts: the app refunds the rest.
    #[schemars(range(min = 0))]
    pub returned: i64,
    /// `requested`, `sent` or `confirmed`.
    #[schemars(extend("enum" = ["requested", "sent", "confirmed"]))]
    pub state: String,
    /// The provider's id of the refund; empty until it is known.
    pub refund: String,
    /// How often the provider reported that it failed.
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// Attempts so far.
    #[schemars(range(min = 0))]
    pub attempts: i64,
    /// When the next attempt is due; null for at once, or none.
    #[serde(serialize_with = "null_if_zero")]
    #[schemars(with = "Option<Millis>")]
    pub next_try_at: Millis,
    /// The error of the last attempt.
    pub last_error: String,
    /// The provider that has the payment; empty if the ledger lost it.
    pub provider: String,
}

impl Refund {
    /// What is to be refunded.
    #[must_use]
    pub fn rest(&self) -> Money {
        Money::new(self.money.amount - self.returned, &self.money.currency)
    }
}

fn columns(kind: RefundKind) -> String {
    let table = kind.table();
    let provider = match kind {
        RefundKind::Orders | RefundKind::Parts => {
            format!("(SELECT o.provider FROM orders o WHERE o.order_no = {table}.order_no)")
        }
        RefundKind::Overpayments => "provider".to_owned(),
    };
    let (part, returned) = match kind {
        RefundKind::Orders | RefundKind::Overpayments => ("''", partial_refunds::returned_of(table)),
        RefundKind::Parts => ("id", "0".to_owned()),
    };
    format!(
        "{part}, order_no, payment, amount, currency, {returned}, state, refund, failures, attempts, next_try_at, \
         last_error, {provider}"
    )
}

fn parse_rows(kind: RefundKind, rows: Vec<Vec<SqlValue>>) -> Result<Vec<Refund>, StoreError> {
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        let refund = Refund {
            kind,
            part: row.text()?,
            order_no: row.text()?,
            payment: row.text()?,
            money: row.money()?,
            returned: row.int()?,
            state: row.text()?,
            refund: row.text()?,
            failures: row.int()?,
            attempts: row.int()?,
            next_try_at: Millis(row.int()?),
            last_error: row.text()?,
            provider: row.text()?,
        };
        let is_done = refund.state == "confirmed";
        Ok(if is_done { Refund { next_try_at: Millis(0), ..refund } } else { refund })
    };
    rows.into_iter().map(parse_row).collect()
}

/// Whether all parts are confirmed: what is left is not known before.
const PARTS_ARE_DONE: &str =
    "NOT EXISTS (SELECT 1 FROM refund_parts q WHERE q.order_no = r.order_no AND q.state <> 'confirmed')";

/// Claims up to `limit` due refunds of each kind. Their next attempt is moved ahead, so that no two sweepers send the
/// same refund at the same time.
pub async fn claim_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Refund>, StoreError> {
    let mut claimed = Vec::new();
    for kind in RefundKind::ALL {
        let statement = format!(
            include_str!("../../sql/refunds/claim_due.sql"),
            table = kind.table(),
            key_column = kind.key_column(),
            is_ready = if kind == RefundKind::Orders { PARTS_ARE_DONE } else { "1 = 1" },
            columns = columns(kind),
        );
        claimed.extend(parse_rows(kind, sql.run(&statement, vec![now.0.into(), limit.into()]).await?)?);
    }
    Ok(claimed)
}

/// Result of an attempt to refund.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundAttempt {
    /// The provider accepted the refund under this id.
    Accepted(String),
    /// The provider reported a failure. The next attempt is a new refund.
    Failed {
        /// The provider's id of the refund; empty if it made none.
        refund_id: String,
        /// Why it failed.
        reason: String,
        /// When the next attempt may be made.
        not_before: Millis,
    },
    /// The provider gave no answer, for this reason. It is asked again, not before this time.
    Unknown(String, Millis),
}

/// A part of which the provider has reported the refund is confirmed by its answer, which names it.
const ACCEPT_PART: &str = "refund = ?3, last_error = '', state = CASE WHEN CAST(?3 AS TEXT) <> '' AND EXISTS (\
     SELECT 1 FROM partial_refunds p WHERE p.payment = ?2 AND p.refund = CAST(?3 AS TEXT)) THEN 'confirmed' ELSE 'sent' END";

/// Records the result of an attempt at `refund` as it was claimed; nothing if a failure of that attempt was recorded
/// meanwhile. Another attempt follows in any case until the provider confirms the refund.
pub async fn record_attempt<S: Sql>(sql: &S, refund: &Refund, attempt: &RefundAttempt) -> Result<(), StoreError> {
    let (set, text, not_before) = match attempt {
        RefundAttempt::Accepted(refund_id) if refund.kind == RefundKind::Parts => (ACCEPT_PART, refund_id, Millis(0)),
        RefundAttempt::Accepted(refund_id) => ("state = 'sent', refund = ?3, last_error = ''", refund_id, Millis(0)),
        RefundAttempt::Failed { reason, not_before, .. } => (
            "state = 'requested', failures = failures + 1, refund = '', last_error = ?3, \
             failed_refunds = failed_refunds || CAST(?6 AS TEXT)",
            reason,
            *not_before,
        ),
        RefundAttempt::Unknown(error, not_before) => ("last_error = ?3", error, *not_before),
    };
    let statement = format!(
        include_str!("../../sql/refunds/record_attempt.sql"),
        table = refund.kind.table(),
        key_column = refund.kind.key_column(),
        set = set
    );
    let mut params = vec![
        refund.key().into(),
        refund.payment.as_str().into(),
        text.as_str().into(),
        not_before.0.into(),
        refund.failures.into(),
    ];
    if let RefundAttempt::Failed { refund_id, .. } = attempt {
        params.push(if refund_id.is_empty() { "".into() } else { format!("[{refund_id}]").into() });
    }
    sql.run(&statement, params).await.map(|_| ())
}

/// Records that the provider reported a failed refund, and requests it again a minute later. A report about an earlier
/// attempt than the current one, about a failure that is recorded, or about another amount, changes nothing. Returns whether
/// the refund is requested again.
pub async fn record_failure<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<bool, StoreError> {
    let mut changed = false;
    for kind in RefundKind::ALL {
        let statement = format!(include_str!("../../sql/refunds/record_failure.sql"), table = kind.table());
        let mut params = params_of_refund(callback);
        params.push(now.plus(60_000).0.into());
        changed |= !sql.run(&statement, params).await?.is_empty();
    }
    Ok(changed)
}

/// Matches the confirmed refund of a callback. If the callback names the provider's refund, it must be the last attempt.
const MATCHING_CONFIRMED: &str = "order_no = ?1 AND payment = ?2 AND currency = ?5 \
     AND (amount = ?4 OR refund = CAST(?3 AS TEXT) AND refund <> '') AND state = 'confirmed' AND (refund IN (CAST(?3 AS TEXT), '') OR CAST(?3 AS TEXT) = '') \
     AND REPLACE(failed_refunds, '[' || CAST(?3 AS TEXT) || ']', '') = failed_refunds";

/// Whether a refund that the provider now reports as failed was confirmed before.
pub async fn was_confirmed<S: Sql>(sql: &S, callback: &Callback) -> Result<bool, StoreError> {
    Ok(!query(sql, MATCHING_CONFIRMED, params_of_refund(callback)).await?.is_empty())
}

/// Reopens a refund that [`was_confirmed`], so that it can fail and be requested again. The order stays as it is.
pub async fn reopen<S: Sql>(sql: &S, callback: &Callback) -> Result<(), StoreError> {
    for kind in RefundKind::ALL {
        let statement = format!("UPDATE {} SET state = 'sent' WHERE {MATCHING_CONFIRMED}", kind.table());
        sql.run(&statement, params_of_refund(callback)).await?;
    }
    Ok(())
}

/// Records a refund of an order's payment that was made at the provider; nothing if a refund of the order is recorded.
pub async fn record_confirmed<S: Sql>(sql: &S, callback: &Callback, now: Millis) -> Result<(), StoreError> {
    let Callback { payment, order_no, refund, money, .. } = callback;
    let statement = "INSERT INTO refunds (order_no, payment, amount, currency, requested_at, next_try_at, state, refund) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5, 'confirmed', ?6) ON CONFLICT DO NOTHING";
    let [order_no, payment, currency, refund] =
        [order_no, payment, &money.currency, refund].map(|it| it.as_str().into());
    sql.run(statement, vec![order_no, payment, money.amount.into(), currency, now.0.into(), refund]).await.map(|_| ())
}

/// Whether the refund of a callback failed, by what the provider has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedFailure {
    /// No refund of the payment is reported as failed, or only others.
    No,
    /// The refund that the callback names is reported as failed.
    OfThisRefund,
    /// One is reported as failed, and either report names none.
    Possible,
}

/// Returns whether the refund of a callback is reported as failed; `No` if a refund of its order is recorded, which
/// [`confirm`] then decides about.
pub async fn load_reported_failure<S: Sql>(sql: &S, callback: &Callback) -> Result<ReportedFailure, StoreError> {
    let statement = "SELECT refund FROM callbacks WHERE order_no = ?1 AND payment = ?2 AND type = 'refund.failed' \
         AND amount = ?3 AND currency = ?4 AND NOT EXISTS (SELECT 1 FROM refunds r WHERE r.order_no = ?1)";
    let [order_no, payment, currency] =
        [&callback.order_no, &callback.payment, &callback.money.currency].map(|it| it.as_str().into());
    let params = vec![order_no, payment, callback.money.amount.into(), currency];
    let failed = sql.run(statement, params).await?.into_iter().map(|row| RowReader::new(row).text());
    let failed = failed.collect::<Result<Vec<_>, _>>()?;
    let is_named = !callback.refund.is_empty();
    Ok(if is_named && failed.contains(&callback.refund) {
        ReportedFailure::OfThisRefund
    } else if failed.iter().any(|refund| !is_named || refund.is_empty()) {
        ReportedFailure::Possible
    } else {
        ReportedFailure::No
    })
}

/// Result of [`confirm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    /// The refund is confirmed.
    Confirmed,
    /// No refund has this payment, amount and currency.
    NoSuchRefund,
    /// The callback names a refund that the provider reported as failed, or none after a failure.
    MayHaveFailed,
    /// Another refund of the payment is confirmed.
    AnotherIsConfirmed,
}

/// Records that the provider confirmed a refund. Providers guarantee no order of their callbacks, and a failure is final,
/// unless this is the provider's answer to the current attempt.
pub async fn confirm<S: Sql>(sql: &S, kind: RefundKind, callback: &Callback) -> Result<Confirmation, StoreError> {
    let statement = format!(include_str!("../../sql/refunds/confirm.sql"), table = kind.table());
    let mut params = params_of_refund(callback);
    params.push(i64::from(callback.provider.is_empty()).into());
    match sql.run(&statement, params).await?.is_empty() {
        false => Ok(Confirmation::Confirmed),
        true => unconfirmed_reason(sql, kind, callback).await,
    }
}

/// Returns why a callback about a refund of this kind confirms none.
pub async fn unconfirmed_reason<S: Sql>(
    sql: &S,
    kind: RefundKind,
    callback: &Callback,
) -> Result<Confirmation, StoreError> {
    let statement = format!(
        "SELECT CASE WHEN state = 'confirmed' AND CAST(?3 AS TEXT) <> '' \
           AND REPLACE(failed_refunds, '[' || CAST(?3 AS TEXT) || ']', '') = failed_refunds THEN 'another' ELSE '' END \
         FROM {} WHERE order_no = ?1 AND payment = ?2 AND amount = ?4 AND currency = ?5",
        kind.table()
    );
    let rows = sql.run(&statement, params_of_refund(callback)).await?;
    Ok(match rows.first().map(|row| &row[..]) {
        None => Confirmation::NoSuchRefund,
        Some([SqlValue::Text(word)]) if word == "another" => Confirmation::AnotherIsConfirmed,
        Some(_) => Confirmation::MayHaveFailed,
    })
}

/// The first parameters of a statement about the refund of a callback: order, payment, refund, amount, currency.
fn params_of_refund(Callback { order_no, payment, refund, money, .. }: &Callback) -> Vec<SqlValue> {
    let [order_no, payment, refund, currency] =
        [order_no, payment, refund, &money.currency].map(|it| it.as_str().into());
    vec![order_no, payment, refund, money.amount.into(), currency]
}

impl Refund {
    fn key(&self) -> &str {
        match self.kind {
            RefundKind::Orders => &self.order_no,
            RefundKind::Overpayments => &self.payment,
            RefundKind::Parts => &self.part,
        }
    }
}

/// Loads the amount of an overpayment.
pub async fn load_overpayment<S: Sql>(sql: &S, payment: &str) -> Result<Option<Money>, StoreError> {
    let statement = "SELECT amount, currency FROM overpayments WHERE payment = ?1";
    let row = sql.run(statement, vec![payment.into()]).await?.into_iter().next();
    row.map(|row| RowReader::new(row).money()).transpose()
}

async fn query<S: Sql>(sql: &S, condition: &str, params: Vec<SqlValue>) -> Result<Vec<Refund>, StoreError> {
    let mut found = Vec::new();
    for kind in RefundKind::ALL {
        let statement = format!("SELECT {} FROM {} WHERE {condition}", columns(kind), kind.table());
        found.extend(parse_rows(kind, sql.run(&statement, params.clone()).await?)?);
    }
    Ok(found)
}
