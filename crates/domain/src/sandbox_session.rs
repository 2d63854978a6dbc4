//! Payment sessions of the sandbox provider.
//!
//! A session is a signed text that contains all its data, so the sandbox stores nothing.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};

use crate::{ids::OrderNo, money::Money, secret, signer::Signer};

/// The payment that a session asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxSession {
    /// The order to pay.
    pub order_no: OrderNo,
    /// The amount to pay.
    pub money: Money,
}

impl SandboxSession {
    /// Encodes and signs the session. `None` if there is no secret.
    #[must_use]
    pub fn sign(&self, ticket_secret: &str) -> Option<String> {
        let Money { amount, currency } = &self.money;
        let body = BASE64_URL_SAFE_NO_PAD.encode(format!("{} {amount} {currency}", self.order_no));
        let signature = signer(ticket_secret)?.sign(&body);
        Some(format!("{body}.{signature}"))
    }

    /// Decodes a session. `None` if its signature is invalid or it is malformed.
    #[must_use]
    pub fn verify(ticket_secret: &str, text: &str) -> Option<Self> {
        let (body, signature) = text.split_once('.')?;
        if !signer(ticket_secret)?.verify(body, signature) {
            return None;
        }
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let mut parts = text.split(' ');
        Some(Self {
            order_no: OrderNo::parse(parts.next()?).ok()?,
            money: Money::new(parts.next()?.parse().ok()?, parts.next()?),
        })
    }
}

fn signer(ticket_secret: &str) -> Option<Signer> {
    Signer::new(secret::active(ticket_secret).next()?, "stampede sandbox session")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_round_trips_and_cannot_be_forged() {
        let order_no = OrderNo::parse("demo.01ARZ3NDEKTSV4RRFFQ69G5FAV").expect("an order number");
        let session = SandboxSession { order_no, money: Money::new(100, "EUR") };
        let text = session.sign("secret").expect("signed");
        assert_eq!(SandboxSession::verify("secret", &text), Some(session));
        assert_eq!(SandboxSession::verify("other", &text), None);
        assert_eq!(SandboxSession::verify("secret", &format!("A{text}")), None);
    }
}
