//! Sends refunds to the provider, again and again until it confirms (E4).

use serde_json::json;
use spin_sdk::http::{FullBody, send as http_send};
use stampede_domain::time::Millis;
use stampede_platform::{config, http::Failure, ledger::SpinLedger, log};
use stampede_sale::ledger::payments::{self, Refund};

/// Refunds tried in one round at most.
const ROUND: i64 = 20;

/// Sends one round of refunds whose time has come; answers how many were tried.
pub async fn send(ledger: &SpinLedger, now: Millis) -> Result<usize, Failure> {
    let refunds = payments::take_refunds(ledger, now, ROUND).await?;
    for refund in &refunds {
        let error = ask(refund).await.err();
        if let Some(error) = &error {
            let fields = [("order_no", refund.order_no.to_string().into()), ("because", error.as_str().into())];
            log::error("refund not taken by the provider; it is tried again", &fields);
        }
        payments::note_refund(ledger, &refund.order_no, error.as_deref()).await?;
    }
    Ok(refunds.len())
}

/// Asks the sandbox for a refund; its answer means that it was taken, its callback that it is done.
async fn ask(refund: &Refund) -> Result<(), String> {
    let body = json!({
        "order_no": refund.order_no.to_string(), "payment": refund.payment,
        "amount": refund.amount, "currency": refund.currency,
    });
    let token = config::get("cron_token").await;
    let request = http::Request::post("http://sandbox.spin.internal/sandbox/refunds")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"))
        .body(FullBody::new(bytes::Bytes::from(body.to_string())))
        .map_err(|error| error.to_string())?;
    let response = http_send(request).await.map_err(|error| error.to_string())?;
    if response.status().is_success() { Ok(()) } else { Err(format!("the provider answered {}", response.status())) }
}
