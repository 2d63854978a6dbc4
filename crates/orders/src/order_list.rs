//! A buyer's own orders: those of the ledger, and those that are not written to it (D6).

use domain::{
    ids::{ActivityId, OrderNo, UserId},
    order::Order,
    time::Millis,
};
use futures::future::join_all;
use stores::ports::{Redis, Sql, StoreError};

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

/// Lists a page of a user's orders, newest first. Those that are queued or failed are read from Redis, for `activities`
/// only. Also returns the first of these that Redis could not read; of them, the page has the ledger's orders.
pub async fn list<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activities: &[ActivityId],
    user: &UserId,
    page: Page<'_>,
) -> Result<(Vec<Order>, Vec<ActivityId>), StoreError> {
    // Redis first: an order that is written between the two reads is in both, never in none.
    let loading: Vec<_> = activities.iter().map(|activity| status::load_unwritten(redis, activity, user)).collect();
    let (mut unwritten, mut unread) = (Vec::new(), Vec::new());
    for (activity, loaded) in activities.iter().zip(join_all(loading).await) {
        match loaded {
            Ok(orders) => unwritten.extend(orders),
            Err(_) => unread.push(activity.clone()),
        }
    }
    unread.truncate(MAX_UNREAD);
    let before = match page.before {
        None => None,
        Some(order_no) => match position(sql, &unwritten, user, order_no).await? {
            None => return Ok((Vec::new(), unread)),
            Some(created_at) => Some((created_at, order_no)),
        },
    };
    let mut orders = order_rows::list_for_user(sql, user, before, page.limit).await?;
    for order in unwritten {
        let is_in_page = before.is_none_or(|before| (order.created_at, &order.order_no) < before);
        if is_in_page && !orders.iter().any(|listed| listed.order_no == order.order_no) {
            orders.push(order);
        }
    }
    orders.sort_by(|a, b| (b.created_at, &b.order_no).cmp(&(a.created_at, &a.order_no)));
    orders.truncate(usize::try_from(page.limit).unwrap_or_default());
    Ok((orders, unread))
}

/// When an order of the user was created; `None` if there is no such order.
async fn position<S: Sql>(
    sql: &S,
    unwritten: &[Order],
    user: &UserId,
    order_no: &OrderNo,
) -> Result<Option<Millis>, StoreError> {
    if let Some(order) = unwritten.iter().find(|order| order.order_no == *order_no) {
        return Ok(Some(order.created_at));
    }
    let found = order_rows::load(sql, order_no).await?.filter(|row| row.order.user == *user);
    Ok(found.map(|row| row.order.created_at))
}
