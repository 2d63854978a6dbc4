//! `POST /api/payments/stripe`: verifies and parses Stripe's callbacks.

use domain::{
    http::routes::no_such_route,
    ids::OrderNo,
    stripe,
    webhook::{PaymentProvider, Reported, verify_stripe},
};
use platform::{
    clock,
    http::{ApiError, Request},
    random, settings,
};

use crate::signature::refusal;

/// Verifies and parses the callback; returns `None` for a type that this app does not use. `stripe_secret` may hold two
/// secrets during a rotation.
pub async fn parse_callback(request: &Request) -> Result<Option<Reported>, ApiError> {
    let secrets = settings::load(settings::STRIPE_SECRETS).await?;
    let secrets = secrets.as_deref().ok_or_else(no_such_route)?;
    let header = request.header("stripe-signature").unwrap_or_default();
    let now = clock::now();
    if !secrets.split_ascii_whitespace().any(|secret| verify_stripe(secret, &header, &request.body, now)) {
        return Err(refusal(PaymentProvider::Stripe).await?.into());
    }
    if let Some(dispute) = stripe::parse_dispute(&request.body)? {
        return Ok(Some(Reported::Dispute(dispute)));
    }
    let Some((mut callback, address)) = stripe::parse_event(&request.body)? else { return Ok(None) };
    if let (Some(address), Ok(order_no)) = (address, OrderNo::parse(&callback.order_no)) {
        let sealed = settings::load(settings::ADDRESS_CIPHER).await?.seal(&order_no, &address, random::bytes());
        callback.sealed_address =
            sealed.ok_or_else(|| ApiError::Unexpected("an address could not be sealed".to_owned()))?;
    }
    Ok(Some(Reported::Callback(callback)))
}
