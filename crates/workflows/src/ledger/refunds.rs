//! Refunds in the ledger as durable work: asked for, sent, confirmed (E4, I6).
//!
//! There are two books of them: refunds of orders, and money that goes back without touching its order because it came
//! a second time, or an operator said so.

use domain::{ids::OrderNo, money::Money, time::Millis};
use serde::Serialize;

use super::rows::Row;
use crate::ports::{Sql, StoreError, Value};

/// Where a refund is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Book {
    /// Refunds of orders: a trigger opens one when an order is refunding, and closes it when it is refunded.
    Orders,
    /// Money that no order wants.
    Overpayments,
}

impl Book {
    const ALL: [Book; 2] = [Book::Orders, Book::Overpayments];

    fn table(self) -> &'static str {
        match self {
            Book::Orders => "refunds",
            Book::Overpayments => "overpayments",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Book::Orders => "order_no",
            Book::Overpayments => "payment",
        }
    }
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refund {
    /// Where it is written.
    pub book: Book,
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

fn read_all(book: Book, rows: Vec<Vec<Value>>) -> Result<Vec<Refund>, StoreError> {
    let read = |row| {
        let mut row = Row::new(row);
        Ok(Refund {
            book,
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
    rows.into_iter().map(read).collect()
}

/// Takes up to `limit` refunds of each book whose time has come, and sets their next try ahead, so that no two sweepers
/// send one at the same time.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn take<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<Vec<Refund>, StoreError> {
    let mut taken = Vec::new();
    for book in Book::ALL {
        let (table, key) = (book.table(), book.key());
        let statement = format!(
            "UPDATE {table} SET attempts = attempts + 1, \
             next_try_at = CAST(?1 AS BIGINT) + 5000 * (attempts + 1) * (attempts + 1) \
             WHERE state <> 'confirmed' AND next_try_at <= CAST(?1 AS BIGINT) AND {key} IN (SELECT r.{key} \
               FROM {table} r WHERE r.state <> 'confirmed' AND r.next_try_at <= CAST(?1 AS BIGINT) \
               ORDER BY r.next_try_at LIMIT CAST(?2 AS BIGINT)) RETURNING {COLUMNS}"
        );
        taken.extend(read_all(book, sql.run(&statement, vec![now.0.into(), limit.into()]).await?)?);
    }
    Ok(taken)
}

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The provider has it under this id.
    Taken(String),
    /// The provider could not: the next try is a new refund, then.
    Failed(String, Millis),
    /// The provider did not say; it is asked again, not before then.
    Unknown(String, Millis),
}

/// Notes how a try ended; the next one comes in any case until the provider confirms.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn record_attempt<S: Sql>(sql: &S, of: &Refund, tried: &Tried) -> Result<(), StoreError> {
    let (set, text, then) = match tried {
        Tried::Taken(refund) => ("state = 'sent', refund = ?3, last_error = ''", refund, Millis(0)),
        Tried::Failed(error, then) => {
            ("state = 'requested', failures = failures + 1, refund = '', last_error = ?3", error, *then)
        }
        Tried::Unknown(error, then) => ("last_error = ?3", error, *then),
    };
    let statement = format!(
        "UPDATE {} SET {set}, next_try_at = \
         CASE WHEN next_try_at < CAST(?4 AS BIGINT) THEN CAST(?4 AS BIGINT) ELSE next_try_at END \
         WHERE order_no = ?1 AND payment = ?2 AND state <> 'confirmed'",
        of.book.table()
    );
    let params = vec![of.order_no.as_str().into(), of.payment.as_str().into(), text.as_str().into(), then.0.into()];
    sql.run(&statement, params).await.map(|_| ())
}

/// The provider said that a refund failed: it is asked for anew, a minute later. News of an earlier try than the one
/// that is under way changes nothing. `refund` is the provider's id, where it named one. Answers whether it is asked for.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn failed<S: Sql>(
    sql: &S,
    order_no: &str,
    payment: &str,
    refund: &str,
    now: Millis,
) -> Result<bool, StoreError> {
    let mut changed = false;
    for book in Book::ALL {
        let statement = format!(
            "UPDATE {} SET state = 'requested', failures = failures + 1, refund = '', next_try_at = ?4, \
             last_error = 'the provider said no' \
             WHERE order_no = ?1 AND payment = ?2 AND state <> 'confirmed' AND refund IN (CAST(?3 AS TEXT), '') \
             RETURNING payment",
            book.table()
        );
        let params = vec![order_no.into(), payment.into(), refund.into(), now.plus(60_000).0.into()];
        changed |= !sql.run(&statement, params).await?.is_empty();
    }
    Ok(changed)
}

