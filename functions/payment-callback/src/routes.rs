//! Routes callbacks to their provider's verification, and verified ones to the workflow.

use domain::{
    http::{
        problem::{Code, Problem},
        routes::{PaymentCallback, no_such_route},
    },
    ids::OrderNo,
    webhook::{Dispute, ProviderCallback, Reported},
};
use payments::{
    callbacks::{
        self, CallbackEffect, Receipt,
        disputes::{self, DisputeReceipt},
    },
    ledger::callback_rows::Callback,
};
use platform::{
    counts,
    http::{ApiError, Request, Response, after_response},
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
    settings,
};
use stores::{Redis, counts::Count, keys::FOREIGN_CALLBACKS, ledger::clock::Clock};

use crate::{standard, stripe};

/// Verifies and records the callback, and applies it after the response. Returns `204`, also for duplicates, for callbacks
/// that are parked, and for those of another app with the same account.
pub async fn route(request: &Request) -> Result<Response, ApiError> {
    let callback = match request.route()?.0 {
        PaymentCallback::Standard => standard::parse_callback(request).await?,
        PaymentCallback::Stripe => stripe::parse_callback(request).await?,
    };
    match callback {
        Some(Reported::Callback(callback)) => receive(request, &callback).await?,
        Some(Reported::Dispute(dispute)) => receive_dispute(request, &dispute).await?,
        // A callback of a type that this app does not use is accepted and ignored.
        None => {}
    }
    Ok(Response::empty(204))
}

async fn receive_dispute(request: &Request, dispute: &Dispute) -> Result<(), ApiError> {
    let is_configured = dispute.provider == *settings::load(settings::PAYMENT_PROVIDER).await?;
    let keys = settings::load(settings::ORDER_NUMBER_KEYS).await?;
    let ledger = SpinLedger::open().await;
    match disputes::receive(&ledger, dispute, is_configured, |order_no| keys.verify(order_no)).await? {
        DisputeReceipt::Recorded => {
            count("disputed");
            let fields = [
                ("dispute", dispute.dispute.as_str().into()),
                ("status", dispute.status.as_str().into()),
                ("request_id", request.request_id.as_str().into()),
            ];
            log::info("a payment is disputed", &fields);
        }
        DisputeReceipt::NotOfItsOrders => {
            count("not_of_its_orders");
            return Err(no_such_route().into());
        }
        DisputeReceipt::Foreign => count_foreign(),
    }
    Ok(())
}

fn count_foreign() {
    count("foreign");
    after_response(async {
        let _ = SpinRedis.command("INCR", vec![FOREIGN_CALLBACKS.into()]).await;
    });
}

async fn receive(request: &Request, callback: &ProviderCallback) -> Result<(), ApiError> {
    let is_configured = callback.provider == Some(*settings::load(settings::PAYMENT_PROVIDER).await?);
    let keys = settings::load(settings::ORDER_NUMBER_KEYS).await?;
    let is_ours = |order_no: &OrderNo| keys.verify(order_no);
    let ledger = SpinLedger::open().await;
    let received = callbacks::receive(&SpinRedis, &ledger, callback, is_configured, is_ours, Clock::Ledger).await?;
    let recorded = match received {
        Receipt::Recorded(recorded) => recorded,
        Receipt::Foreign => {
            count_foreign();
            return Ok(());
        }
        Receipt::NotOfItsOrders => {
            count("not_of_its_orders");
            return Err(no_such_route().into());
        }
        Receipt::OrderQueued => {
            count("early");
            return Err(Problem::new(Code::NotReady, "The order is being written. Send this again.").into());
        }
    };
    let request_id = request.request_id.clone();
    if recorded.callback.other_session {
        log("a payment callback names another session than its order's", &request_id, &recorded.callback);
    }
    after_response(async move {
        // What fails is tried again by a sweep, which logs it.
        let effect = callbacks::apply_recorded(&SpinRedis, &ledger, &recorded).await;
        count(match effect {
            Ok(CallbackEffect::Changed) => "changed",
            Ok(CallbackEffect::NoChange) => "no_change",
            Ok(CallbackEffect::Parked) => "parked",
            Err(_) => "failed",
        });
        if let Ok(CallbackEffect::Parked) = effect {
            log("payment callback parked for an operator", &request_id, &recorded.callback);
        }
        // A slow one is counted later than the request is handed over.
        counts::hand_over_later();
    });
    Ok(())
}

/// Counts a callback by what became of it.
fn count(result: &'static str) {
    counts::add(Count::Work { kind: "callback", result }, 1);
}

fn log(event: &str, request_id: &str, callback: &Callback) {
    // A provider's text that is no order number may be anything.
    let order_no = OrderNo::parse(&callback.order_no).map(|order_no| order_no.to_string()).unwrap_or_default();
    let fields =
        [("order_no", order_no.into()), ("callback", callback.id.as_str().into()), ("request_id", request_id.into())];
    log::error(event, &fields);
}
