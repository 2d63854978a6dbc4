//! Encrypted delivery addresses in the ledger (E1), which does not have the key, and what the order's payment page shows.

use std::collections::HashMap;

use domain::{ids::OrderNo, language::Language, time::Millis};
use sale::ledger::items::Item;
use serde_json::json;
use stores::{
    ledger::{clock::Clock, deletion::delete_batch, row_reader::RowReader},
    ports::{Dialect, Sql, StoreError},
};

use super::sessions::LatestSession;
use crate::provider::Presentation;

/// What a buyer gave at a checkout.
#[derive(Debug, Clone, Copy)]
pub struct SealedAddress<'a> {
    /// The encrypted address; empty without one.
    pub sealed: &'a str,
    /// The buyer's language.
    pub language: &'a Language,
}

/// What the ledger has about an order's checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCheckout {
    /// What the payment page shows, as it was at the order's first checkout.
    pub shown: Presentation,
    /// The latest payment session.
    pub latest_session: Option<LatestSession>,
}

/// Begins the checkout of an order that can still be paid. Where the activity has a form for it, saves the encrypted address,
/// in place of an earlier one. `None` if the order cannot be paid, or the form's address is missing.
pub async fn save<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    SealedAddress { sealed, language }: SealedAddress<'_>,
    now: impl Into<Clock>,
) -> Result<Option<SavedCheckout>, StoreError> {
    let skus = match sql.dialect() {
        Dialect::Sqlite => "SELECT e.value AS sku FROM json_each(a.spec, '$.skus') AS e",
        Dialect::Postgres => "SELECT e AS sku FROM jsonb_array_elements(a.spec::jsonb -> 'skus') AS e",
    };
    let checkout = match sql.dialect() {
        Dialect::Sqlite => "COALESCE(a.spec ->> '$.checkout', 'form')",
        Dialect::Postgres => "COALESCE(a.spec::jsonb ->> 'checkout', 'form')",
    };
    let now = now.into().sql(sql.dialect());
    let statement = format!(include_str!("../../sql/addresses/save.sql"), skus = skus, checkout = checkout, now = now);
    let params = vec![order_no.to_string().into(), sealed.into(), language.as_str().into()];
    let Some(row) = sql.run(&statement, params).await?.into_iter().next() else { return Ok(None) };
    let mut row = RowReader::new(row);
    let (sku, item, language) = (row.text()?, row.text()?, row.text()?);
    let item = serde_json::from_str(&item).unwrap_or_else(|_| Item { name: sku, ..Item::default() });
    let language = Language::try_from(language).unwrap_or_default();
    let (name, asks_address) = (item.name(&language), row.int()? == 1);
    let shown = Presentation { name, image: item.image, language, asks_address };
    Ok(Some(SavedCheckout { shown, latest_session: LatestSession::read(&mut row)? }))
}

/// Saves the encrypted address that a payment page asked for, with an order that the payment may pay. A report about an
/// order that is paid already brings back no address that was erased.
pub async fn save_collected<S: Sql>(
    sql: &S,
    order_no: &str,
    sealed: &str,
    now: impl Into<Clock>,
) -> Result<(), StoreError> {
    let statement =
        format!(include_str!("../../sql/addresses/save_collected.sql"), now = now.into().sql(sql.dialect()));
    sql.run(&statement, vec![order_no.into(), sealed.into()]).await.map(|_| ())
}

/// Loads the encrypted address of an order; `None` if it has none, or it was erased.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<String>, StoreError> {
    Ok(load_many(sql, &[order_no]).await?.remove(order_no))
}

/// Loads the encrypted addresses of orders, by number. One that has none, or whose address was erased, is missing.
pub async fn load_many<S: Sql>(sql: &S, orders: &[&OrderNo]) -> Result<HashMap<OrderNo, String>, StoreError> {
    let of_orders = sql.dialect().json_values("?1");
    let statement = format!("SELECT order_no, sealed FROM addresses WHERE order_no IN ({of_orders}) AND sealed <> ''");
    let rows = sql.run(&statement, vec![json!(orders).to_string().into()]).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok((row.parse(OrderNo::parse)?, row.text()?))).collect()
}

/// Erases up to `limit` addresses that were saved at or before `before`, of orders that have not changed since. The
/// addresses of orders in `pending_payment` or `refunding` are still needed and stay. Returns how many were erased.
pub async fn erase<S: Sql>(sql: &S, before: Millis, limit: i64) -> Result<usize, StoreError> {
    let condition = include_str!("../../sql/addresses/are_old.sql");
    delete_batch(sql, "addresses", "order_no", condition, vec![before.0.into(), limit.into()]).await
}
