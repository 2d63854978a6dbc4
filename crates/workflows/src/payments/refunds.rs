//! Refunds (E4, I6): what is due is sent to the provider, again and again until it confirms.
//!
//! Dying anywhere here leaves a refund that is sent again, under the same name: the provider does it once.

use domain::{time::Millis, webhook::Payment};
use futures::future::join_all;

use crate::{
    ledger::{
        payments::LOST,
        refunds::{self, Refund, Tried},
    },
    payments::{
        callbacks,
        provider::{Provider, Refunded, Unknown},
    },
    ports::{Redis, Sql, StoreError},
};

/// How long after a failure a new refund is tried, in milliseconds.
const AFTER_FAILURE_MS: i64 = 60_000;

/// What operators read of a refund that cannot be sent.
const PAYMENT_LOST: &str = "the ledger lost the payment's id: let the provider send its callback of the payment again";

/// A refund that the provider did not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untaken {
    /// Of which order.
    pub order_no: String,
    /// Why.
    pub because: String,
}

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Refunds that the provider was asked for.
    pub tried: usize,
    /// Those that it did not take.
    pub untaken: Vec<Untaken>,
}

/// One round: up to `limit` refunds whose time has come, all at once. One whose payment has lost its id is kept from the
/// provider, who could only refuse it, until the provider names the payment (see [`crate::recovery::backfill`]).
///
/// # Errors
/// [`StoreError`].
pub async fn send<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<Round, StoreError> {
    let due = refunds::take(sql, now, limit).await?;
    let (nameless, due): (Vec<_>, Vec<_>) = due.into_iter().partition(|refund| refund.payment == LOST);
    let answers = join_all(due.iter().map(|refund| provider.refund(refund))).await;
    let mut round = Round { tried: due.len(), untaken: Vec::new() };
    for refund in nameless {
        refunds::record_attempt(sql, &refund, &Tried::Unknown(PAYMENT_LOST.to_owned(), now)).await?;
        round.untaken.push(Untaken { order_no: refund.order_no, because: PAYMENT_LOST.to_owned() });
    }
    for (refund, answer) in due.iter().zip(answers) {
        if let Err(because) = record_answer(redis, sql, refund, answer, now).await? {
            round.untaken.push(Untaken { order_no: refund.order_no.clone(), because });
        }
    }
    Ok(round)
}

/// Writes down what the provider answered; the inner error is for the log.
async fn record_answer<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    of: &Refund,
    answer: Result<Refunded, Unknown>,
    now: Millis,
) -> Result<Result<(), String>, StoreError> {
    match answer {
        Ok(Refunded::Taken { refund }) => refunds::record_attempt(sql, of, &Tried::Taken(refund)).await.map(Ok),
        // Its answer is as good as its callback, and the same thing is done about it.
        Ok(Refunded::Done { refund }) => {
            callbacks::apply(redis, sql, &confirmed(of, refund), now).await.map(|_| Ok(()))
        }
        Ok(Refunded::Failed(because)) => {
            refunds::record_attempt(sql, of, &Tried::Failed(because.clone(), now.plus(AFTER_FAILURE_MS))).await?;
            Ok(Err(because))
        }
        Err(Unknown { text, retry_after_ms }) => {
            let then = now.plus(retry_after_ms.unwrap_or_default());
            refunds::record_attempt(sql, of, &Tried::Unknown(text.clone(), then)).await?;
            Ok(Err(text))
        }
    }
}

fn confirmed(of: &Refund, refund: String) -> Payment {
    Payment {
        id: format!("answer_refund_{}_{}", of.payment, of.failures),
        kind: "refund.succeeded".to_owned(),
        order_no: of.order_no.clone(),
        payment: of.payment.clone(),
        money: of.money.clone(),
        refund,
        ..Payment::default()
    }
}
