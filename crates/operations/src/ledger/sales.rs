//! What sales have sold and earned (G2), by counters that triggers keep: no query reads orders.

use std::collections::HashMap;

use domain::ids::ActivityId;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// What a sale earned in one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Revenue {
    /// ISO 4217 code.
    pub currency: String,
    /// Amounts of the orders that were paid, refunded ones included, in minor units.
    #[schemars(range(min = 0))]
    pub sold: i64,
    /// Of `sold`, what was given back, as a whole or in parts.
    #[schemars(range(min = 0))]
    pub refunded: i64,
}

/// What a sale has sold, by the ledger: orders in the queue do not count yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SaleFigures {
    /// Units on sale, of all SKUs; -1 if one is unlimited.
    #[schemars(range(min = -1))]
    pub total: i64,
    /// Units of orders that wait for payment.
    pub held_units: i64,
    /// Units sold: those of refunded orders only if they do not go back on sale.
    pub sold_units: i64,
    /// What it earned, by currency.
    pub revenue: Vec<Revenue>,
}

/// Loads the figures of each activity in `listed` that has any.
pub async fn load<S: Sql>(sql: &S, listed: &[&ActivityId]) -> Result<HashMap<ActivityId, SaleFigures>, StoreError> {
    let (json_values, listed) = (sql.dialect().json_values("?1"), json!(listed).to_string());
    let mut figures: HashMap<ActivityId, SaleFigures> = HashMap::new();
    let statement = format!(include_str!("../../sql/sales/load_units.sql"), json_values = json_values);
    for row in sql.run(&statement, vec![listed.as_str().into()]).await? {
        let mut row = RowReader::new(row);
        let of_sale = figures.entry(row.parse(ActivityId::parse)?).or_default();
        let (total, live, held) = (row.int()?, row.int()?, row.int()?);
        (of_sale.total, of_sale.held_units, of_sale.sold_units) = (total, held, live - held);
    }
    let statement = format!(include_str!("../../sql/sales/load_revenue.sql"), json_values = json_values);
    for row in sql.run(&statement, vec![listed.into()]).await? {
        let mut row = RowReader::new(row);
        let of_sale = figures.entry(row.parse(ActivityId::parse)?).or_default();
        of_sale.revenue.push(Revenue { currency: row.text()?, sold: row.int()?, refunded: row.int()? });
    }
    Ok(figures)
}
