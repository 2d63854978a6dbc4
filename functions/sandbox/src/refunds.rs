//! `POST /sandbox/refunds`: the provider's API that the sweeper calls for refunds.

use domain::body;
use platform::{
    auth,
    http::{ApiError, Request, Response},
};
use serde::Deserialize;
use serde_json::json;

use crate::pay::send_webhook;

#[derive(Deserialize)]
struct Body {
    order_no: String,
    payment: String,
    amount: i64,
    currency: String,
    failures: i64,
}

/// Refunds at once and sends the callback that a provider would send.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    auth::require_token(request, "cron_token").await?;
    let body: Body = body::parse(&request.body)?;
    // A retry after a failed refund is a new refund.
    let id = format!("{}_{}", body.payment, body.failures);
    let data = json!({
        "order_no": body.order_no, "payment": body.payment, "refund": format!("re_{id}"),
        "amount": body.amount, "currency": body.currency,
    });
    send_webhook("refund.succeeded", &format!("evt_refund_{id}"), data).await?;
    Ok(Response::json(200, &json!({ "status": "pending" })))
}
