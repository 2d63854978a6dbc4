//! `POST /api/payments/stripe`: verifies and parses Stripe's callbacks.

use domain::{
    http::routes::no_such_route,
    stripe,
    webhook::{PaymentProvider, ProviderCallback, verify_stripe},
};
use platform::{
    clock,
    http::{ApiError, Request},
    settings,
};

use crate::signature::refusal;

/// Verifies and parses the callback; returns `None` for a type that this app does not use. `stripe_secret` may hold two
/// secrets during a rotation.
pub async fn parse_callback(request: &Request) -> Result<Option<ProviderCallback>, ApiError> {
    let secrets = settings::load(settings::STRIPE_SECRETS).await?;
    let secrets = secrets.as_deref().ok_or_else(no_such_route)?;
    let header = request.header("stripe-signature").unwrap_or_default();
    let now = clock::now();
    if !secrets.split_ascii_whitespace().any(|secret| verify_stripe(secret, &header, &request.body, now)) {
        return Err(refusal(PaymentProvider::Stripe).await?.into());
    }
    Ok(stripe::parse_event(&request.body)?)
}
