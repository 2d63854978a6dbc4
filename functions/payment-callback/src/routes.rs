//! Routes callbacks to their provider's verification, and verified ones to the workflow.

use domain::{
    http::{
        problem::{Code, Problem},
        routes::{PaymentCallback, no_such_route},
    },
    ids::OrderNo,
    webhook::ProviderCallback,
};
use payments::{
    callbacks::{self, CallbackEffect, Receipt},
    ledger::callback_rows::Callback,
};
use platform::{
    http::{ApiError, Request, Response, after_response},
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
    settings,
};
use stores::ledger::clock::Clock;

use crate::{standard, stripe};

/// Verifies and records the callback, and applies it after the response. Returns `204`, also for duplicates and for
/// callbacks that are parked.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let callback = match request.route()?.0 {
        PaymentCallback::Standard => standard::parse_callback(request).await?,
        PaymentCallback::Stripe => stripe::parse_callback(request).await?,
    };
    // A callback of a type that this app does not use is accepted and ignored.
    if let Some(callback) = callback {
        receive(request, &callback).await?;
    }
    Ok(Response::empty(204))
}

async fn receive(request: &Request, callback: &ProviderCallback) -> Result<(), ApiError> {
    let is_configured = callback.provider == Some(*settings::load(settings::PAYMENT_PROVIDER).await?);
    let ledger = SpinLedger::open().await;
    let recorded = match callbacks::receive(&SpinRedis, &ledger, callback, is_configured, Clock::Ledger).await? {
        Receipt::Recorded(recorded) => recorded,
        Receipt::NotOfItsOrders => return Err(no_such_route().into()),
        Receipt::OrderQueued => {
            return Err(Problem::new(Code::NotReady, "The order is being written. Send this again.").into());
        }
    };
    let request_id = request.request_id.clone();
    after_response(async move {
        // What fails is tried again by a sweep, which logs it.
        if let Ok(CallbackEffect::Parked) = callbacks::apply_recorded(&SpinRedis, &ledger, &recorded).await {
            log_parked(&request_id, &recorded.callback);
        }
    });
    Ok(())
}

fn log_parked(request_id: &str, callback: &Callback) {
    // A provider's text that is no order number may be anything.
    let order_no = OrderNo::parse(&callback.order_no).map(|order_no| order_no.to_string()).unwrap_or_default();
    let fields =
        [("order_no", order_no.into()), ("callback", callback.id.as_str().into()), ("request_id", request_id.into())];
    log::error("payment callback parked for an operator", &fields);
}
