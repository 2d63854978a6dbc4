//! Payment sessions of the sandbox provider.
//!
//! A session is a signed text that contains all its data, so the sandbox stores nothing.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

use crate::{ids::OrderNo, money::Money, secret, signer::Signer, time::Millis};

/// The payment that a session asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSession {
    /// The order to pay.
    pub order_no: OrderNo,
    /// Its number among the order's sessions.
    pub number: i64,
    /// The amount to pay.
    pub money: Money,
    /// When it can no longer be paid. It follows from the order, so that a repeated checkout gets the same session.
    pub expires_at: Millis,
}

/// Lifetime of a session, in milliseconds: longer than any time to pay, so that late payments can be tried out.
const LIFETIME_MS: i64 = 24 * 3_600 * 1_000;

impl SandboxSession {
    /// The session of an order.
    #[must_use]
    pub fn new(order_no: OrderNo, number: i64, money: Money, created_at: Millis) -> Self {
        Self { order_no, number, money, expires_at: created_at.plus(LIFETIME_MS) }
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> String {
        format!("session_{}_{}", self.order_no.ulid(), self.number)
    }

    /// Encodes and signs the session. `None` if there is no secret.
    #[must_use]
    pub fn sign(&self, ticket_secret: &str) -> Option<String> {
        let Self { order_no, number, money: Money { amount, currency }, expires_at } = self;
        let body = BASE64_URL_SAFE_NO_PAD.encode(format!("{order_no} {number} {amount} {currency} {}", expires_at.0));
        let signature = signer(ticket_secret)?.sign(&body);
        Some(format!("{body}.{signature}"))
    }

    /// Decodes a session. `None` if its signature is invalid, it is malformed, or it has expired.
    #[must_use]
    pub fn verify(ticket_secret: &str, text: &str, now: Millis) -> Option<Self> {
        let (body, signature) = text.split_once('.')?;
        if !signer(ticket_secret)?.verify(body, signature) {
            return None;
        }
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let mut parts = text.split(' ');
        let session = Self {
            order_no: OrderNo::parse(parts.next()?).ok()?,
            number: parts.next()?.parse().ok()?,
            money: Money::new(parts.next()?.parse().ok()?, parts.next()?),
            expires_at: Millis(parts.next()?.parse().ok()?),
        };
        (now < session.expires_at).then_some(session)
    }
}

fn signer(ticket_secret: &str) -> Option<Signer> {
    Signer::new(secret::active(ticket_secret).next()?, "stampede sandbox session")
}
