//! Orders as the ledger has them, and how they are read.

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    order::{Order, OrderStatus},
    time::Millis,
};
use serde_json::json;
use stores::{
    ledger::{clock::Clock, row_reader::RowReader},
    ports::{Dialect, Sql, SqlValue, StoreError},
    reply::{non_empty, non_zero_time},
};

use crate::order_record::{OrderState, Transition};

/// An order as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderRow {
    /// The order.
    pub order: Order,
    /// Whether it holds units.
    pub live: bool,
    /// When the row last changed.
    pub updated_at: Millis,
    /// The provider's id of its payment.
    pub payment: String,
    /// The provider that opened its payment session; empty before, or if that was lost with a ledger.
    pub provider: String,
    /// The activity's epoch when the row was read.
    pub epoch: i64,
}

impl OrderRow {
    /// Of an entry of the line, which has no row of an order.
    #[must_use]
    pub fn without_row(order: Order) -> Self {
        let updated_at = order.created_at;
        Self { order, live: false, updated_at, payment: String::new(), provider: String::new(), epoch: 0 }
    }

    /// The transition that Redis is to apply. `stream_id` is the message to acknowledge with it, or empty.
    #[must_use]
    pub fn to_transition(&self, stream_id: String) -> Transition {
        Transition { order_no: self.order.order_no.clone(), state: self.state(), stream_id }
    }

    /// Its state.
    pub fn state(&self) -> OrderState {
        OrderState {
            epoch: self.epoch,
            status: self.order.status,
            live: self.live,
            pay_by: self.order.pay_by.unwrap_or_default(),
            paid_at: self.order.paid_at.unwrap_or_default(),
            refunded: self.order.refunded,
            reason: self.order.reason.clone().unwrap_or_default(),
        }
    }
}

/// The columns that every query of orders returns. The URL of a closed session is left out, so that no buyer is sent to
/// it.
pub const COLUMNS: &str = "order_no, user_id, sku, quantity, amount, currency, status, live, reason, \
     created_at, pay_by, paid_at, CASE WHEN checkout_url <> '' AND EXISTS (SELECT 1 FROM sessions s \
       WHERE s.order_no = orders.order_no AND s.url = orders.checkout_url AND s.state = 'closed') \
       THEN '' ELSE checkout_url END, updated_at, payment, provider, refunded, \
     COALESCE((SELECT p.epoch FROM epochs p WHERE p.activity = orders.activity), 0)";

fn parse_row(row: Vec<SqlValue>) -> Result<OrderRow, StoreError> {
    let mut row = RowReader::new(row);
    let order_no = row.parse(OrderNo::parse)?;
    let user = row.parse(UserId::parse)?;
    let sku = row.parse(SkuId::parse)?;
    let (quantity, money) = (row.int()?, row.money()?);
    let status = row.parse(|text| OrderStatus::parse(text).ok_or(()))?;
    let live = row.int()? == 1;
    let reason = non_empty(row.text()?);
    let created_at = Millis(row.int()?);
    let (pay_by, paid_at) = (non_zero_time(row.int()?), non_zero_time(row.int()?));
    let checkout_url = non_empty(row.text()?);
    let updated_at = Millis(row.int()?);
    let (payment, provider, refunded) = (row.text()?, row.text()?, row.int()?);
    let order = Order {
        refunded,
        order_no,
        user,
        status,
        sku,
        quantity,
        money,
        created_at,
        pay_by,
        paid_at,
        reason,
        checkout_url,
        declined_at: None,
        ahead: Some(0),
        estimated_wait_ms: 0,
    };
    Ok(OrderRow { order, live, updated_at, payment, provider, epoch: row.int()? })
}

/// Parses rows of [`COLUMNS`].
pub fn parse_rows(rows: Vec<Vec<SqlValue>>) -> Result<Vec<OrderRow>, StoreError> {
    rows.into_iter().map(parse_row).collect()
}

/// Loads the state of each of some orders of one activity; `None` for orders that the ledger does not have. Orders with
/// the same state share one row: Spin passes rows one by one, which took longer than writing the orders.
pub async fn load_states<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    orders: &[&OrderNo],
) -> Result<Vec<Option<OrderState>>, StoreError> {
    let (position, json_rows) = match sql.dialect() {
        Dialect::Sqlite => ("e.key", "json_each(?1) AS e"),
        Dialect::Postgres => {
            ("e.place - 1", "jsonb_array_elements_text((?1::text)::jsonb) WITH ORDINALITY AS e (value, place)")
        }
    };
    let statement = format!(
        include_str!("../../sql/orders/load_states.sql"),
        positions = sql.dialect().json_array_of(position),
        json_rows = json_rows,
    );
    let rows = sql.run(&statement, vec![json!(orders).to_string().into(), activity.as_str().into()]).await?;
    let mut states = vec![None; orders.len()];
    for row in rows {
        let mut row = RowReader::new(row);
        let positions: Vec<usize> = row.parse(|text| serde_json::from_str(text))?;
        let state = OrderState {
            epoch: row.int()?,
            status: row.parse(|text| OrderStatus::parse(text).ok_or(()))?,
            live: row.int()? == 1,
            pay_by: Millis(row.int()?),
            paid_at: Millis(row.int()?),
            reason: row.text()?,
            refunded: row.int()?,
        };
        for position in positions {
            if let Some(slot) = states.get_mut(position) {
                *slot = Some(state.clone());
            }
        }
    }
    Ok(states)
}

/// Loads one order.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM orders WHERE order_no = ?1");
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into()]).await?)?.pop())
}

/// [`COLUMNS`] and the time, for [`parse_effective`].
fn columns_at(now: Clock, dialect: Dialect) -> String {
    format!("{COLUMNS}, {}", now.sql(dialect))
}

