//! A buyer's own orders: those of the ledger, and those that are not written to it (D6).

use domain::{
    ids::{ActivityId, OrderNo, UserId},
    order::Order,
    time::Millis,
};
use futures::future::join_all;
use stores::{
    ledger::clock::Clock,
    ports::{Redis, Sql, StoreError},
};

use super::status;
use crate::ledger::order_rows;

/// Most unread activities that a list names, so that a header has room for them.
const MAX_UNREAD: usize = 20;

/// Which of a user's orders to list.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The last order of the previous page.
    pub before: Option<&'a OrderNo>,
    /// Most orders to return.
    pub limit: i64,
}

/// Lists a page of a user's orders, newest first, as they are now. Those that the ledger does not have, queued and failed
/// orders and entries of lines, are read from Redis, for `activities` only. Also returns the first of these that Redis could
/// not read; of them, the page has the ledger's orders. A page after an order that only Redis may have is an error while it
/// is away.
pub async fn list<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activities: &[ActivityId],
    user: &UserId,
    page: Page<'_>,
    now: impl Into<Clock>,
) -> Result<(Vec<Order>, Vec<ActivityId>), StoreError> {
    let before = match page.before {
        None => None,
        Some(order_no) => match position(redis, sql, user, order_no).await? {
            None => return Ok((Vec::new(), Vec::new())),
            Some(created_at) => Some((created_at, order_no)),
        },
    };
    let tickets = join_all(activities.iter().map(|activity| status::load_tickets(redis, activity, user))).await;
    let mut orders = order_rows::list_for_user(sql, user, before, page.limit, now).await?;
    // Redis is asked last: it also has an order that was written after the ledger was read.
    let loading = tickets.into_iter().map(async |tickets| {
        let mut missing = tickets?;
        missing.retain(|order_no| !orders.iter().any(|listed| listed.order_no == *order_no));
        status::load_orders(redis, &missing, user).await
    });
    let (loaded, mut unread) = (join_all(loading).await, Vec::new());
    for (activity, found) in activities.iter().zip(loaded) {
        match found {
            Ok(found) => orders.extend(found),
            Err(_) => unread.push(activity.clone()),
        }
    }
    unread.truncate(MAX_UNREAD);
    orders.retain(|order| before.is_none_or(|before| (order.created_at, &order.order_no) < before));
    orders.sort_by(|a, b| (b.created_at, &b.order_no).cmp(&(a.created_at, &a.order_no)));
    orders.truncate(usize::try_from(page.limit).unwrap_or_default());
    Ok((orders, unread))
}

/// When an order of the user was created; `None` if there is no such order.
async fn position<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    user: &UserId,
    order_no: &OrderNo,
) -> Result<Option<Millis>, StoreError> {
    let order = match order_rows::load(sql, order_no).await? {
        Some(row) => Some(row.order),
        None => status::load_order_of(redis, order_no, user).await?.order,
    };
    Ok(order.filter(|order| order.user == *user).map(|order| order.created_at))
}
