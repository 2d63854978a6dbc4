//! `POST /api/payments/stripe`: Stripe's own signature and shapes.

use domain::{
    stripe,
    webhook::{Payment, verify_stripe},
};
use platform::{
    clock, config,
    http::{Call, Failure},
};

use crate::routes::unsigned;

/// The verified event, or `None` for one that means nothing to us. Two live secrets while rotating.
pub async fn event(call: &Call) -> Result<Option<Payment>, Failure> {
    let secrets = config::get("stripe_secret").await;
    let header = call.header("stripe-signature").unwrap_or_default();
    let now = clock::now();
    if !secrets.split_ascii_whitespace().any(|secret| verify_stripe(secret, header, &call.body, now)) {
        return Err(unsigned());
    }
    Ok(stripe::event(&call.body)?)
}
