//! Refunds (E4, I6): what is due is sent to the provider, again and again until it confirms.
//!
//! Dying anywhere here leaves a refund that is sent again, under the same name: the provider does it once.

use domain::{time::Millis, webhook::ProviderEvent};
use futures::future::join_all;

use crate::{
    ledger::{
        payments::LOST_PAYMENT,
        refunds::{self, Refund, RefundAttempt},
    },
    payments::{
        callbacks,
        provider::{Provider, ProviderError, RefundStatus},
    },
    ports::{Redis, Sql, StoreError},
};

/// How long after a failure a new refund is tried, in milliseconds.
const RETRY_AFTER_FAILURE_MS: i64 = 60_000;

/// What operators read of a refund that cannot be sent.
const PAYMENT_ID_LOST: &str =
    "the ledger lost the payment's id: let the provider send its callback of the payment again";

/// A refund that the provider did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Of which order.
    pub order_no: String,
    /// Why.
    pub reason: String,
}

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendReport {
    /// Refunds that the provider was asked for.
    pub attempted: usize,
    /// Those that it did not take.
    pub failed: Vec<FailedAttempt>,
}

/// One round: up to `limit` refunds whose time has come, all at once. One whose payment has lost its id is kept from the
/// provider, who could only refuse it, until the provider names the payment (see [`crate::recovery::backfill`]).
///
/// # Errors
/// [`StoreError`].
pub async fn send_due<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<SendReport, StoreError> {
    let due = refunds::claim_due(sql, now, limit).await?;
    let (without_payment_id, due): (Vec<_>, Vec<_>) =
        due.into_iter().partition(|refund| refund.payment == LOST_PAYMENT);
    let results = join_all(due.iter().map(|refund| provider.refund(refund))).await;
    let mut report = SendReport { attempted: due.len(), failed: Vec::new() };
    for refund in without_payment_id {
        refunds::record_attempt(sql, &refund, &RefundAttempt::Unknown(PAYMENT_ID_LOST.to_owned(), now)).await?;
        report.failed.push(FailedAttempt { order_no: refund.order_no, reason: PAYMENT_ID_LOST.to_owned() });
    }
    for (refund, result) in due.iter().zip(results) {
        if let Err(reason) = record_result(redis, sql, refund, result, now).await? {
            report.failed.push(FailedAttempt { order_no: refund.order_no.clone(), reason });
        }
    }
    Ok(report)
}

/// Writes down what the provider answered; the inner error is for the log.
async fn record_result<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    due: &Refund,
    result: Result<RefundStatus, ProviderError>,
    now: Millis,
) -> Result<Result<(), String>, StoreError> {
    match result {
        Ok(RefundStatus::Pending { refund_id }) => {
            refunds::record_attempt(sql, due, &RefundAttempt::Accepted(refund_id)).await.map(Ok)
        }
        // Its answer is as good as its callback, and the same thing is done about it.
        Ok(RefundStatus::Succeeded { refund_id }) => {
            callbacks::apply(redis, sql, &confirmation_event(due, refund_id), now).await.map(|_| Ok(()))
        }
        Ok(RefundStatus::Failed(reason)) => {
            refunds::record_attempt(sql, due, &RefundAttempt::Failed(reason.clone(), now.plus(RETRY_AFTER_FAILURE_MS)))
                .await?;
            Ok(Err(reason))
        }
        Err(ProviderError { message, retry_after_ms }) => {
            let next_try_at = now.plus(retry_after_ms.unwrap_or_default());
            refunds::record_attempt(sql, due, &RefundAttempt::Unknown(message.clone(), next_try_at)).await?;
            Ok(Err(message))
        }
    }
}

fn confirmation_event(due: &Refund, refund_id: String) -> ProviderEvent {
    ProviderEvent {
        id: format!("answer_refund_{}_{}", due.payment, due.failures),
        kind: "refund.succeeded".to_owned(),
        order_no: due.order_no.clone(),
        payment: due.payment.clone(),
        money: due.money.clone(),
        refund: refund_id,
        ..ProviderEvent::default()
    }
}
