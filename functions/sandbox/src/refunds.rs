//! `POST /sandbox/refunds`: what the sweeper asks of a provider.

use domain::body;
use platform::{
    auth,
    http::{Answer, Call, Failure},
};
use serde::Deserialize;
use serde_json::json;

use crate::pay::notify;

#[derive(Deserialize)]
struct Body {
    order_no: String,
    payment: String,
    amount: i64,
    currency: String,
    failures: i64,
}

/// Refunds at once, and says so as a provider would.
pub async fn post(call: &Call) -> Result<Answer, Failure> {
    auth::operator(call, "cron_token").await?;
    let body: Body = body::parse(&call.body)?;
    // A try after a failure is another refund.
    let name = format!("{}_{}", body.payment, body.failures);
    let data = json!({
        "order_no": body.order_no, "payment": body.payment, "refund": format!("re_{name}"),
        "amount": body.amount, "currency": body.currency,
    });
    notify("refund.succeeded", &format!("evt_refund_{name}"), data).await?;
    Ok(Answer::json(200, &json!({ "status": "pending" })))
}
