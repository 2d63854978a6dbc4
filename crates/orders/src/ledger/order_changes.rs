//! Statements that insert orders into the ledger and change them.
//!
//! Each transition is one conditional statement. The caller whose statement changed the row syncs Redis.

use domain::{
    ids::{ActivityId, OrderNo},
    money::Money,
    order::OrderStatus,
    time::Millis,
};
use serde_json::json;
use stores::{
    ledger::{clock::Clock, leases::Lease, row_reader::RowReader},
    ports::{Dialect, Sql, StoreError},
};

use super::order_rows::{COLUMNS, OrderRow, load_states, parse_rows};
use crate::order_record::{NewOrder, Transition};

/// How long an order whose time to pay is over waits for the provider's answer about its open session, in milliseconds.
/// A payment that is reported later counts as late.
pub const SESSION_GRACE_MS: i64 = 60_000;

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
        let NewOrder { order_no, user, sku, quantity, money, created_at, epoch, sequence, offer } = order;
        let (Money { amount, currency }, pay_ms) = (money, offer.map(|offer| offer.pay_ms));
        json!([order_no, sku, user, quantity, amount, currency, created_at.0, epoch, sequence, pay_ms])
    };
    let rows: Vec<_> = orders.iter().map(to_json).collect();
    let statement = match sql.dialect() {
        Dialect::Sqlite => include_str!("../../sql/orders/insert.sqlite.sql"),
        // Locks the epoch until the rows are inserted: a rebuild that raises it at the same time sees the rows, or they
        // are left out.
        Dialect::Postgres => include_str!("../../sql/orders/insert.postgres.sql"),
    };
    let params = vec![json!(rows).to_string().into(), now.0.into(), activity.as_str().into()];
    sql.run(statement, params).await.map(|_| ())
}

/// Whether the ledger refused orders because another one has the epoch and sequence of one of them, by the error's text.
pub fn is_place_taken(text: &str) -> bool {
    text.contains("orders_by_sequence") || text.contains("orders.sequence")
}

/// Inserts an order that holds no units, as `expired`, so that its payment can be refunded. Idempotent.
pub async fn insert_released<S: Sql>(sql: &S, order: &NewOrder, now: Millis) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/orders/insert_released.sql");
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

domain::words! {
    /// Who cancels an order: the reason of its status. The ledger counts no strike for an operator's cancel (B8).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Canceller {
        /// Its buyer.
        Buyer = "cancelled_by_buyer",
        /// An operator.
        Operator = "cancelled_by_operator",
    }
}

/// `pending_payment → cancelled`, while the time to pay is not over. Returns the order if this call changed it.
pub async fn cancel<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    by: Canceller,
    now: impl Into<Clock>,
) -> Result<Option<OrderRow>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let reason = by.as_str();
    let counts = if by == Canceller::Buyer { "1 - checkout_failed" } else { "0" };
    let statement = format!(
        "UPDATE orders SET status = 'cancelled', live = 0, reason = '{reason}', \
         was_cancelled = {counts}, \
         updated_at = {now}, unsynced_since = {now} \
         WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > {now} RETURNING {COLUMNS}"
    );
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into()]).await?)?.pop())
}

/// Moves the deadline of an order that waits for payment by `ms` milliseconds, while it is not over. Returns the order if this
/// call changed it. A payment session that ends earlier is followed by another one.
pub async fn extend<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    ms: i64,
    now: impl Into<Clock>,
) -> Result<Option<OrderRow>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let statement = format!(
        "UPDATE orders SET pay_by = pay_by + CAST(?2 AS BIGINT), updated_at = {now}, unsynced_since = {now} \
         WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > {now} RETURNING {COLUMNS}"
    );
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into(), ms.into()]).await?)?.pop())
}

/// `pending_payment → paid`, for an order that costs nothing, while the time to pay is not over. Returns the order if this call
/// changed it.
pub async fn pay_free<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    now: impl Into<Clock>,
) -> Result<Option<OrderRow>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let statement = format!(
        "UPDATE orders SET status = 'paid', paid_at = {now}, updated_at = {now}, unsynced_since = {now} \
         WHERE order_no = ?1 AND status = 'pending_payment' AND pay_by > {now} AND amount = 0 RETURNING {COLUMNS}"
    );
    Ok(parse_rows(sql.run(&statement, vec![order_no.to_string().into()]).await?)?.pop())
}

/// `pending_payment → cancelled | expired`, depending on `to`, as Redis has it. When that happened is not known: a cancel
/// is taken for an early one (B8). Returns the order if this call changed it.
pub async fn release<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    to: OrderStatus,
    reason: &str,
    now: Millis,
) -> Result<Option<OrderRow>, StoreError> {
    let statement = format!(
        "UPDATE orders SET status = ?3, live = 0, reason = ?4, free_cancel_until = ?2, \
         was_cancelled = CASE WHEN ?3 = 'cancelled' AND ?4 <> 'cancelled_by_operator' THEN 1 ELSE 0 END, updated_at = ?2, unsynced_since = ?2 WHERE order_no = ?1 AND status = 'pending_payment' RETURNING {COLUMNS}"
    );
    let params = vec![order_no.to_string().into(), now.0.into(), to.as_str().into(), reason.into()];
    Ok(parse_rows(sql.run(&statement, params).await?)?.pop())
}

/// `pending_payment → expired` for up to `limit` orders of an activity whose time to pay is over at `now`. An order with an
/// open payment session stays until the session is closed, but for [`SESSION_GRACE_MS`] at most. Returns the
/// transitions that Redis is to apply; none if `lease` was lost.
pub async fn expire<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    now: Millis,
    limit: i64,
    lease: Option<&Lease>,
) -> Result<Vec<Transition>, StoreError> {
    const IS_DUE: &str = include_str!("../../sql/orders/is_due.sql");
    let waits_until = now.plus(-SESSION_GRACE_MS);
    let select = format!(
        include_str!("../../sql/orders/find_due.sql"),
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
        include_str!("../../sql/orders/expire.sql"),
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
/// over. A session that is saved starts the payment itself.
pub async fn restart_payment<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    checkout_url: &str,
    now: Millis,
) -> Result<(), StoreError> {
    let statement = include_str!("../../sql/orders/restart_payment.sql");
    sql.run(statement, vec![order_no.to_string().into(), checkout_url.into(), now.0.into()]).await.map(|_| ())
}
