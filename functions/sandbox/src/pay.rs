//! `/sandbox/pay/:session`: the payment page, and the payment that its buttons make.

use domain::{
    body,
    problem::{Code, FieldError, Problem},
    sandbox_session::SandboxSession,
    webhook::sign_standard,
};
use platform::{
    clock, config,
    http::{ApiError, Request, Response, not_found},
    random,
};
use serde::Deserialize;
use serde_json::json;
use spin_sdk::http::{FullBody, send};
use ulid::Ulid;

#[derive(Deserialize)]
struct Body {
    outcome: String,
    /// Which payment of this session: 0 is the first one; from 1 on, an erroneous additional one.
    #[serde(default)]
    again: u8,
}

/// Returns the payment page.
pub async fn page(session: &str) -> Result<Response, ApiError> {
    let session = verify_session(session).await?;
    // The inserted values consist of digits, letters, '.' and '-', so nothing needs escaping.
    let page = include_str!("pay.html")
        .replace("{order_no}", &session.order_no.to_string())
        .replace("{amount}", &session.money.amount.to_string())
        .replace("{currency}", &session.money.currency);
    Ok(Response::with_body(200, "text/html; charset=utf-8", page).header("cache-control", "no-store"))
}

/// Pays or declines: signs and sends the callback that a provider would send.
pub async fn post(request: &Request, session: &str) -> Result<Response, ApiError> {
    let token = session;
    let session = verify_session(session).await?;
    let body: Body = body::parse(&request.body)?;
    let kind = match body.outcome.as_str() {
        "paid" => "payment.succeeded",
        "declined" => "payment.failed",
        _ => {
            let error = FieldError::new("/outcome", "must be \"paid\" or \"declined\"");
            return Err(Problem::invalid(vec![error]).into());
        }
    };
    let suffix = if body.again == 0 { String::new() } else { format!("_{}", body.again) };
    let data = json!({
        "order_no": session.order_no, "session": token, "payment": format!("pay_{}{suffix}", session.order_no.ulid()),
        "amount": session.money.amount, "currency": session.money.currency,
    });
    // One event per payment: pressing the button again sends the event with the same id.
    send_webhook(kind, &format!("evt_{kind}_{}{suffix}", session.order_no), data).await?;
    Ok(Response::json(200, &json!({ "outcome": kind, "order_no": session.order_no })))
}

async fn verify_session(session: &str) -> Result<SandboxSession, ApiError> {
    let secret = config::secret("ticket_secret").await?;
    SandboxSession::verify(&secret, session, clock::now()).ok_or_else(|| not_found("There is no such payment session."))
}

/// Signs a Standard Webhooks message and sends it to `payment-callback`. With an empty `id`, it generates one.
///
/// # Errors
/// `not_ready` if the callback was refused; [`ApiError::Unexpected`] if it could not be signed or sent.
pub async fn send_webhook(kind: &str, id: &str, data: serde_json::Value) -> Result<(), ApiError> {
    let now = clock::now();
    let body = json!({ "type": kind, "timestamp": now, "data": data }).to_string();
    let secrets = config::webhook_secrets("webhook_secrets").await?;
    let secret = secrets.split_ascii_whitespace().next().unwrap_or_default();
    let id = if id.is_empty() {
        format!("evt_{}", Ulid::from_parts(now.0.unsigned_abs(), random::bits()?))
    } else {
        id.to_owned()
    };
    let signature = sign_standard(secret, &id, now, body.as_bytes())
        .ok_or_else(|| ApiError::Unexpected("webhook_secrets holds no usable secret".to_owned()))?;
    let request = http::Request::post("http://payment-callback.spin.internal/api/payments/webhook")
        .header("content-type", "application/json")
        .header("webhook-id", id)
        .header("webhook-timestamp", (now.0 / 1000).to_string())
        .header("webhook-signature", signature)
        .body(FullBody::new(bytes::Bytes::from(body)))
        .map_err(|error| ApiError::Unexpected(error.to_string()))?;
    let response = send(request).await.map_err(|error| ApiError::Unexpected(error.to_string()))?;
    if response.status().is_success() {
        Ok(())
    } else {
        Err(Problem::new(Code::NotReady, "The callback was not taken. Press the button again.").into())
    }
}
