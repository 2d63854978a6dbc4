//! Play money, for development: the app's own component `sandbox`.

use domain::{order::Order, session::Session};
use serde_json::json;

use super::{Closed, Opened, Provider, Refunded, Unknown};
use crate::{
    http_client::{HttpClient, HttpRequest},
    ledger::refunds::Refund,
};

/// How long the sandbox has to answer, in milliseconds.
const TIMEOUT_MS: i64 = 5_000;

/// The sandbox.
pub struct Sandbox<W> {
    /// The way to it.
    pub web: W,
    /// Where it is.
    pub url: String,
    /// What signs its sessions: they carry all they say, so it keeps none.
    pub ticket_secret: String,
    /// What it lets the sweeper in with.
    pub cron_token: String,
}

impl<W: HttpClient> Provider for Sandbox<W> {
    async fn open(&self, order: &Order, _: i64) -> Result<Opened, Unknown> {
        let session = Session { order_no: order.order_no.clone(), money: order.money.clone() };
        let text = session.sign(&self.ticket_secret).ok_or_else(|| Unknown::new("no session could be signed"))?;
        Ok(Opened { url: format!("/sandbox/pay/{text}"), session: None })
    }

    /// Its sessions stay payable, so that late money can be tried out.
    async fn close(&self, _: &str) -> Result<Closed, Unknown> {
        Ok(Closed::Unpaid)
    }

    async fn refund(&self, refund: &Refund) -> Result<Refunded, Unknown> {
        let body = json!({
            "order_no": refund.order_no, "payment": refund.payment,
            "amount": refund.money.amount, "currency": refund.money.currency, "failures": refund.failures,
        });
        let request = HttpRequest {
            method: "POST",
            url: format!("{}/sandbox/refunds", self.url),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("authorization", format!("Bearer {}", self.cron_token)),
            ],
            body: body.to_string(),
            timeout_ms: TIMEOUT_MS,
        };
        let answer = self.web.send(request).await.map_err(|error| Unknown::new(error.to_string()))?;
        match answer.is_success() {
            true => Ok(Refunded::Taken { refund: String::new() }),
            false => Err(Unknown::new(format!("the sandbox answered {}", answer.status))),
        }
    }
}
