//! `POST /api/payments/stripe`: Stripe's own signature and shapes.

use domain::{
    stripe,
    webhook::{ProviderEvent, verify_stripe},
};
use platform::{
    clock, config,
    http::{ApiError, Request},
};

use crate::routes::signature_invalid;

/// The verified event, or `None` for one that means nothing to us. Two live secrets while rotating.
pub async fn event(request: &Request) -> Result<Option<ProviderEvent>, ApiError> {
    let secrets = config::get("stripe_secret").await;
    let header = request.header("stripe-signature").unwrap_or_default();
    let now = clock::now();
    if !secrets.split_ascii_whitespace().any(|secret| verify_stripe(secret, header, &request.body, now)) {
        return Err(signature_invalid());
    }
    Ok(stripe::parse_event(&request.body)?)
}
