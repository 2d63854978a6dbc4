//! Refunds in the ledger as durable work: asked for, sent, confirmed (E4, I6).
//!
//! There are two books of them: refunds of orders, and money that goes back without touching its order because it came
//! a second time, or an operator said so.

use domain::{ids::OrderNo, money::Money, time::Millis};
use serde::Serialize;

use super::row_reader::RowReader;
use crate::ports::{Sql, SqlValue, StoreError};

/// Where a refund is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundKind {
    /// Refunds of orders: a trigger opens one when an order is refunding, and closes it when it is refunded.
    Orders,
    /// Money that no order wants.
    Overpayments,
}

impl RefundKind {
    const ALL: [RefundKind; 2] = [RefundKind::Orders, RefundKind::Overpayments];

    fn table(self) -> &'static str {
        match self {
            RefundKind::Orders => "refunds",
            RefundKind::Overpayments => "overpayments",
        }
    }

    fn key_column(self) -> &'static str {
        match self {
            RefundKind::Orders => "order_no",
            RefundKind::Overpayments => "payment",
        }
    }
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refund {
    /// Where it is written.
    #[serde(rename = "book")]
    pub kind: RefundKind,
    /// The order's number; of an overpayment, whatever the provider said.
    pub order_no: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// How much.
    #[serde(flatten)]
    pub money: Money,
    /// `requested`, `sent` or `confirmed`.
    pub state: String,
    /// The provider's id of the refund, once it has one.
    pub refund: String,
    /// How often the provider said that it failed.
    pub failures: i64,
    /// Tries so far.
    pub attempts: i64,
    /// When it is tried next.
    pub next_try_at: Millis,
    /// How the last try failed.
    pub last_error: String,
}

const COLUMNS: &str = "order_no, payment, amount, currency, state, refund, failures, attempts, next_try_at, last_error";

fn parse_rows(kind: RefundKind, rows: Vec<Vec<SqlValue>>) -> Result<Vec<Refund>, StoreError> {
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        Ok(Refund {
            kind,
            order_no: row.text()?,
            payment: row.text()?,
            money: row.money()?,
            state: row.text()?,
            refund: row.text()?,
            failures: row.int()?,
            attempts: row.int()?,
            next_try_at: Millis(row.int()?),
            last_error: row.text()?,
        })
    };
    rows.into_iter().map(parse_row).collect()
}

/// Takes up to `limit` refunds of each book whose time has come, and sets their next try ahead, so that no two sweepers
/// send one at the same time.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn claim_due<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Refund>, StoreError> {
    let mut claimed = Vec::new();
    for kind in RefundKind::ALL {
        let (table, key_column) = (kind.table(), kind.key_column());
        let statement = format!(
            "UPDATE {table} SET attempts = attempts + 1, \
             next_try_at = CAST(?1 AS BIGINT) + 5000 * (attempts + 1) * (attempts + 1) \
             WHERE state <> 'confirmed' AND next_try_at <= CAST(?1 AS BIGINT) AND {key_column} IN (SELECT r.{key_column} \
               FROM {table} r WHERE r.state <> 'confirmed' AND r.next_try_at <= CAST(?1 AS BIGINT) \
               ORDER BY r.next_try_at LIMIT CAST(?2 AS BIGINT)) RETURNING {COLUMNS}"
        );
        claimed.extend(parse_rows(kind, sql.run(&statement, vec![now.0.into(), limit.into()]).await?)?);
    }
    Ok(claimed)
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefundAttempt {
    /// The provider has it under this id.
    Accepted(String),
    /// The provider could not: the next try is a new refund, then.
    Failed(String, Millis),
    /// The provider did not say; it is asked again, not before then.
    Unknown(String, Millis),
}

/// Notes how a try ended; the next one comes in any case until the provider confirms.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn record_attempt<S: Sql>(sql: &S, refund: &Refund, attempt: &RefundAttempt) -> Result<(), StoreError> {
    let (set, text, not_before) = match attempt {
        RefundAttempt::Accepted(refund_id) => ("state = 'sent', refund = ?3, last_error = ''", refund_id, Millis(0)),
        RefundAttempt::Failed(error, not_before) => {
            ("state = 'requested', failures = failures + 1, refund = '', last_error = ?3", error, *not_before)
        }
        RefundAttempt::Unknown(error, not_before) => ("last_error = ?3", error, *not_before),
    };
    let statement = format!(
        "UPDATE {} SET {set}, next_try_at = \
         CASE WHEN next_try_at < CAST(?4 AS BIGINT) THEN CAST(?4 AS BIGINT) ELSE next_try_at END \
         WHERE order_no = ?1 AND payment = ?2 AND state <> 'confirmed'",
        refund.kind.table()
    );
    let params = vec![
        refund.order_no.as_str().into(),
        refund.payment.as_str().into(),
        text.as_str().into(),
        not_before.0.into(),
    ];
    sql.run(&statement, params).await.map(|_| ())
}

