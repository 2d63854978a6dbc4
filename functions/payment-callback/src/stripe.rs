//! `POST /api/payments/stripe`: verifies and parses Stripe's callbacks.

use domain::{
    stripe,
    webhook::{PaymentProvider, ProviderCallback, verify_stripe},
};
use platform::{
    clock, config,
    http::{ApiError, Request},
};

use crate::signature::{refusal, require_secret};

/// Verifies and parses the callback; returns `None` for a type that this app does not use. `stripe_secret` may hold two
/// secrets during a rotation.
pub async fn parse_callback(request: &Request) -> Result<Option<ProviderCallback>, ApiError> {
    require_secret(PaymentProvider::Stripe, "stripe_secret").await?;
    let secrets = config::stripe_secrets("stripe_secret").await?;
    let header = request.header("stripe-signature").unwrap_or_default();
    let now = clock::now();
    if !secrets.split_ascii_whitespace().any(|secret| verify_stripe(secret, &header, &request.body, now)) {
        return Err(refusal(PaymentProvider::Stripe).await?.into());
    }
    Ok(stripe::parse_event(&request.body)?)
}
