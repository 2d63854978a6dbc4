//! `POST /api/orders/:order_no/checkout` (E1, E6): an address is given, a payment session opened.

use serde::Deserialize;
use serde_json::json;
use stampede_domain::{
    body,
    order::{Order, Status},
    problem::{Code, FieldError, Problem},
    session::Session,
};
use stampede_platform::{
    config,
    http::{Answer, Call, Failure},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use stampede_sale::money;

use crate::routes::moved;

#[derive(Deserialize)]
struct Body {
    address: serde_json::Map<String, serde_json::Value>,
}

/// Answers where to pay, and until when. Asking again gives the same session.
pub async fn post(call: &Call, order: &Order) -> Result<Answer, Failure> {
    let body: Body = body::parse(&call.body)?;
    let errors: Vec<_> = body
        .address
        .iter()
        .filter(|(_, value)| value.as_str().is_none_or(|text| text.chars().count() > 200))
        .map(|(name, _)| FieldError::new(format!("/address/{name}"), "must be text of at most 200 characters"))
        .collect();
    if !errors.is_empty() {
        return Err(Problem::invalid(errors).into());
    }
    let now = SpinRedis.now().await?;
    let order = order.clone().seen_at(now);
    if order.status != Status::PendingPayment {
        let detail = format!("The order is {}: it cannot be paid.", order.status.as_str());
        return Err(Problem::new(Code::StateConflict, detail).into());
    }
    let checkout_url = match &order.checkout_url {
        Some(url) => url.clone(),
        None => open_session(&order).await?,
    };
    // The address is not kept before it can be kept encrypted.
    let started =
        money::start_payment(&SpinRedis, &SpinLedger::open().await, &order.order_no, &checkout_url, "", now).await?;
    let order = moved(started, "paid")?;
    Ok(Answer::json(200, &json!({ "checkout_url": order.checkout_url, "pay_by": order.pay_by })))
}

/// A session at the payment provider; the sandbox's carries all it says.
async fn open_session(order: &Order) -> Result<String, Failure> {
    let secret = config::secret("ticket_secret").await?;
    let session = Session { order_no: order.order_no.clone(), amount: order.amount, currency: order.currency.clone() };
    let text = session.sign(&secret).ok_or_else(|| Failure::Unexpected("no session could be signed".to_owned()))?;
    Ok(format!("/sandbox/pay/{text}"))
}
