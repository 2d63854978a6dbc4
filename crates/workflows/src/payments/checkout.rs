//! Checkout (E1, E6): the address is kept, a payment session opened, the hold extended once.
//!
//! Dying anywhere here leaves an order that can still be paid: coming again finds the same session, because the
//! provider is asked for it in the same words. A session that ended early is followed by another one, which is asked for
//! under another name.

use domain::{order::Order, time::Millis};

use crate::{
    ledger::{
        addresses,
        sessions::{self, Session},
    },
    payments::{
        commands::{self, CommandOutcome},
        provider::{OpenedSession, Provider, ProviderError},
    },
    ports::{Redis, Sql, StoreError},
};

/// Why a checkout came to no end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutError {
    /// A store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider did not say; coming again finds out.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Sessions that one call opens at most, where each ends before it can be handed out.
const MAX_SESSIONS_PER_CALL: u32 = 3;

/// Checks an order out, as it was a moment ago; `sealed` is its address. Repeating it answers the same session, or, where
/// that one has ended and the order still has time, the next one.
///
/// # Errors
/// [`CheckoutError`]; repeating it goes on where it stopped.
pub async fn checkout<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    order: &Order,
    sealed_address: &str,
    now: Millis,
) -> Result<CommandOutcome, CheckoutError> {
    let order_no = &order.order_no;
    if !addresses::save(sql, order_no, sealed_address, now).await? {
        return Ok(commands::not_payable(sql, order_no, now).await?);
    }
    for _ in 0..MAX_SESSIONS_PER_CALL {
        let (url, attempt) = find_or_open_session(sql, provider, order).await?;
        match commands::start_payment(redis, sql, order_no, &url, attempt, now).await? {
            // It ended meanwhile.
            CommandOutcome::Done(order) if order.checkout_url.is_none() => {}
            outcome => return Ok(outcome),
        }
    }
    Err(ProviderError::new("its sessions end as soon as they are opened").into())
}

/// The session that an order can be paid at, opened where there is none, and which one it is: 0 where it is not kept.
async fn find_or_open_session<S: Sql, P: Provider>(
    sql: &S,
    provider: &P,
    order: &Order,
) -> Result<(String, i64), CheckoutError> {
    let order_no = &order.order_no;
    let attempt = match (sessions::load_latest(sql, order_no).await?, &order.checkout_url) {
        (Some(latest), _) if latest.open => return Ok((latest.url, latest.attempt)),
        (Some(latest), _) => latest.attempt + 1,
        (None, Some(url)) => return Ok((url.clone(), 0)),
        (None, None) => 1,
    };
    let OpenedSession { url, session_id } = provider.open_session(order, attempt).await?;
    let Some(session_id) = session_id else { return Ok((url, 0)) };
    // Before the buyer hears of it: what can be paid can be asked about.
    let session = Session { id: session_id, url, attempt, open: true };
    sessions::save(sql, order_no, &session, order.pay_by.unwrap_or_default()).await?;
    Ok((session.url, attempt))
}
