//! What bookkeepers need of orders: each payment, refund and dispute (G21).

use domain::{ids::OrderNo, order::OrderStatus, time::Millis};
use orders::ledger::order_rows::OrderRow;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
    reply::non_zero_time,
};

use super::partial_refunds;

/// A payment, a refund or a dispute of an order: a line of the books.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BookEntry {
    /// The order.
    pub order_no: OrderNo,
    /// Its status.
    pub order_status: OrderStatus,
    /// What was bought.
    pub sku: String,
    /// How many.
    pub quantity: i64,
    /// `payment`, `second_payment`, `refund` or `dispute`.
    pub entry: String,
    /// When it was paid, requested or reported; `None` if the ledger does not keep it.
    pub at: Option<Millis>,
    /// The provider.
    pub provider: String,
    /// Its id of the payment session.
    pub session: String,
    /// Its id of the payment.
    pub payment: String,
    /// Its id of the refund or dispute.
    pub id: String,
    /// The amount in minor units: never negative.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// `paid`; of a refund `requested`, `sent` or `confirmed`; of a dispute `open`, `won`, `lost` or `closed`.
    pub state: String,
}

/// Lists the entries of a page of orders, in their order. An order that was not paid, or costs nothing, has none.
pub async fn list<S: Sql>(sql: &S, rows: &[OrderRow]) -> Result<Vec<BookEntry>, StoreError> {
    let statement = format!(
        include_str!("../../sql/books/list.sql"),
        orders = sql.dialect().json_values("?1"),
        rest_of_overpayments = partial_refunds::returned_of("overpayments"),
        rest_of_refunds = partial_refunds::returned_of("refunds"),
        received_at =
            "(SELECT MIN(c.received_at) FROM callbacks c WHERE c.order_no = p.order_no AND c.payment = p.payment)",
    );
    let orders: Vec<_> = rows.iter().map(|row| &row.order.order_no).collect();
    let mut entries = Vec::new();
    for row in sql.run(&statement, vec![json!(orders).to_string().into()]).await? {
        let mut row = RowReader::new(row);
        let order_no = row.parse(OrderNo::parse)?;
        let Some(position) = rows.iter().position(|row| row.order.order_no == order_no) else { continue };
        let order = &rows[position].order;
        let entry = BookEntry {
            order_no,
            order_status: order.status,
            sku: order.sku.to_string(),
            quantity: order.quantity,
            entry: row.text()?,
            at: non_zero_time(row.int()?),
            provider: row.text()?,
            session: row.text()?,
            payment: row.text()?,
            id: row.text()?,
            amount: row.int()?,
            currency: row.text()?,
            state: row.text()?,
        };
        entries.push((position, entry));
    }
    entries.sort_by_key(|(position, _)| *position);
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}
