//! `/sandbox/pay/:session`: the payment page, and the payment that its buttons make.

use domain::{
    http::{
        body,
        problem::{Code, FieldError, Problem},
    },
    money::decimals,
    sandbox_session::SandboxSession,
    webhook::sign,
};
use platform::{
    clock,
    http::{ApiError, Request, Response, not_found},
    http_client::SpinHttpClient,
    settings,
};
use serde::Deserialize;
use serde_json::json;
use stores::http_client::{HttpClient, HttpRequest};

const TIMEOUT_MS: i64 = 5_000;

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
    let shop_url = settings::load(settings::SHOP_URL).await?;
    // The inserted values consist of digits, letters, '.', '-' and what an origin has, so nothing needs escaping.
    let page = include_str!("pay.html")
        .replace("{order_no}", &session.order_no.to_string())
        .replace("{shop_url}", &shop_url)
        .replace("{amount}", &session.money.amount.to_string())
        .replace("{currency}", &session.money.currency)
        .replace("{decimals}", &decimals(&session.money.currency).unwrap_or(2).to_string());
    Ok(Response::with_body(200, "text/html; charset=utf-8", page).header("cache-control", "no-store"))
}

/// Pays or declines: signs and sends the callback that a provider would send.
pub async fn post(request: &Request, session: &str) -> Result<Response, ApiError> {
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
        "order_no": session.order_no, "session": session.id(), "payment": format!("pay_{}{suffix}", session.order_no.ulid()),
        "amount": session.money.amount, "currency": session.money.currency,
    });
    // One event per payment: pressing the button again sends the event with the same id.
    send_webhook(kind, &format!("evt_{kind}_{}{suffix}", session.order_no), data).await?;
    Ok(Response::json(200, &json!({ "outcome": kind, "order_no": session.order_no })))
}

async fn verify_session(session: &str) -> Result<SandboxSession, ApiError> {
    let secret = settings::load(settings::TICKET_SECRET).await?;
    SandboxSession::verify(&secret, session, clock::now()).ok_or_else(|| not_found("There is no such payment session."))
}

/// Signs a Standard Webhooks message and sends it to `payment-callback`.
///
/// # Errors
/// `not_ready` if the callback was refused; [`ApiError::Unexpected`] if it could not be signed or sent.
pub async fn send_webhook(kind: &str, id: &str, data: serde_json::Value) -> Result<(), ApiError> {
    let now = clock::now();
    let body = json!({ "type": kind, "timestamp": now, "data": data }).to_string();
    let secrets = settings::load(settings::WEBHOOK_SECRETS).await?;
    let message = sign(secrets.as_deref().unwrap_or_default(), id.to_owned(), now, body)
        .ok_or_else(|| ApiError::Unexpected("webhook_secrets holds no usable secret".to_owned()))?;
    let url = "http://payment-callback.spin.internal/api/payments/webhook".to_owned();
    let headers = message.headers();
    let request = HttpRequest { method: "POST", url, headers, body: message.body, timeout_ms: TIMEOUT_MS };
    let response = SpinHttpClient.send(request).await.map_err(|error| ApiError::Unexpected(error.to_string()))?;
    if response.is_success() {
        Ok(())
    } else {
        Err(Problem::new(Code::NotReady, "The callback was not taken. Press the button again.").into())
    }
}
