//! Ends open payment sessions at the provider before their orders are released (E5, I6).
//!
//! While the provider does not answer, an order is kept for up to [`SESSION_GRACE_MS`](orders::ledger::order_changes::SESSION_GRACE_MS). If a run stops at any point,
//! the provider is asked again.

use domain::{
    ids::OrderNo,
    time::Millis,
    webhook::{PaymentProvider, ProviderCallback},
};
use futures::future::join_all;
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    callbacks, commands,
    ledger::sessions::{self, DueSession},
    provider::{Provider, ProviderError, SessionStatus},
};

/// Result of [`close_due`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Number of sessions that the provider was asked about.
    pub queried: usize,
    /// Orders whose session the provider gave no usable answer for, with the error.
    pub unanswered: Vec<(OrderNo, String)>,
    /// Orders that a store failed on.
    pub failures: Vec<(OrderNo, StoreError)>,
}

/// Ends up to `limit` sessions of orders that are due or released, concurrently.
///
/// # Errors
/// [`StoreError`] of the ledger, on claiming the sessions. A session that a store fails on is claimed again later.
pub async fn close_due<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<CloseReport, StoreError> {
    let due = sessions::claim_due(sql, now, limit).await?;
    let results = join_all(due.iter().map(|due| provider.close_session(due))).await;
    let mut report = CloseReport { queried: due.len(), ..CloseReport::default() };
    for (due, result) in due.into_iter().zip(results) {
        sql.forget_timeouts();
        if let Err(ProviderError { message, .. }) = &result {
            report.unanswered.push((due.order_no.clone(), message.clone()));
        }
        if let Err(error) = apply_answer(redis, sql, &due, result, now).await {
            report.failures.push((due.order_no, error));
        }
    }
    Ok(report)
}

async fn apply_answer<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    DueSession { order_no, provider, id: session_id }: &DueSession,
    answer: Result<SessionStatus, ProviderError>,
    now: Millis,
) -> Result<(), StoreError> {
    match answer {
        Ok(SessionStatus::Unpaid) => match commands::session_ended(redis, sql, order_no, session_id).await {
            // The session is closed. Its order is about to expire, or is released: no copy of it sends the buyer there.
            Err(StoreError::RedisUnavailable(_)) => Ok(()),
            result => result,
        },
        // Handled like the provider's callback of the same payment.
        Ok(SessionStatus::Paid { payment_id, money, sealed_address }) => {
            let callback = ProviderCallback {
                id: format!("answer_{session_id}"),
                kind: "payment.succeeded".to_owned(),
                order_no: order_no.to_string(),
                payment_id,
                money,
                provider: PaymentProvider::parse(provider),
                sealed_address,
                ..ProviderCallback::default()
            };
            match callbacks::apply(redis, sql, &callback, now).await {
                // The callback is recorded and applied after the rebuild.
                Ok(_) | Err(StoreError::Rebuilding) => sessions::close(sql, order_no, session_id).await,
                Err(error) => Err(error),
            }
        }
        // The money is on its way.
        Ok(SessionStatus::Processing) => sessions::record_unresolved(sql, order_no, session_id, "").await,
        Err(error) => sessions::record_unresolved(sql, order_no, session_id, &error.message).await,
    }
}
