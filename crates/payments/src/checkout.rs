//! Checkout (E1, E6): saves the address, opens a payment session, extends the hold once. An order that costs nothing is paid.
//!
//! If a checkout stops at any point, the order can still be paid: a retry gets the same session, because it sends the
//! provider the same request. After a session that ended early, the next one is requested under a new number.

use domain::{
    ids::OrderNo,
    order::{Order, OrderStatus},
};
use orders::ledger::order_changes;
use stores::{
    ledger::clock::Clock,
    ports::{Sql, StoreError},
};

use crate::{
    commands::{self, CommandOutcome, Decided},
    ledger::{
        addresses::{self, SavedCheckout, SealedAddress},
        sessions::{self, Session, StartedPayment},
    },
    provider::{OpenedSession, Presentation, Provider, ProviderError},
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
    /// The activity has a form for the delivery address, and none was sent.
    #[error("the address is missing")]
    AddressMissing,
}

/// Maximum number of sessions opened in one call, if each ends before its URL can be returned.
const MAX_SESSIONS_PER_CALL: u32 = 3;

/// Checks out `order`, as read a moment ago, with its encrypted address. A repeated call returns the same session, or
/// the next one if that session has ended and the order still has time. Returns the outcome and the session's number, for
/// [`commands::copy_session`].
///
/// # Errors
/// [`CheckoutError`]; a repeated call continues where this one stopped.
pub async fn checkout<S: Sql, P: Provider>(
    sql: &S,
    provider: &P,
    order: &Order,
    address: SealedAddress<'_>,
    now: impl Into<Clock>,
) -> Result<(CommandOutcome, i64), CheckoutError> {
    let (order_no, now) = (&order.order_no, now.into());
    let Some(SavedCheckout { shown, mut latest_session }) = addresses::save(sql, order_no, address, now).await? else {
        return Ok((not_begun(sql, order_no, address, now).await?, 0));
    };
    for _ in 0..MAX_SESSIONS_PER_CALL {
        let session_number = match (latest_session, &order.checkout_url) {
            (Some(latest), _) if latest.open => latest.session_number,
            // The ledger has only the session's URL.
            (None, Some(_)) => 0,
            (latest, _) => {
                let session_number = latest.map_or(1, |latest| latest.session_number + 1);
                if let Some(payment) = open_session(sql, provider, order, session_number, &shown, now).await? {
                    let (checkout_url, pay_by) = (Some(payment.url), Some(payment.pay_by));
                    let order = Order { checkout_url, pay_by, ..order.clone() };
                    return Ok((CommandOutcome::Done(Box::new(order)), session_number));
                }
                session_number
            }
        };
        match commands::load_outcome(sql, order_no, &[OrderStatus::PendingPayment], now).await? {
            // The session has ended meanwhile.
            CommandOutcome::Done(order) if order.checkout_url.is_none() => {}
            outcome => return Ok((outcome, session_number)),
        }
        latest_session = sessions::load_latest(sql, order_no).await?;
    }
    Err(ProviderError::new("its sessions end as soon as they are opened").into())
}

/// Checks out an `order` that costs nothing: it is paid, and no provider is asked. A repeated call does nothing more.
///
/// # Errors
/// [`CheckoutError`]; the order is paid or not, and a repeated call says which.
pub async fn checkout_free<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    address: SealedAddress<'_>,
    now: impl Into<Clock>,
) -> Result<Decided, CheckoutError> {
    let now = now.into();
    if addresses::save(sql, order_no, address, now).await?.is_none() {
        return Ok(Decided::unchanged(not_begun(sql, order_no, address, now).await?));
    }
    let changed = order_changes::pay_free(sql, order_no, now).await?;
    Ok(commands::compare(sql, order_no, changed, &[OrderStatus::Paid], now).await?)
}

/// Why no checkout began: the address is missing, or the order cannot be paid. One that costs nothing may be paid already.
async fn not_begun<S: Sql>(
    sql: &S,
    order_no: &OrderNo,
    address: SealedAddress<'_>,
    now: Clock,
) -> Result<CommandOutcome, CheckoutError> {
    let outcome = commands::load_outcome(sql, order_no, &[], now).await?;
    match outcome {
        CommandOutcome::Conflict(order) if order.status == OrderStatus::PendingPayment && address.sealed.is_empty() => {
            Err(CheckoutError::AddressMissing)
        }
        CommandOutcome::Conflict(order) if order.status == OrderStatus::Paid && order.money.amount == 0 => {
            Ok(CommandOutcome::Done(order))
        }
        outcome => Ok(outcome),
    }
}

/// Opens a payment session and saves it. Returns the payment, unless the order cannot be paid any more, the session has
/// ended already, or another checkout has saved one first.
async fn open_session<S: Sql, P: Provider>(
    sql: &S,
    provider: &P,
    order: &Order,
    session_number: i64,
    shown: &Presentation,
    now: Clock,
) -> Result<Option<StartedPayment>, CheckoutError> {
    let opened = provider.open_session(order, session_number, shown).await;
    if opened.is_err() {
        sessions::record_failed_checkout(sql, &order.order_no).await?;
    }
    let OpenedSession { url, session_id } = opened?;
    // Saved before the buyer gets the URL, so that the sweeper can ask the provider about every session that can be
    // paid. If another checkout of the order has saved one first, buyers are sent to that one.
    let session = Session { provider: provider.name().as_str().to_owned(), id: session_id, url, session_number };
    Ok(sessions::save(sql, &order.order_no, &session, now).await?)
}
