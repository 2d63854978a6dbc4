//! Orders in the ledger.
//!
//! Each transition is one conditional statement. The caller whose statement changed the row settles Redis.

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    order::{Order, OrderStatus},
    time::Millis,
    webhook::PaymentProvider,
};
use serde_json::json;

use super::{row_reader::RowReader, sessions};
use crate::{
    ledger::leases::Lease,
    ports::{Dialect, Sql, SqlValue, StoreError},
    reply::{non_empty, non_zero_time},
    settle::{OrderState, Transition},
};

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
    /// The transition that Redis is to apply. `stream_id` is the message to acknowledge with it, or empty.
    #[must_use]
    pub fn to_transition(&self, stream_id: String) -> Transition {
        Transition { order_no: self.order.order_no.clone(), state: self.state(), stream_id }
    }

    /// Whether its buyer may have paid at `provider`: it opened the order's session, or the ledger lost who did. Of an order
    /// that was released without a session nothing was lost.
    #[must_use]
    pub fn may_have_paid_at(&self, provider: PaymentProvider) -> bool {
        let was_paid = matches!(self.order.status, OrderStatus::Paid | OrderStatus::Refunding | OrderStatus::Refunded);
        self.provider == provider.as_str()
            || self.provider.is_empty() && (was_paid || self.order.checkout_url.is_some())
    }

    /// Its state.
    pub(crate) fn state(&self) -> OrderState {
        OrderState {
            epoch: self.epoch,
            status: self.order.status,
            live: self.live,
            pay_by: self.order.pay_by.unwrap_or_default(),
            paid_at: self.order.paid_at.unwrap_or_default(),
            reason: self.order.reason.clone().unwrap_or_default(),
        }
    }
}

/// The columns that every query of orders returns. The URL of a closed session is left out, so that no buyer is sent to
/// it.
pub(crate) const COLUMNS: &str = "order_no, user_id, sku, quantity, amount, currency, status, live, reason, \
     created_at, pay_by, paid_at, CASE WHEN checkout_url <> '' AND EXISTS (SELECT 1 FROM sessions s \
       WHERE s.order_no = orders.order_no AND s.url = orders.checkout_url AND s.state = 'closed') \
       THEN '' ELSE checkout_url END, updated_at, payment, provider, \
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
    let order = Order {
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
        ahead: 0,
        estimated_wait_ms: 0,
    };
    Ok(OrderRow { order, live, updated_at, payment: row.text()?, provider: row.text()?, epoch: row.int()? })
}

pub(crate) fn parse_rows(rows: Vec<Vec<SqlValue>>) -> Result<Vec<OrderRow>, StoreError> {
    rows.into_iter().map(parse_row).collect()
}

/// An order message from the stream, ready to be inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// Its number.
    pub order_no: OrderNo,
    /// The buyer.
    pub user: UserId,
    /// The SKU.
    pub sku: SkuId,
    /// Units.
    pub quantity: i64,
    /// The total price.
    pub money: Money,
    /// When it was reserved.
    pub created_at: Millis,
    /// The epoch of the gate that accepted it.
    pub epoch: i64,
}

/// Inserts orders of one activity as `pending_payment` in one statement. Their time to pay starts at `now`.
///
/// Orders that exist already or that an older epoch accepted are left out, and on SQLite also those that exceed a SKU's
/// total or a buyer's limit; [`load_states`] shows which. Orders of a later epoch than the ledger's are inserted: the
/// ledger had that epoch before it was restored from a backup, and Redis counts its orders.
///
/// # Errors
/// See [`ledger`](super). PostgreSQL returns `LedgerRefused` for the whole batch if one order exceeds a total or a
/// limit.
pub async fn insert<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    orders: &[&NewOrder],
    now: Millis,
) -> Result<(), StoreError> {
    let to_json = |order: &&NewOrder| {
        let NewOrder { order_no, user, sku, quantity, money: Money { amount, currency }, created_at, epoch } = order;
        json!([order_no, sku, user, quantity, amount, currency, created_at.0, epoch])
    };
    let rows: Vec<_> = orders.iter().map(to_json).collect();
    let statement = match sql.dialect() {
        Dialect::Sqlite => include_str!("../../sql/queries/orders/insert.sqlite.sql"),
        // Locks the epoch until the rows are inserted: a rebuild that raises it at the same time sees the rows, or they
        // are left out.
        Dialect::Postgres => include_str!("../../sql/queries/orders/insert.postgres.sql"),
    };
    let params = vec![json!(rows).to_string().into(), now.0.into(), activity.as_str().into()];
    sql.run(statement, params).await.map(|_| ())
}

/// Inserts an order that holds no units, as `expired`, so that its payment can be refunded. Idempotent.
///
/// # Errors
/// See [`ledger`](super).
pub async fn insert_released<S: Sql>(sql: &S, order: &NewOrder, now: Millis) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/queries/orders/insert_released.sql");
    let NewOrder { order_no, user, sku, quantity, money: Money { amount, currency }, created_at, .. } = order;
    let params = vec![
        order_no.to_string().into(),
        order_no.activity().as_str().into(),
        sku.as_str().into(),
        user.as_str().into(),
        (*quantity).into(),
        (*amount).into(),
        currency.as_str().into(),
        created_at.0.into(),
        now.0.into(),
    ];
    sql.run(statement, params).await.map(|_| ())
}

/// Loads the state of each of some orders of one activity; `None` for orders that the ledger does not have. Orders with
/// the same state share one row: Spin passes rows one by one, which took longer than writing the orders.
///
/// # Errors
/// See [`ledger`](super).
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
        include_str!("../../sql/queries/orders/load_states.sql"),
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
///
/// # Errors
/// See [`ledger`](super).
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM orders WHERE order_no = ?1");
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into()]).await?)?.pop())
}