/// Parses an order as buyers see it: an unpaid one whose time to pay is over has expired, even before a sweep expires it.
fn parse_effective(mut row: Vec<SqlValue>) -> Result<Order, StoreError> {
    let now = Millis(RowReader::new(row.pop().into_iter().collect()).int()?);
    Ok(parse_row(row)?.order.effective_at(now))
}

/// Loads an order as buyers see it.
pub async fn load_effective<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    now: impl Into<Clock>,
) -> Result<Option<Order>, StoreError> {
    let statement = format!("SELECT {} FROM orders WHERE order_no = ?1", columns_at(now.into(), sql.dialect()));
    let rows = sql.run(&statement, vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map(parse_effective).transpose()
}

/// Loads those of `orders` that exist.
pub async fn load_many<S: Sql>(sql: &S, orders: &[&OrderNo]) -> Result<Vec<OrderRow>, StoreError> {
    let order_numbers: Vec<_> = orders.iter().map(ToString::to_string).collect();
    let json_values = sql.dialect().json_values("?1");
    let statement = format!("SELECT {COLUMNS} FROM orders WHERE order_no IN ({json_values})");
    parse_rows(sql.run(&statement, vec![json!(order_numbers).to_string().into()]).await?)
}

/// An order as Redis has it, to be compared with its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedOrder {
    /// Its number.
    pub order_no: OrderNo,
    /// Its status.
    pub status: OrderStatus,
    /// Whether it holds units.
    pub holds_units: bool,
    /// Whether Redis knows where it is paid.
    pub has_checkout_url: bool,
}

/// Returns the positions of those `orders` whose row has another status, or lacks the checkout URL; and of those that
/// have no row, unless they hold no units and await no refund.
pub async fn find_differing<S: Sql>(sql: &S, orders: &[RecordedOrder]) -> Result<Vec<usize>, StoreError> {
    let flag = |flag: bool| if flag { "1" } else { "0" };
    let to_json = |order: &RecordedOrder| {
        let must_exist = order.holds_units || order.status == OrderStatus::Refunding;
        json!([order.order_no, order.status.as_str(), flag(must_exist), flag(order.has_checkout_url)])
    };
    let (position, json_rows) = match sql.dialect() {
        Dialect::Sqlite => ("e.key", "json_each(?1) AS e"),
        Dialect::Postgres => {
            ("e.place - 1", "jsonb_array_elements((?1::text)::jsonb) WITH ORDINALITY AS e (value, place)")
        }
    };
    let statement = format!(
        include_str!("../../sql/orders/find_differing.sql"),
        positions = sql.dialect().json_array_of(position),
        json_rows = json_rows,
        order_no = "(e.value ->> 0)",
        status = "(e.value ->> 1)",
        must_exist = "(e.value ->> 2)",
        has_checkout_url = "(e.value ->> 3)",
    );
    let json = json!(orders.iter().map(to_json).collect::<Vec<_>>()).to_string();
    let row = sql.run(&statement, vec![json.into()]).await?.into_iter().next().unwrap_or_default();
    RowReader::new(row).parse(|text| serde_json::from_str(text))
}

/// Lists up to `limit` orders of a user, newest first, starting after the order that was created at `before` if it is
/// given; as buyers see them.
pub async fn list_for_user<S: Sql>(
    sql: &S,
    user: &UserId,
    before: Option<(Millis, &OrderNo)>,
    limit: i64,
    now: impl Into<Clock>,
) -> Result<Vec<Order>, StoreError> {
    // Two statements, because a condition that holds for every row without `before` would keep an index from finding
    // where the page starts.
    let older = before.map_or("", |_| include_str!("../../sql/orders/older_than.sql"));
    let statement = format!(
        include_str!("../../sql/orders/list_for_user.sql"),
        columns = columns_at(now.into(), sql.dialect()),
        older = older
    );
    let mut params = vec![user.as_str().into(), limit.into()];
    if let Some((created_at, order_no)) = before {
        params.extend([created_at.0.into(), order_no.to_string().into()]);
    }
    sql.run(&statement, params).await?.into_iter().map(parse_effective).collect()
}

/// Loads up to `limit` orders of an activity with a number greater than `after`, sorted by number.
pub async fn load_page<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    after: &str,
    limit: i64,
) -> Result<Vec<OrderRow>, StoreError> {
    // The activity's order numbers are those between `<activity>.` and `<activity>/`: the slash comes after the dot.
    let statement = format!(
        "SELECT {COLUMNS} FROM orders WHERE order_no > ?1 AND order_no < ?2 ORDER BY order_no LIMIT CAST(?3 AS BIGINT)"
    );
    let start = format!("{activity}.");
    let after = if after > start.as_str() { after } else { &start };
    parse_rows(sql.run(&statement, vec![after.into(), format!("{activity}/").into(), limit.into()]).await?)
}

/// Lists up to `limit` orders of an activity, newest first; with `before`, those with a smaller number.
pub async fn list_newest<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    before: &str,
    limit: i64,
) -> Result<Vec<OrderRow>, StoreError> {
    let statement = format!(
        "SELECT {COLUMNS} FROM orders WHERE order_no > ?1 AND order_no < ?2 ORDER BY order_no DESC LIMIT CAST(?3 AS BIGINT)"
    );
    let before = if before.is_empty() { format!("{activity}/") } else { before.to_owned() };
    parse_rows(sql.run(&statement, vec![format!("{activity}.").into(), before.into(), limit.into()]).await?)
}

/// Counts the orders of an activity.
pub async fn count<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let statement = "SELECT CAST(SUM(orders) AS BIGINT) FROM order_counts WHERE activity = ?1";
    let row = sql.run(statement, vec![activity.as_str().into()]).await?.into_iter().next().unwrap_or_default();
    RowReader::new(row).int()
}
