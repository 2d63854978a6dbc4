//! Finds orders for operators, of one activity or of all. No search reads more orders of an activity than its page, but for
//! those of one buyer, or that wait for payment.

use std::fmt;

use domain::{
    ids::{ActivityId, OrderNo, ShortCode, UserId},
    order::OrderStatus,
    time::Millis,
};
use stores::ports::{Sql, SqlValue, StoreError};

use super::order_rows::{COLUMNS, OrderRow, list_newest, parse_rows};

/// What the orders have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Their activity.
    pub activity: Option<ActivityId>,
    /// Their status.
    pub status: Option<OrderStatus>,
    /// Their buyer.
    pub user: Option<UserId>,
    /// The code that buyers see.
    pub code: Option<ShortCode>,
    /// They last changed at this time, or later.
    pub updated_since: Option<Millis>,
}

/// Where an order is in the result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    at: Millis,
    order_no: OrderNo,
}

impl Position {
    /// Parses what `Display` writes.
    ///
    /// # Errors
    /// A message for the client.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let parse = |(at, order_no): (&str, &str)| {
            Some(Self { at: Millis(at.parse().ok()?), order_no: OrderNo::parse(order_no).ok()? })
        };
        text.split_once('/').and_then(parse).ok_or("must be the next of a page")
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at.0, self.order_no)
    }
}

/// The statuses of rows: a queued or failed order has none.
pub const STATUSES: [OrderStatus; 6] = [
    OrderStatus::PendingPayment,
    OrderStatus::Paid,
    OrderStatus::Cancelled,
    OrderStatus::Expired,
    OrderStatus::Refunding,
    OrderStatus::Refunded,
];

impl Search {
    /// Whether an index finds the orders.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.activity.is_some() || self.is_of_buyer()
    }

    fn is_of_buyer(&self) -> bool {
        self.user.is_some() || self.code.is_some()
    }

    /// The activity whose orders are sorted by their changes.
    fn activity_by_change(&self) -> Option<&ActivityId> {
        let is_narrowed = self.status.is_some() || self.updated_since.is_some();
        self.activity.as_ref().filter(|_| is_narrowed && !self.is_of_buyer())
    }

    /// Where an order is in the result.
    #[must_use]
    pub fn position(&self, row: &OrderRow) -> Position {
        let at = match (self.activity_by_change(), row.order.status) {
            (None, _) => row.order.created_at,
            (Some(_), OrderStatus::PendingPayment) => row.order.pay_by.unwrap_or_default(),
            (Some(_), _) => row.updated_at,
        };
        Position { at, order_no: row.order.order_no.clone() }
    }

    /// Returns up to `limit` orders after `before`, newest first. With a status or a time, those of an activity are sorted by
    /// their last change, after those that wait for payment, which are sorted by their deadline.
    pub async fn find<S: Sql>(
        &self,
        sql: &S,
        before: Option<&Position>,
        limit: i64,
    ) -> Result<Vec<OrderRow>, StoreError> {
        match (&self.activity, self.activity_by_change()) {
            (_, Some(activity)) => self.find_by_change(sql, activity, before, limit).await,
            (Some(activity), None) if !self.is_of_buyer() => {
                let before = before.map(|before| before.order_no.to_string()).unwrap_or_default();
                list_newest(sql, activity, &before, limit).await
            }
            _ => self.find_of_buyer(sql, before, limit).await,
        }
    }

    async fn find_of_buyer<S: Sql>(
        &self,
        sql: &S,
        before: Option<&Position>,
        limit: i64,
    ) -> Result<Vec<OrderRow>, StoreError> {
        let code = format!("{} = ", sql.dialect().end_of("order_no", 8));
        let mut params = vec![limit.into()];
        let mut conditions = String::new();
        // The expressions keep the ledger from other indexes than those of buyers and codes.
        for (condition, param) in [
            ("user_id = ", self.user.as_ref().map(|user| SqlValue::from(user.as_str()))),
            (&code, self.code.as_ref().map(|code| code.as_str().into())),
            ("activity || '' = ", self.activity.as_ref().map(|activity| activity.as_str().into())),
            ("status || '' = ", self.status.map(|status| status.as_str().into())),
            ("updated_at + 0 >= ", self.updated_since.map(|since| since.0.into())),
        ] {
            if let Some(param) = param {
                params.push(param);
                conditions.push_str(&format!(" AND {condition}?{}", params.len()));
            }
        }
        if let Some(Position { at, order_no }) = before {
            params.extend([at.0.into(), order_no.to_string().into()]);
            let at = params.len() - 1;
            conditions.push_str(&format!(" AND (created_at, order_no) < (CAST(?{at} AS BIGINT), ?{})", at + 1));
        }
        let statement = format!(
            "SELECT {COLUMNS} FROM orders WHERE {} ORDER BY created_at DESC, order_no DESC LIMIT CAST(?1 AS BIGINT)",
            conditions.trim_start_matches(" AND ")
        );
        parse_rows(sql.run(&statement, params).await?)
    }

    async fn find_by_change<S: Sql>(
        &self,
        sql: &S,
        activity: &ActivityId,
        before: Option<&Position>,
        limit: i64,
    ) -> Result<Vec<OrderRow>, StoreError> {
        let statuses = STATUSES.into_iter().filter(|status| self.status.is_none_or(|wanted| wanted == *status));
        let of_status = |status: OrderStatus| {
            // Each has the condition of its index.
            let (position, index) = match status {
                OrderStatus::PendingPayment => ("pay_by", "pay_by > CAST(?2 AS BIGINT)"),
                _ => ("updated_at", "status <> 'pending_payment'"),
            };
            format!(
                include_str!("../../sql/orders/find_by_change.sql"),
                position = position,
                index = index,
                status = status
            )
        };
        let statement = format!(
            "SELECT {COLUMNS} FROM orders WHERE order_no IN (SELECT order_no FROM ({}) AS c \
             ORDER BY position DESC, order_no DESC LIMIT CAST(?5 AS BIGINT)) \
             ORDER BY CASE WHEN status = 'pending_payment' THEN pay_by ELSE updated_at END DESC, order_no DESC",
            statuses.map(of_status).collect::<Vec<_>>().join(" UNION ALL ")
        );
        let (at, order_no) = before.map_or((i64::MAX, String::new()), |it| (it.at.0, it.order_no.to_string()));
        let since = self.updated_since.unwrap_or_default().0;
        let params = vec![activity.as_str().into(), since.into(), at.into(), order_no.into(), limit.into()];
        parse_rows(sql.run(&statement, params).await?)
    }
}
