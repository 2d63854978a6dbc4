//! Disputes of payments in the ledger (G21).

use domain::{
    ids::OrderNo,
    time::Millis,
    webhook::{Dispute, DisputeStatus, PaymentProvider},
};
use serde_json::json;
use stores::{
    ledger::{deletion::delete_batch, row_reader::RowReader},
    ports::{Sql, SqlValue, StoreError},
};

use super::{callback_outcomes::unparked_outcomes, callback_rows::sanitize};

const COLUMNS: &str = "dispute, provider, order_no, payment, amount, currency, reason, status, opened_at, changed_at";

/// How long a dispute of an unknown payment is kept, in milliseconds: the provider may report the payment later.
const UNKNOWN_KEPT_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// The order whose payment `{payment}` its provider has, in SQL; NULL if there is none. A parked payment counts.
fn order_of(payment: &str, provider: &str) -> String {
    format!(include_str!("../../sql/disputes/order_of.sql"), unparked_outcomes = unparked_outcomes())
        .replace("$payment", payment)
        .replace("$provider", provider)
}

/// Finds the order of a dispute: the one that it names, if its provider has the order, or the one that has its payment.
pub async fn find_order<S: Sql>(sql: &S, dispute: &Dispute) -> Result<Option<String>, StoreError> {
    let statement = format!(
        "SELECT COALESCE((SELECT order_no FROM orders WHERE order_no = ?3 AND (provider = ?2 OR provider = '' \
         AND payment <> '')), {}, '')",
        order_of("?1", "?2")
    );
    let params = vec![sanitize(&dispute.payment), dispute.provider.as_str().into(), sanitize(&dispute.order_no)];
    let rows = sql.run(&statement, params).await?;
    let order_no = RowReader::new(rows.into_iter().next().unwrap_or_default()).text()?;
    Ok(Some(order_no).filter(|order_no| !order_no.is_empty()))
}

/// Records what a provider reports about a dispute. A report counts if it is later than those before, or says of the same time
/// that the dispute ended: they arrive in any order, and twice.
pub async fn record<S: Sql>(sql: &S, dispute: &Dispute) -> Result<(), StoreError> {
    let Dispute { dispute: id, provider, order_no, payment, money, reason, status, opened_at, changed_at } = dispute;
    let params = vec![
        sanitize(id),
        provider.as_str().into(),
        sanitize(order_no),
        sanitize(payment),
        money.amount.into(),
        sanitize(&money.currency),
        sanitize(reason),
        status.as_str().into(),
        opened_at.0.into(),
        changed_at.0.into(),
    ];
    sql.run(include_str!("../../sql/disputes/record.sql"), params).await.map(|_| ())
}

/// Gives disputes the orders whose payments the ledger has by now, and erases up to `limit` old ones that are still without.
/// Returns how many were erased.
pub async fn name_orders<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<usize, StoreError> {
    let order = order_of("disputes.payment", "disputes.provider");
    let statement = format!("UPDATE disputes SET order_no = {order} WHERE order_no = '' AND {order} IS NOT NULL");
    sql.run(&statement, Vec::new()).await?;
    let params = vec![now.plus(-UNKNOWN_KEPT_MS).0.into(), limit.into()];
    delete_batch(sql, "disputes", "dispute", "order_no = '' AND changed_at <= ?1", params).await
}

/// Lists the disputes of orders, oldest first.
pub async fn list_for_orders<S: Sql>(sql: &S, orders: &[&OrderNo]) -> Result<Vec<Dispute>, StoreError> {
    let of_orders = sql.dialect().json_values("?1");
    let statement =
        format!("SELECT {COLUMNS} FROM disputes WHERE order_no IN ({of_orders}) ORDER BY opened_at, dispute");
    let rows = sql.run(&statement, vec![json!(orders).to_string().into()]).await?;
    rows.into_iter().map(parse_row).collect()
}

fn parse_row(row: Vec<SqlValue>) -> Result<Dispute, StoreError> {
    let mut row = RowReader::new(row);
    Ok(Dispute {
        dispute: row.text()?,
        provider: row.parse(|word| PaymentProvider::parse(word).ok_or(()))?,
        order_no: row.text()?,
        payment: row.text()?,
        money: row.money()?,
        reason: row.text()?,
        status: row.parse(|word| DisputeStatus::parse(word).ok_or(()))?,
        opened_at: Millis(row.int()?),
        changed_at: Millis(row.int()?),
    })
}