/// Loads those of `orders` that exist.
///
/// # Errors
/// See [`ledger`](super).
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
///
/// # Errors
/// See [`ledger`](super).
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
        include_str!("../../sql/queries/orders/find_differing.sql"),
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
/// given.
///
/// # Errors
/// See [`ledger`](super).
pub async fn list_for_user<S: Sql>(
    sql: &S,
    user: &UserId,
    before: Option<(Millis, &OrderNo)>,
    limit: i64,
) -> Result<Vec<Order>, StoreError> {
    // Two statements, because a condition that holds for every row without `before` would keep an index from finding
    // where the page starts.
    let older = before.map_or("", |_| include_str!("../../sql/queries/orders/older_than.sql"));
    let statement =
        format!(include_str!("../../sql/queries/orders/list_for_user.sql"), columns = COLUMNS, older = older);
    let mut params = vec![user.as_str().into(), limit.into()];
    if let Some((created_at, order_no)) = before {
        params.extend([created_at.0.into(), order_no.to_string().into()]);
    }
    Ok(parse_rows(sql.run(&statement, params).await?)?.into_iter().map(|row| row.order).collect())
}

/// Loads up to `limit` orders of an activity with a number greater than `after`, sorted by number.
///
/// # Errors
/// See [`ledger`](super).
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

/// Counts the orders of an activity.
///
/// # Errors
/// See [`ledger`](super).
pub async fn count<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let statement = "SELECT CAST(SUM(orders) AS BIGINT) FROM order_counts WHERE activity = ?1";
    let row = sql.run(statement, vec![activity.as_str().into()]).await?.into_iter().next().unwrap_or_default();
    RowReader::new(row).int()
}

/// `pending_payment → cancelled`, by the buyer, while the time to pay is not over. Returns the order if this call
/// changed it.
///
/// # Errors
/// See [`ledger`](super).
pub async fn cancel<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = 'cancelled', live = 0, reason = 'cancelled_by_buyer', was_cancelled = 1, \
         updated_at = ?2, unsettled_since = ?2 WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > ?2 RETURNING {COLUMNS}"
    );
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into(), now.0.into()]).await?)?.pop())
}

/// `pending_payment → cancelled | expired`, depending on `to`, as Redis has it. When that happened is not known: a cancel
/// is taken for an early one (B8). Returns the order if this call changed it.
///
/// # Errors
/// See [`ledger`](super).
pub async fn release<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    to: OrderStatus,
    reason: &str,
    now: Millis,
) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = ?3, live = 0, reason = ?4, free_cancel_until = ?2, \
         was_cancelled = CASE ?3 WHEN 'cancelled' THEN 1 ELSE 0 END, updated_at = ?2, unsettled_since = ?2 WHERE order_no = ?1 AND status = 'pending_payment' RETURNING {COLUMNS}"
    );
    let params = vec![order_no.to_string().into(), now.0.into(), to.as_str().into(), reason.into()];
    Ok(parse_rows(sql.run(&statement, params).await?)?.pop())
}

/// `pending_payment → expired` for up to `limit` orders of an activity whose time to pay is over at `now`. An order with an
/// open payment session stays until the session is closed, but for [`sessions::GRACE_MS`] at most. Returns the
/// transitions that Redis is to apply; none if `lease` was lost.
///
/// # Errors
/// See [`ledger`](super).
pub async fn expire<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    limit: i64,
    lease: Option<&Lease>,
) -> Result<Vec<Transition>, StoreError> {
    const IS_DUE: &str = include_str!("../../sql/queries/orders/is_due.sql");
    let waits_until = now.plus(-sessions::GRACE_MS);
    let select = format!(
        include_str!("../../sql/queries/orders/find_due.sql"),
        order_numbers = sql.dialect().json_array_of("o.order_no"),
        is_due = IS_DUE,
    );
    let params = vec![now.0.into(), waits_until.0.into(), activity.as_str().into(), limit.into()];
    let row = sql.run(&select, params).await?.into_iter().next().unwrap_or_default();
    let due: Vec<OrderNo> = RowReader::new(row).parse(|text| serde_json::from_str(text))?;
    if due.is_empty() {
        return Ok(Vec::new());
    }
    let lock_clause = match sql.dialect() {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
    };
    let lease_condition = lease.map_or("1 = 1".to_owned(), |_| Lease::condition(4));
    let statement = format!(
        include_str!("../../sql/queries/orders/expire.sql"),
        lease_condition = lease_condition,
        json_values = sql.dialect().json_values("?3"),
        is_due = IS_DUE,
        lock_clause = lock_clause,
    );
    let mut params = vec![now.0.into(), waits_until.0.into(), json!(due).to_string().into()];
    params.extend(lease.into_iter().flat_map(Lease::params));
    sql.run(&statement, params).await?;
    let states = load_states(sql, activity, &due.iter().collect::<Vec<_>>()).await?;
    let transitions = due.into_iter().zip(states).filter_map(|(order_no, state)| {
        let state = state.filter(|state| state.status == OrderStatus::Expired)?;
        Some(Transition { order_no, state, stream_id: String::new() })
    });
    Ok(transitions.collect())
}

/// Starts the payment of an order whose session was lost with a ledger: records where to pay, and extends the time to pay
/// by the activity's extension, once (E6). Changes nothing unless the order is `pending_payment` and its time to pay is not
/// over. A session that is saved starts the payment itself ([`sessions::save`]).
///
/// # Errors
/// See [`ledger`](super).
pub async fn restart_payment<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    checkout_url: &str,
    now: Millis,
) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/queries/orders/restart_payment.sql");
    sql.run(statement, vec![order_no.to_string().into(), checkout_url.into(), now.0.into()]).await.map(|_| ())
}
