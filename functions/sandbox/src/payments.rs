//! `POST /sandbox/payments`: the sandbox as a payment service (docs/payments.md).
//!
//! It stores nothing: ids follow from the orders. A closed session can still be paid, so that late payments can be tried
//! out. A refund succeeds at once.

use domain::{
    api::payments::{CreateRefund, PaymentCall, RefundAnswer, RefundOutcome, SessionClosed, SessionOpened},
    http::{
        body,
        problem::{Code, Problem},
    },
    sandbox_session::SandboxSession,
    webhook::verify_standard,
};
use platform::{
    http::{ApiError, Request, Response},
    settings,
};
use serde_json::json;

use crate::pay::send_webhook;

/// Verifies a call's signature, and answers it.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    let secrets = settings::load(settings::WEBHOOK_SECRETS).await?;
    if !verify_standard(secrets.as_deref().unwrap_or_default(), &request.headers, &request.body) {
        return Err(Problem::new(Code::SignatureInvalid, "The signature does not hold.").into());
    }
    Ok(match body::parse(&request.body)? {
        PaymentCall::OpenSession(open) => {
            let secret = settings::load(settings::TICKET_SECRET).await?;
            let session = SandboxSession::new(open.order_no, open.session_number, open.money, open.created_at);
            let url = format!("/sandbox/pay/{}", session.sign(&secret).unwrap_or_default());
            Response::json(200, &SessionOpened { session: session.id(), url })
        }
        PaymentCall::CloseSession(_) => Response::json(200, &SessionClosed::Closed),
        PaymentCall::CreateRefund(refund) => Response::json(200, &create_refund(refund).await?),
        PaymentCall::GetRefund(get) => {
            let status = RefundOutcome::Succeeded;
            Response::json(200, &RefundAnswer { refund: get.refund, status, reason: String::new() })
        }
    })
}

/// Sends the callback of a refund before answering, as a fast provider may.
async fn create_refund(refund: CreateRefund) -> Result<RefundAnswer, ApiError> {
    let CreateRefund { order_no, payment, money, failures, part } = refund;
    // A retry after a failed refund is a new refund.
    let id = format!("re_{part}{payment}_{failures}");
    let data = json!({
        "order_no": order_no, "payment": payment, "refund": id, "amount": money.amount, "currency": money.currency,
    });
    send_webhook("refund.succeeded", &format!("evt_{id}"), data).await?;
    Ok(RefundAnswer { refund: id, status: RefundOutcome::Pending, reason: String::new() })
}
