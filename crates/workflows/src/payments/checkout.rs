//! Checkout (E1, E6): saves the address, opens a payment session, extends the hold once.
//!
//! If a checkout stops at any point, the order can still be paid: a retry gets the same session, because it sends the
//! provider the same request. After a session that ended early, the next one is requested under a new number.

use domain::{order::Order, time::Millis};

use crate::{
    ledger::{
        addresses::{self, SealedAddress},
        sessions::{self, Session},
    },
    payments::{
        commands::{self, CommandOutcome},
        provider::{OpenedSession, Presentation, Provider, ProviderError},
    },
    ports::{Redis, Sql, StoreError},
};

/// Failure of a checkout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutError {
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider gave no usable answer; a retry gets the session.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

/// Maximum number of sessions opened in one call, if each ends before its URL can be returned.
const MAX_SESSIONS_PER_CALL: u32 = 3;

/// Checks out `order`, as read a moment ago, with its encrypted address. A repeated call returns the same session, or
/// the next one if that session has ended and the order still has time.
///
/// # Errors
/// [`CheckoutError`]; a repeated call continues where this one stopped.
pub async fn checkout<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    order: &Order,
    address: SealedAddress<'_>,
    now: Millis,
) -> Result<CommandOutcome, CheckoutError> {
    let order_no = &order.order_no;
    let Some(shown) = addresses::save(sql, order_no, address, now).await? else {
        return Ok(commands::not_payable(sql, order_no, now).await?);
    };
    for _ in 0..MAX_SESSIONS_PER_CALL {
        let session_number = find_or_open_session(sql, provider, order, &shown, now).await?;
        match commands::show_session(redis, sql, order_no, session_number, now).await? {
            // The session has ended meanwhile.
            CommandOutcome::Done(order) if order.checkout_url.is_none() => {}
            outcome => return Ok(outcome),
        }
    }
    Err(ProviderError::new("its sessions end as soon as they are opened").into())
}

/// Opens a payment session if the order has none that is open. Returns its number, which is 0 if the ledger has only the
/// session's URL.
async fn find_or_open_session<S: Sql, P: Provider>(
    sql: &S,
    provider: &P,
    order: &Order,
    shown: &Presentation,
    now: Millis,
) -> Result<i64, CheckoutError> {
    let order_no = &order.order_no;
    let session_number = match (sessions::load_latest(sql, order_no).await?, &order.checkout_url) {
        (Some(latest), _) if latest.open => return Ok(latest.session_number),
        (Some(latest), _) => latest.session_number + 1,
        (None, Some(_)) => return Ok(0),
        (None, None) => 1,
    };
    let OpenedSession { url, session_id } = provider.open_session(order, session_number, shown).await?;
    // Saved before the buyer gets the URL, so that the sweeper can ask the provider about every session that can be
    // paid. If another checkout of the order has saved one first, buyers are sent to that one.
    let provider = provider.name().as_str().to_owned();
    let session = Session { provider, id: session_id, url, session_number, open: true };
    sessions::save(sql, order_no, &session, now).await?;
    Ok(session_number)
}
