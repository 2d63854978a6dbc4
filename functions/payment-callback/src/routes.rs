//! Routes callbacks to their provider's verification, and applies verified callbacks.

use domain::{
    http::{
        problem::{Code, Problem},
        routes::{PaymentCallback, no_such_route},
    },
    ids::OrderNo,
    order::OrderStatus,
    webhook::ProviderCallback,
};
use orders::{ledger::order_rows, status::load_order};
use payments::callbacks::{self, CallbackEffect};
use platform::{
    http::{ApiError, Request, Response},
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
    settings,
};

use crate::{standard, stripe};

/// Verifies and applies the callback. Returns `204`, also for duplicates and for callbacks that are parked.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let callback = match request.route()?.0 {
        PaymentCallback::Standard => standard::parse_callback(request).await?,
        PaymentCallback::Stripe => stripe::parse_callback(request).await?,
    };
    // A callback of a type that this app does not use is accepted and ignored.
    if let Some(callback) = callback {
        apply(request, &callback).await?;
    }
    Ok(Response::empty(204))
}

async fn apply(request: &Request, callback: &ProviderCallback) -> Result<(), ApiError> {
    let ledger = SpinLedger::open().await;
    let order_no = OrderNo::parse(&callback.order_no).ok();
    let order = match &order_no {
        Some(order_no) => order_rows::load(&ledger, order_no).await?,
        None => None,
    };
    if let Some(signer) = callback.provider
        && !order.as_ref().is_some_and(|order| order.may_have_paid_at(signer))
        && signer != *settings::load(settings::PAYMENT_PROVIDER).await?
    {
        return Err(no_such_route().into());
    }
    // The order is still queued and not in the ledger yet: with `not_ready`, the provider sends the callback again.
    if let Some(order_no) = order_no
        && order.is_none()
        && load_order(&SpinRedis, &order_no).await?.order.is_some_and(|order| order.status == OrderStatus::Queued)
    {
        return Err(Problem::new(Code::NotReady, "The order is being written. Send this again.").into());
    }
    let now = SpinRedis.now().await?;
    let applied = callbacks::apply(&SpinRedis, &ledger, callback, now).await?;
    if applied == CallbackEffect::Parked {
        // A provider's text that is no order number may be anything.
        let order_no = OrderNo::parse(&callback.order_no).map(|order_no| order_no.to_string()).unwrap_or_default();
        let fields = [
            ("order_no", order_no.into()),
            ("callback", callback.id.as_str().into()),
            ("request_id", request.request_id.as_str().into()),
        ];
        log::error("payment callback parked for an operator", &fields);
    }
    Ok(())
}
