//! The books of a sale, as the app exports them.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use super::Operator;

/// A line of the books.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Entry {
    /// The order.
    pub order_no: String,
    /// `payment`, `second_payment`, `refund` or `dispute`.
    pub entry: String,
    /// The provider; empty if it was lost.
    pub provider: String,
    /// The provider's id of the payment.
    pub payment: String,
    /// Minor units.
    pub amount: i64,
    /// ISO 4217.
    pub currency: String,
    /// How far it is.
    pub state: String,
}

impl Entry {
    /// Parses CSV with the columns' names.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        csv::Reader::from_reader(text.as_bytes()).deserialize().map(|entry| entry.context("the books")).collect()
    }
}

/// Lists all sales.
pub fn list_sales(operator: &Operator) -> Result<BTreeSet<String>> {
    let (mut sales, mut before) = (BTreeSet::new(), String::new());
    loop {
        let page: Value = serde_json::from_str(&operator.get(&format!("/activities?before={before}"))?.0)?;
        let ids = page["items"].as_array().into_iter().flatten().filter_map(|sale| sale["id"].as_str());
        sales.extend(ids.map(str::to_owned));
        let Some(next) = page["next"].as_str() else { return Ok(sales) };
        before = byte_serialize(next.as_bytes()).collect();
    }
}

/// Reads all pages of the books of sales, as one CSV.
pub fn read(operator: &Operator, sales: &BTreeSet<String>, updated_since: Option<&str>) -> Result<String> {
    let since: String = updated_since.map(|time| byte_serialize(time.as_bytes()).collect()).unwrap_or_default();
    let mut text = String::new();
    for sale in sales {
        let mut next = Some(format!("/orders?activity={sale}&updated_since={since}&books=csv"));
        let mut has_columns = true;
        while let Some(path) = next {
            let (page, link) = operator.get(&path)?;
            let columns = if has_columns && !text.is_empty() { page.find('\n').map_or(0, |end| end + 1) } else { 0 };
            text.push_str(&page[columns..]);
            has_columns = false;
            next = link.map(|link| link.trim_start_matches("/api/admin").to_owned());
        }
    }
    Ok(text)
}
