//! `POST /api/payments/webhook`: verifies and parses Standard Webhooks callbacks.

use domain::{
    api::{
        orders::{CALLBACK_TYPES, CallbackBody, PAYMENT_DISPUTED, PaymentDisputed, SESSION_ENDED, SessionEnded},
        payments::{MAX_ID_CHARS, is_kept_unchanged},
    },
    http::{
        body,
        problem::{Code, Problem},
        routes::no_such_route,
    },
    money::Money,
    webhook::{Dispute, PaymentProvider, ProviderCallback, Reported, verify_standard},
};
use platform::{
    http::{ApiError, Request},
    settings,
};
use serde::Deserialize;

use crate::signature::refusal;

/// The type, which decides whether the rest is read.
#[derive(Deserialize)]
struct CallbackType {
    r#type: String,
}

/// Verifies and parses the callback; returns `None` for a type that this app does not use. Its signer is the sandbox
/// where that is configured, else the shop's payment service.
pub async fn parse_callback(request: &Request) -> Result<Option<Reported>, ApiError> {
    let signer = match *settings::load(settings::PAYMENT_PROVIDER).await? {
        PaymentProvider::Sandbox => PaymentProvider::Sandbox,
        _ => PaymentProvider::Webhook,
    };
    let secrets = settings::load(settings::WEBHOOK_SECRETS).await?;
    let secrets = secrets.as_deref().ok_or_else(no_such_route)?;
    if !verify_standard(secrets, &request.headers, &request.body) {
        return Err(refusal(signer).await?.into());
    }
    let id = request.header("webhook-id").unwrap_or_default();
    // Two ids that the ledger cuts to the same text would count as one callback.
    if !is_kept_unchanged(&id) {
        let detail = format!("webhook-id has at most {MAX_ID_CHARS} characters.");
        return Err(Problem::new(Code::InvalidRequest, detail).into());
    }
    let kind = body::parse::<CallbackType>(&request.body)?.r#type;
    let known = ProviderCallback { id, provider: Some(signer), ..ProviderCallback::default() };
    if kind == SESSION_ENDED {
        let data = body::parse::<SessionEnded>(&request.body)?.data;
        let ended = ProviderCallback { kind, order_no: data.order_no, session_id: data.session, ..known };
        return Ok(Some(Reported::Callback(ended)));
    }
    if kind == PAYMENT_DISPUTED {
        let PaymentDisputed { timestamp, data, .. } = body::parse(&request.body)?;
        return Ok(Some(Reported::Dispute(Dispute {
            dispute: data.dispute,
            provider: signer,
            order_no: data.order_no,
            payment: data.payment,
            money: Money::new(data.amount, data.currency),
            reason: data.reason,
            status: data.status,
            opened_at: timestamp,
            changed_at: timestamp,
        })));
    }
    if !CALLBACK_TYPES.contains(&kind.as_str()) {
        return Ok(None);
    }
    let data = body::parse::<CallbackBody>(&request.body)?.data;
    Ok(Some(Reported::Callback(ProviderCallback {
        kind,
        order_no: data.order_no,
        payment_id: data.payment,
        money: Money::new(data.amount, data.currency),
        refund_id: data.refund.unwrap_or_default(),
        session_id: data.session,
        ..known
    })))
}