/// A confirmed refund, and the last one that was tried: of `?1`, paid with `?2`, and `?3` where the provider named it.
const BOUNCED: &str = "order_no = ?1 AND payment = ?2 AND state = 'confirmed' \
     AND (refund IN (CAST(?3 AS TEXT), '') OR CAST(?3 AS TEXT) = '')";

/// Whether a refund that the provider now says has failed was confirmed before.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn bounced<S: Sql>(sql: &S, order_no: &str, payment: &str, refund: &str) -> Result<bool, StoreError> {
    Ok(!list(sql, BOUNCED, vec![order_no.into(), payment.into(), refund.into()]).await?.is_empty())
}

/// Opens a refund again that [`bounced`]: it can fail now, and be asked for anew. Its order stays where it is.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn reopen<S: Sql>(sql: &S, order_no: &str, payment: &str, refund: &str) -> Result<(), StoreError> {
    for book in Book::ALL {
        let statement = format!("UPDATE {} SET state = 'sent' WHERE {BOUNCED}", book.table());
        sql.run(&statement, vec![order_no.into(), payment.into(), refund.into()]).await?;
    }
    Ok(())
}

/// Writes down that money is to go back without touching its order; repeating it changes nothing.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn overpaid<S: Sql>(
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
pub async fn given_back<S: Sql>(sql: &S, payment: &str) -> Result<bool, StoreError> {
    Ok(!sql.run("SELECT payment FROM overpayments WHERE payment = ?1", vec![payment.into()]).await?.is_empty())
}

/// The provider confirmed a refund, and perhaps named it; `false` where the book has none such.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn confirm<S: Sql>(
    sql: &S,
    book: Book,
    order_no: &str,
    payment: &str,
    refund: &str,
) -> Result<bool, StoreError> {
    let statement = format!(
        "UPDATE {} SET state = 'confirmed', last_error = '', \
         refund = CASE WHEN CAST(?3 AS TEXT) = '' THEN refund ELSE CAST(?3 AS TEXT) END \
         WHERE order_no = ?1 AND payment = ?2 RETURNING payment",
        book.table()
    );
    Ok(!sql.run(&statement, vec![order_no.into(), payment.into(), refund.into()]).await?.is_empty())
}

/// Refunds that are not confirmed, the longest-waiting first: what an operator looks at.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn open<S: Sql>(sql: &S) -> Result<Vec<Refund>, StoreError> {
    list(sql, "state <> 'confirmed' ORDER BY attempts DESC, next_try_at LIMIT 200", Vec::new()).await
}

/// All refunds that name an order.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn of_order<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Vec<Refund>, StoreError> {
    list(sql, "order_no = ?1", vec![order_no.to_string().into()]).await
}

async fn list<S: Sql>(sql: &S, which: &str, params: Vec<Value>) -> Result<Vec<Refund>, StoreError> {
    let mut found = Vec::new();
    for book in Book::ALL {
        let statement = format!("SELECT {COLUMNS} FROM {} WHERE {which}", book.table());
        found.extend(read_all(book, sql.run(&statement, params.clone()).await?)?);
    }
    Ok(found)
}
