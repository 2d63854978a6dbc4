//! Sends due refunds to the provider until it confirms them (E4, I6).
//!
//! If a run stops at any point, the refund is sent again as the same request, and the provider executes it once.

use domain::{ids::OrderNo, time::Millis, webhook::ProviderCallback};
use futures::future::join_all;
use orders::sync::sync_order;
use stores::ports::{Redis, Sql, StoreError};

use crate::{
    callbacks,
    ledger::{
        callback_rows::{self, LOST_PAYMENT},
        refund_parts,
        refunds::{self, Refund, RefundAttempt, RefundKind},
    },
    provider::{Provider, ProviderError, RefundStatus},
};

/// Milliseconds after a failed refund until a new one is sent.
const RETRY_AFTER_FAILURE_MS: i64 = 60_000;

/// Error text that operators see for a refund whose payment's id is lost.
const PAYMENT_ID_LOST: &str =
    "the ledger lost the payment's id: let the provider send its callback of the payment again";

/// Error text that operators see for a refund of which nothing is left.
const NOTHING_LEFT: &str = "all of the payment may be refunded, by a report that names no refund: compare with the \
     provider, and let it report the one that succeeded with its id";

/// Why a refund is not sent, if the provider could only refuse it.
fn why_unsendable(refund: &Refund) -> Option<&'static str> {
    match refund.rest().amount {
        _ if refund.payment == LOST_PAYMENT => Some(PAYMENT_ID_LOST),
        ..=0 if refund.refund.is_empty() => Some(NOTHING_LEFT),
        _ => None,
    }
}

/// A refund that the provider did not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Number of the order.
    pub order_no: String,
    /// The reason, for the log.
    pub reason: String,
}

/// Result of [`send_due`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendReport {
    /// Number of refunds sent to the provider.
    pub attempted: usize,
    /// Refunds that were not accepted, including those that were not sent.
    pub failed: Vec<FailedAttempt>,
}

/// Sends up to `limit` due refunds of each kind, concurrently.
///
/// A refund of nothing is done here: its buyer's request ended between two statements, or the order is restored. One
/// that the provider could only refuse waits for a callback, which restores the payment's id (see
/// `operations::upkeep::backfill`) or completes the refund.
///
/// # Errors
/// Any [`StoreError`]: results that were not recorded are requested again at the next attempt.
pub async fn send_due<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<SendReport, StoreError> {
    let due = refunds::claim_due(sql, now, limit).await?;
    let is_free = |refund: &Refund| refund.kind == RefundKind::Orders && refund.money.amount == 0;
    let (free, due): (Vec<_>, Vec<_>) = due.into_iter().partition(is_free);
    let (unsendable, due): (Vec<_>, Vec<_>) = due.into_iter().partition(|refund| why_unsendable(refund).is_some());
    let results = join_all(due.iter().map(|refund| provider.refund(refund))).await;
    let mut report = SendReport { attempted: due.len(), failed: Vec::new() };
    for refund in unsendable {
        let reason = why_unsendable(&refund).unwrap_or_default().to_owned();
        refunds::record_attempt(sql, &refund, &RefundAttempt::Unknown(reason.clone(), now)).await?;
        report.failed.push(FailedAttempt { order_no: refund.order_no, reason });
    }
    for (refund, result) in due.iter().zip(results) {
        sql.forget_timeouts();
        match record_result(redis, sql, refund, result, now).await {
            Ok(failed) => report.failed.extend(failed),
            // The refund is claimed again later, and sent as the same request.
            Err(error) => {
                report.failed.push(FailedAttempt { order_no: refund.order_no.clone(), reason: error.to_string() });
            }
        }
    }
    for order_no in free.iter().filter_map(|refund| OrderNo::parse(&refund.order_no).ok()) {
        sql.forget_timeouts();
        match callback_rows::mark_refunded(sql, &order_no, now).await {
            // If it fails, the sweeper syncs the order.
            Ok(Some(row)) => drop(sync_order(redis, &row).await),
            Ok(None) => {}
            Err(error) => {
                report.failed.push(FailedAttempt { order_no: order_no.to_string(), reason: error.to_string() });
            }
        }
    }
    Ok(report)
}

/// Records the provider's answer. Returns the attempt if the provider did not accept the refund.
async fn record_result<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    due: &Refund,
    result: Result<RefundStatus, ProviderError>,
    now: Millis,
) -> Result<Option<FailedAttempt>, StoreError> {
    let failed = |reason| Some(FailedAttempt { order_no: due.order_no.clone(), reason });
    let named = match &result {
        Ok(RefundStatus::Pending { refund_id } | RefundStatus::Succeeded { refund_id }) => refund_id.as_str(),
        _ => "",
    };
    let result = match refund_parts::is_of_another(sql, due, named).await? {
        true => Err(ProviderError::refusal(format!("the provider named {named}, another refund of this payment"))),
        false => result,
    };
    match result {
        Ok(RefundStatus::Pending { refund_id }) => {
            refunds::record_attempt(sql, due, &RefundAttempt::Accepted(refund_id)).await?;
            Ok(None)
        }
        // Handled like the provider's callback of the same refund.
        Ok(RefundStatus::Succeeded { refund_id }) => {
            // A callback may be a late one of a refund that failed. This answer is about this attempt, also if it names such
            // a refund, or none.
            refunds::record_attempt(sql, due, &RefundAttempt::Accepted(refund_id.clone())).await?;
            if due.kind == RefundKind::Parts && refund_id.is_empty() {
                refund_parts::confirm_by_id(sql, &due.part).await?;
                return Ok(None);
            }
            callbacks::apply(redis, sql, &confirmation_callback(due, refund_id), now).await?;
            Ok(None)
        }
        Ok(RefundStatus::Failed { refund_id, reason }) => {
            let not_before = now.plus(RETRY_AFTER_FAILURE_MS);
            let attempt = RefundAttempt::Failed { refund_id, reason: reason.clone(), not_before };
            refunds::record_attempt(sql, due, &attempt).await?;
            Ok(failed(reason))
        }
        Err(ProviderError { message, retry_after_ms, .. }) => {
            let next_try_at = now.plus(retry_after_ms.unwrap_or_default());
            refunds::record_attempt(sql, due, &RefundAttempt::Unknown(message.clone(), next_try_at)).await?;
            Ok(failed(message))
        }
    }
}

fn confirmation_callback(due: &Refund, refund_id: String) -> ProviderCallback {
    ProviderCallback {
        id: format!("answer_refund_{}_{}_{}{}", due.failures, due.attempts, due.part, due.payment),
        kind: "refund.succeeded".to_owned(),
        order_no: due.order_no.clone(),
        payment_id: due.payment.clone(),
        money: due.money.clone(),
        refund_id,
        ..ProviderCallback::default()
    }
}
