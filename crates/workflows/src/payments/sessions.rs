//! Before an order with an open payment session is released, its provider is asked, and the session ended (E5, I6).
//!
//! While the provider does not answer, the order waits for [`sessions::GRACE_MS`]. Dying anywhere here leaves a session
//! that is asked about again.

use domain::{ids::OrderNo, time::Millis, webhook::ProviderEvent};
use futures::future::join_all;

use crate::{
    ledger::sessions::{self, DueSession},
    payments::{
        callbacks, commands,
        provider::{Provider, SessionStatus},
    },
    ports::{Redis, Sql, StoreError},
};

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Sessions that the provider was asked about.
    pub queried: usize,
    /// Orders that it did not answer for, and why.
    pub unanswered: Vec<(OrderNo, String)>,
}

/// One round: up to `limit` sessions whose order is due or was released, all at once.
///
/// # Errors
/// [`StoreError`].
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
            // Its answer is as good as its callback, and the same thing is done about it.
            Ok(SessionStatus::Paid { payment_id, money }) => {
                let event = ProviderEvent {
                    id: format!("answer_{session_id}"),
                    kind: "payment.succeeded".to_owned(),
                    order_no: order_no.to_string(),
                    payment: payment_id,
                    money,
                    ..ProviderEvent::default()
                };
                match callbacks::apply(redis, sql, &event, now).await {
                    // It is written down, and finished after the rebuild; the others are not held up.
                    Err(StoreError::Rebuilding) => {}
                    other => other.map(|_| ())?,
                }
                sessions::close(sql, order_no, session_id).await?;
            }
            Ok(SessionStatus::Processing) => {
                sessions::record_no_answer(sql, order_no, session_id, "the money is on its way").await?
            }
            Err(error) => {
                sessions::record_no_answer(sql, order_no, session_id, &error.message).await?;
                report.unanswered.push((order_no.clone(), error.message));
            }
        }
    }
    Ok(report)
}
