//! Before an order with an open payment session is released, its provider is asked, and the session ended (E5, I6).
//!
//! While the provider does not answer, the order waits for [`sessions::GRACE_MS`]. Dying anywhere here leaves a session
//! that is asked about again.

use domain::{ids::OrderNo, time::Millis, webhook::Payment};
use futures::future::join_all;

use crate::{
    ledger::sessions::{self, Due},
    payments::{
        callbacks, commands,
        provider::{Closed, Provider},
    },
    ports::{Redis, Sql, StoreError},
};

/// What a round did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Round {
    /// Sessions that the provider was asked about.
    pub asked: usize,
    /// Orders that it did not answer for, and why.
    pub unanswered: Vec<(OrderNo, String)>,
}

/// One round: up to `limit` sessions whose order is due or was released, all at once.
///
/// # Errors
/// [`StoreError`].
pub async fn ask<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    now: Millis,
    limit: i64,
) -> Result<Round, StoreError> {
    let due = sessions::take(sql, now, limit).await?;
    let answers = join_all(due.iter().map(|due| provider.close(&due.session))).await;
    let mut round = Round { asked: due.len(), unanswered: Vec::new() };
    for (Due { order_no, session }, answer) in due.iter().zip(answers) {
        match answer {
            Ok(Closed::Unpaid) => commands::session_ended(redis, sql, order_no, session).await?,
            // Its answer is as good as its callback, and the same thing is done about it.
            Ok(Closed::Paid { payment, money }) => {
                let event = Payment {
                    id: format!("answer_{session}"),
                    kind: "payment.succeeded".to_owned(),
                    order_no: order_no.to_string(),
                    payment,
                    money,
                    ..Payment::default()
                };
                match callbacks::apply(redis, sql, &event, now).await {
                    // It is written down, and finished after the rebuild; the others are not held up.
                    Err(StoreError::Rebuilding) => {}
                    other => other.map(|_| ())?,
                }
                sessions::close(sql, order_no, session).await?;
            }
            Ok(Closed::Underway) => {
                sessions::record_no_answer(sql, order_no, session, "the money is on its way").await?
            }
            Err(unknown) => {
                sessions::record_no_answer(sql, order_no, session, &unknown.text).await?;
                round.unanswered.push((order_no.clone(), unknown.text));
            }
        }
    }
    Ok(round)
}
