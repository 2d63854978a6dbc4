//! `POST /api/orders/:order_no/checkout` (E1, E6): an address is given, a payment session opened.

use domain::{
    address::Address,
    body,
    order::{Order, Status},
    problem::{Code, Problem},
    time::seconds_up,
};
use platform::{
    address_cipher,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    log, provider,
    redis::SpinRedis,
};
use serde::Deserialize;
use serde_json::json;
use workflows::payments::{
    checkout::{CheckoutError, checkout},
    provider::Patience,
};

use crate::routes::moved;

#[derive(Deserialize)]
struct Body {
    address: serde_json::Map<String, serde_json::Value>,
}

/// Answers where to pay, and until when. Asking again gives the same session.
pub async fn post(call: &Call, order: &Order) -> Result<Answer, Failure> {
    let body: Body = body::parse(&call.body)?;
    let address = Address::parse(&body.address).map_err(Problem::invalid)?;
    let now = SpinRedis.now().await?;
    let order = order.clone().seen_at(now);
    if order.status != Status::PendingPayment {
        let detail = format!("The order is {}: it cannot be paid.", order.status.as_str());
        return Err(Problem::new(Code::StateConflict, detail).into());
    }
    let sealed = address_cipher::seal(&order.order_no, &address).await?;
    let provider = provider::provider(Patience::BUYER).await?;
    let checked_out = checkout(&SpinRedis, &SpinLedger::open().await, &provider, &order, &sealed, now).await;
    let order = moved(checked_out.map_err(|error| failure(call, &order, error))?, "paid")?;
    Ok(Answer::json(200, &json!({ "checkout_url": order.checkout_url, "pay_by": order.pay_by })))
}

/// A provider that did not say is asked again when the buyer comes again: nothing failed (D8).
fn failure(call: &Call, order: &Order, error: CheckoutError) -> Failure {
    let unknown = match error {
        CheckoutError::Store(error) => return error.into(),
        CheckoutError::Provider(unknown) => unknown,
    };
    let fields = [
        ("order_no", order.order_no.to_string().into()),
        ("because", unknown.text.into()),
        ("request_id", call.request_id.as_str().into()),
    ];
    log::error("the payment provider opened no session", &fields);
    let seconds = seconds_up(unknown.retry_after_ms.unwrap_or_default()).clamp(2, 60);
    let detail = "The payment provider did not answer. Your order is held: try again in a moment.";
    Problem::new(Code::NotReady, detail).retry_after(seconds).into()
}