/// The provider said that a refund failed: it is asked for anew, a minute later. News of an earlier try than the one
/// that is under way changes nothing. `refund` is the provider's id, where it named one. Answers whether it is asked for.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn record_failure<S: Sql>(
    sql: &S,
    order_no: &str,
    payment: &str,
    refund: &str,
    now: Millis,
) -> Result<bool, StoreError> {
    let mut changed = false;
    for kind in RefundKind::ALL {
        let statement = format!(
            "UPDATE {} SET state = 'requested', failures = failures + 1, refund = '', next_try_at = ?4, \
             last_error = 'the provider said no' \
             WHERE order_no = ?1 AND payment = ?2 AND state <> 'confirmed' AND refund IN (CAST(?3 AS TEXT), '') \
             RETURNING payment",
            kind.table()
        );
        let params = vec![order_no.into(), payment.into(), refund.into(), now.plus(60_000).0.into()];
        changed |= !sql.run(&statement, params).await?.is_empty();
    }
    Ok(changed)
}

/// A confirmed refund, and the last one that was tried: of `?1`, paid with `?2`, and `?3` where the provider named it.
const MATCHING_CONFIRMED: &str = "order_no = ?1 AND payment = ?2 AND state = 'confirmed' \
     AND (refund IN (CAST(?3 AS TEXT), '') OR CAST(?3 AS TEXT) = '')";

/// Whether a refund that the provider now says has failed was confirmed before.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn was_confirmed<S: Sql>(sql: &S, order_no: &str, payment: &str, refund: &str) -> Result<bool, StoreError> {
    Ok(!query(sql, MATCHING_CONFIRMED, vec![order_no.into(), payment.into(), refund.into()]).await?.is_empty())
}

/// Opens a refund again that [`bounced`]: it can fail now, and be asked for anew. Its order stays where it is.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn reopen<S: Sql>(sql: &S, order_no: &str, payment: &str, refund: &str) -> Result<(), StoreError> {
    for kind in RefundKind::ALL {
        let statement = format!("UPDATE {} SET state = 'sent' WHERE {MATCHING_CONFIRMED}", kind.table());
        sql.run(&statement, vec![order_no.into(), payment.into(), refund.into()]).await?;
    }
    Ok(())
}

/// Writes down that money is to go back without touching its order; repeating it changes nothing.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn record_overpayment<S: Sql>(
    sql: &S,
    order_no: &str,
    payment: &str,
    money: &Money,
    now: Millis,
) -> Result<(), StoreError> {
    let statement = "INSERT INTO overpayments (payment, order_no, amount, currency, next_try_at) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING";
    let params =
        vec![payment.into(), order_no.into(), money.amount.into(), money.currency.as_str().into(), now.0.into()];
    sql.run(statement, params).await.map(|_| ())
}

/// Whether a payment went back, or is to go back, without touching its order.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn is_overpayment<S: Sql>(sql: &S, payment: &str) -> Result<bool, StoreError> {
    Ok(!sql.run("SELECT payment FROM overpayments WHERE payment = ?1", vec![payment.into()]).await?.is_empty())
}

/// The provider confirmed a refund, and perhaps named it; `false` where the book has none such.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn confirm<S: Sql>(
    sql: &S,
    kind: RefundKind,
    order_no: &str,
    payment: &str,
    refund: &str,
) -> Result<bool, StoreError> {
    let statement = format!(
        "UPDATE {} SET state = 'confirmed', last_error = '', \
         refund = CASE WHEN CAST(?3 AS TEXT) = '' THEN refund ELSE CAST(?3 AS TEXT) END \
         WHERE order_no = ?1 AND payment = ?2 RETURNING payment",
        kind.table()
    );
    Ok(!sql.run(&statement, vec![order_no.into(), payment.into(), refund.into()]).await?.is_empty())
}

/// Refunds that are not confirmed, the longest-waiting first: what an operator looks at.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn list_unconfirmed<S: Sql>(sql: &S) -> Result<Vec<Refund>, StoreError> {
    query(sql, "state <> 'confirmed' ORDER BY attempts DESC, next_try_at LIMIT 200", Vec::new()).await
}

/// All refunds that name an order.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn list_for_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Vec<Refund>, StoreError> {
    query(sql, "order_no = ?1", vec![order_no.to_string().into()]).await
}

async fn query<S: Sql>(sql: &S, condition: &str, params: Vec<SqlValue>) -> Result<Vec<Refund>, StoreError> {
    let mut found = Vec::new();
    for kind in RefundKind::ALL {
        let statement = format!("SELECT {COLUMNS} FROM {} WHERE {condition}", kind.table());
        found.extend(parse_rows(kind, sql.run(&statement, params.clone()).await?)?);
    }
    Ok(found)
}
