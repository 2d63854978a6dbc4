//! Checkout (E1, E6): the address is kept, a payment session opened, the hold extended once.
//!
//! Dying anywhere here leaves an order that can still be paid: coming again finds the same session, because the
//! provider is asked for it in the same words.

use stampede_domain::{order::Order, time::Millis};

use crate::{
    ledger::{addresses, sessions},
    money::{self, Moved},
    ports::{Redis, Sql, StoreError},
    provider::{Provider, Unknown},
};

/// Why a checkout came to no end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutError {
    /// A store did not do what it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The provider did not say; coming again finds out.
    #[error(transparent)]
    Provider(#[from] Unknown),
}

/// Checks an order out, as it was a moment ago; `sealed` is its address. Repeating it answers the same session.
///
/// # Errors
/// [`CheckoutError`]; repeating it goes on where it stopped.
pub async fn checkout<R: Redis, S: Sql, P: Provider>(
    redis: &R,
    sql: &S,
    provider: &P,
    order: &Order,
    sealed: &str,
    now: Millis,
) -> Result<Moved, CheckoutError> {
    let order_no = &order.order_no;
    if !addresses::save(sql, order_no, sealed, now).await? {
        return Ok(money::stands(sql, order_no, now).await?);
    }
    let known = match &order.checkout_url {
        Some(url) => Some(url.clone()),
        None => sessions::url(sql, order_no).await?,
    };
    let url = match known {
        Some(url) => url,
        None => {
            let opened = provider.open(order).await?;
            // Before the buyer hears of it: what can be paid can be asked about.
            if let Some(session) = &opened.session {
                sessions::keep(sql, order_no, session, &opened.url, order.pay_by.unwrap_or_default()).await?;
            }
            opened.url
        }
    };
    Ok(money::start_payment(redis, sql, order_no, &url, now).await?)
}
