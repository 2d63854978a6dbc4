//! Parts of payments that were refunded at their provider (E4, I6): the app refunds the rest.

use domain::webhook::PaymentProvider;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

use super::{callback_rows::Callback, refunds::RefundKind};

/// The sum of the parts of a row's payment, for a statement about `table`.
pub(super) fn sum_of(table: &str) -> String {
    format!(
        "(SELECT CAST(COALESCE(SUM(p.amount), 0) AS BIGINT) FROM partial_refunds p WHERE p.payment = {table}.payment)"
    )
}

/// Returns the sum of the parts of a payment that are refunded.
pub async fn sum<S: Sql>(sql: &S, payment: &str) -> Result<i64, StoreError> {
    let statement = "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM partial_refunds WHERE payment = ?1";
    let rows = sql.run(statement, vec![payment.into()]).await?;
    RowReader::new(rows.into_iter().next().unwrap_or_default()).int()
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

/// Records the part of its payment that a callback reports as refunded, unless its refund is known to have failed. Returns the
/// sum of the payment's parts.
pub async fn add<S: Sql>(sql: &S, kind: RefundKind, callback: &Callback) -> Result<i64, StoreError> {
    let Callback { order_no, payment, refund, money, .. } = callback;
    let params = vec![
        payment.as_str().into(),
        key(callback),
        order_no.as_str().into(),
        money.amount.into(),
        refund.as_str().into(),
    ];
    sql.run(&format!(include_str!("../../sql/refunds/add_part.sql"), table = kind.table()), params).await?;
    sum(sql, payment).await
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
    let statement = format!(include_str!("../../sql/refunds/is_own.sql"), table = kind.table());
    let [order_no, payment, refund, currency] =
        [&callback.order_no, &callback.payment, &callback.refund, &callback.money.currency]
            .map(|it| it.as_str().into());
    let rest = if is_of_stripe(callback) { 0 } else { callback.money.amount };
    let params = vec![order_no, payment, refund, rest.into(), currency, key(callback)];
    Ok(!sql.run(&statement, params).await?.is_empty())
}
