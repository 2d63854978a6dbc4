//! Encrypted delivery addresses in the ledger (E1), which does not have the key, and what the order's payment page shows.

use domain::{
    ids::OrderNo,
    language::{Language, Translations},
    time::Millis,
};
use serde::Deserialize;
use stores::{
    ledger::{clock::Clock, deletion::delete_batch, row_reader::RowReader},
    ports::{Dialect, Sql, StoreError},
};

use super::sessions::LatestSession;
use crate::provider::Presentation;

/// What a buyer gave at a checkout.
#[derive(Debug, Clone, Copy)]
pub struct SealedAddress<'a> {
    /// The encrypted address.
    pub sealed: &'a str,
    /// The buyer's language.
    pub language: &'a Language,
}

/// The members of a SKU that a payment page shows.
#[derive(Default, Deserialize)]
struct Item {
    name: String,
    #[serde(default)]
    names: Translations,
    #[serde(default)]
    image: String,
}

/// What the ledger has about an order's checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedCheckout {
    /// What the payment page shows, as it was at the order's first checkout.
    pub shown: Presentation,
    /// The latest payment session.
    pub latest_session: Option<LatestSession>,
}

/// Saves the encrypted address of an order that can still be paid, in place of an earlier one; `None` if the order cannot
/// be paid.
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
    let now = now.into().sql(sql.dialect());
    let statement = format!(include_str!("../../sql/addresses/save.sql"), skus = skus, now = now);
    let params = vec![order_no.to_string().into(), sealed.into(), language.as_str().into()];
    let Some(row) = sql.run(&statement, params).await?.into_iter().next() else { return Ok(None) };
    let mut row = RowReader::new(row);
    let (sku, item, language) = (row.text()?, row.text()?, row.text()?);
    let item = serde_json::from_str(&item).unwrap_or_else(|_| Item { name: sku, ..Item::default() });
    let language = Language::try_from(language).unwrap_or_default();
    let name = language.choose(&item.name, &item.names).to_owned();
    let shown = Presentation { name, image: item.image, language };
    Ok(Some(SavedCheckout { shown, latest_session: LatestSession::read(&mut row)? }))
}

/// Loads the encrypted address of an order; `None` if it has none, or it was erased.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<String>, StoreError> {
    let rows = sql.run("SELECT sealed FROM addresses WHERE order_no = ?1", vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map(|row| RowReader::new(row).text()).transpose()
}

/// Erases up to `limit` addresses that were saved at or before `before`, of orders that have not changed since. The
/// addresses of orders in `pending_payment` or `refunding` are still needed and stay. Returns how many were erased.
pub async fn erase<S: Sql>(sql: &S, before: Millis, limit: i64) -> Result<usize, StoreError> {
    let condition = include_str!("../../sql/addresses/are_old.sql");
    delete_batch(sql, "addresses", "order_no", condition, vec![before.0.into(), limit.into()]).await
}
