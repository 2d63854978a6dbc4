//! Which request is answered where, and what is done about a verified event.

use domain::{
    ids::OrderNo,
    order::Status,
    problem::{Code, Problem},
    webhook::Payment,
};
use platform::{
    http::{Answer, Call, Failure, method_not_allowed, not_found},
    ledger::SpinLedger,
    log,
    redis::SpinRedis,
};
use spin_sdk::http::Method;
use workflows::{
    hot::status::status,
    ledger::orders,
    payments::callbacks::{self, Applied},
};

use crate::{standard, stripe};

/// Finds the answer.
pub async fn route(call: &Call) -> Result<Answer, Failure> {
    if call.method != Method::POST {
        return Err(method_not_allowed("POST"));
    }
    let event = match call.segments()[..] {
        ["api", "payments", "webhook"] => standard::event(call).await?,
        ["api", "payments", "stripe"] => stripe::event(call).await?,
        _ => return Err(not_found("No such route.")),
    };
    // An event of a type that means nothing to us is fine.
    if let Some(event) = event {
        apply(call, &event).await?;
    }
    Ok(Answer::empty(204))
}

async fn apply(call: &Call, event: &Payment) -> Result<(), Failure> {
    let ledger = SpinLedger::open().await;
    // Money for an order that is still on its way to the ledger: the provider is to come again in a moment.
    if let Ok(order_no) = OrderNo::parse(&event.order_no)
        && orders::load(&ledger, &order_no).await?.is_none()
        && status(&SpinRedis, &order_no).await?.1.is_some_and(|order| order.status == Status::Queued)
    {
        return Err(Problem::new(Code::NotReady, "The order is being written. Send this again.").into());
    }
    let now = SpinRedis.now().await?;
    let applied = callbacks::apply(&SpinRedis, &ledger, event, now).await?;
    if applied == Applied::Held {
        let fields = [
            ("order_no", event.order_no.as_str().into()),
            ("callback", event.id.as_str().into()),
            ("request_id", call.request_id.as_str().into()),
        ];
        log::error("payment callback held for an operator", &fields);
    }
    Ok(())
}

/// The signature does not hold.
pub fn unsigned() -> Failure {
    Problem::new(Code::SignatureInvalid, "The signature does not hold for this body, secret and time.").into()
}
