//! Ends open payment sessions at the provider before their orders are released (E5, I6).
//!
//! While the provider does not answer, an order is kept for up to [`sessions::GRACE_MS`]. If a run stops at any point,
//! the provider is asked again.

use domain::{ids::OrderNo, time::Millis, webhook::ProviderCallback};
use futures::future::join_all;

use crate::{
    ledger::sessions::{self, DueSession},
    payments::{
        callbacks, commands,
        provider::{Provider, SessionStatus},
    },
    ports::{Redis, Sql, StoreError},
};

/// Result of [`close_due`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Number of sessions that the provider was asked about.
    pub queried: usize,
    /// Orders whose session the provider gave no usable answer for, with the error.
    pub unanswered: Vec<(OrderNo, String)>,
}

/// Ends up to `limit` sessions of orders that are due or released, concurrently.
///
/// # Errors
/// Any [`StoreError`]: the remaining sessions are claimed again later.
pub async fn close_due<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<CloseReport, StoreError> {
    let due = sessions::claim_due(sql, now, limit).await?;
    let results = join_all(due.iter().map(|due| provider.close_session(&due.id))).await;
    let mut report = CloseReport { queried: due.len(), unanswered: Vec::new() };
    for (DueSession { order_no, id: session_id }, result) in due.iter().zip(results) {
        match result {
            Ok(SessionStatus::Unpaid) => commands::session_ended(redis, sql, order_no, session_id).await?,
            // Handled like the provider's callback of the same payment.
            Ok(SessionStatus::Paid { payment_id, money }) => {
                let callback = ProviderCallback {
                    id: format!("answer_{session_id}"),
                    kind: "payment.succeeded".to_owned(),
                    order_no: order_no.to_string(),
                    payment_id,
                    money,
                    ..ProviderCallback::default()
                };
                match callbacks::apply(redis, sql, &callback, now).await {
                    // The callback is recorded and applied after the rebuild; other sessions are not blocked.
                    Err(StoreError::Rebuilding) => {}
                    other => other.map(|_| ())?,
                }
                sessions::close(sql, order_no, session_id).await?;
            }
            Ok(SessionStatus::Processing) => {
                sessions::record_unresolved(sql, order_no, session_id, "the money is on its way").await?
            }
            Err(error) => {
                sessions::record_unresolved(sql, order_no, session_id, &error.message).await?;
                report.unanswered.push((order_no.clone(), error.message));
            }
        }
    }
    Ok(report)
}
