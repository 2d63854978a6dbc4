//! Parts of payments that were refunded at their provider (E4, I6): the app refunds the rest.

use domain::{ids::OrderNo, webhook::PaymentProvider};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

use super::{callback_rows::Callback, refunds::RefundKind};

/// How much of the payment in the column `payment` is returned in parts, or is to be, in SQL; `own` is the sum of the app's
/// parts. Of Stripe's refunds the ledger has the sum, in which the app's `known` ones are, by their state; others that are not
/// the app's are added.
fn returned(payment: &str, own: &str, known: &str) -> String {
    format!(include_str!("../../sql/refunds/returned.sql"), payment = payment, own = own, known = known)
}

/// The states of parts that the provider has accepted: Stripe's sum has them, also while it is still making them.
const ACCEPTED: &str = "<> 'requested'";

/// How much of a row's payment is returned in parts, for a statement about `table`.
pub(super) fn returned_of(table: &str) -> String {
    let payment = format!("{table}.payment");
    let own = format!(
        "(SELECT CAST(COALESCE(SUM(own.amount), 0) AS BIGINT) FROM refund_parts own WHERE own.payment = {payment})"
    );
    returned(&payment, &own, ACCEPTED)
}

/// How much of an order's payment is returned in parts, for a statement about `orders`.
pub(super) fn returned_of_order() -> String {
    returned("orders.payment", "orders.refunded", ACCEPTED)
}

/// Returns how much of an order's payment is returned in parts, or is to be.
pub async fn load_returned<S: Sql>(sql: &S, order_no: &OrderNo) -> Result<i64, StoreError> {
    let statement = format!("SELECT {} FROM orders WHERE order_no = ?1 AND payment <> ''", returned_of_order());
    let rows = sql.run(&statement, vec![order_no.to_string().into()]).await?;
    rows.into_iter().next().map_or(Ok(0), |row| RowReader::new(row).int())
}

fn is_of_stripe(callback: &Callback) -> bool {
    callback.provider == PaymentProvider::Stripe.as_str()
}

/// Whether a callback is about one refund of Stripe, whose report about the charge has the sum of its refunds.
#[must_use]
pub fn is_told_by_charge(callback: &Callback) -> bool {
    is_of_stripe(callback) && !callback.refund.is_empty()
}

/// What identifies the part that a callback is about.
fn key(callback: &Callback) -> SqlValue {
    match callback.refund.as_str() {
        "" if is_of_stripe(callback) => "".into(),
        "" => format!("callback {}", callback.id).into(),
        refund => refund.into(),
    }
}

/// Records the part of its payment that a callback reports as refunded, unless its refund is known to have failed.
pub async fn add<S: Sql>(sql: &S, kind: RefundKind, callback: &Callback) -> Result<(), StoreError> {
    let Callback { order_no, payment, refund, money, .. } = callback;
    let params = vec![
        payment.as_str().into(),
        key(callback),
        order_no.as_str().into(),
        money.amount.into(),
        refund.as_str().into(),
    ];
    sql.run(&format!(include_str!("../../sql/refunds/add_part.sql"), table = kind.table()), params).await.map(drop)
}

/// Returns how much of a payment the provider has reported as refunded.
pub async fn load_reported<S: Sql>(sql: &S, payment: &str) -> Result<i64, StoreError> {
    let own = "(SELECT CAST(COALESCE(SUM(own.amount), 0) AS BIGINT) FROM refund_parts own \
         WHERE own.payment = ?1 AND own.state = 'confirmed')";
    let rows = sql.run(&format!("SELECT {}", returned("?1", own, "= 'confirmed'")), vec![payment.into()]).await?;
    RowReader::new(rows.into_iter().next().unwrap_or_default()).int()
}

/// Forgets a part whose refund failed. What Stripe reported of the charge no longer holds: its next report does.
pub async fn remove<S: Sql>(sql: &S, callback: &Callback) -> Result<(), StoreError> {
    let sum = if is_of_stripe(callback) { "".into() } else { key(callback) };
    let params = vec![callback.payment.as_str().into(), key(callback), sum];
    sql.run("DELETE FROM partial_refunds WHERE payment = ?1 AND refund IN (?2, ?3)", params).await.map(|_| ())
}

/// Whether a callback is about the app's own refund of this kind: it names that refund, or, of a payment service, the amount
/// that the parts leave.
pub async fn is_own<S: Sql>(sql: &S, kind: RefundKind, callback: &Callback) -> Result<bool, StoreError> {
    let own = "(SELECT COALESCE(SUM(own.amount), 0) FROM refund_parts own WHERE own.payment = ?2)";
    let statement = format!(include_str!("../../sql/refunds/is_own.sql"), table = kind.table(), own = own);
    let [order_no, payment, refund, currency] =
        [&callback.order_no, &callback.payment, &callback.refund, &callback.money.currency]
            .map(|it| it.as_str().into());
    let rest = if is_of_stripe(callback) { 0 } else { callback.money.amount };
    let params = vec![order_no, payment, refund, rest.into(), currency, key(callback)];
    Ok(!sql.run(&statement, params).await?.is_empty())
}
