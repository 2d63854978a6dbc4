//! Refusals of callbacks that do not verify.

use domain::{
    http::{
        problem::{Code, Problem},
        routes::no_such_route,
    },
    webhook::PaymentProvider,
};
use platform::{config, provider};

/// Returns the refusal of a callback of `provider` whose signature does not verify: `signature_invalid` if the provider
/// is configured. The route of another provider does not exist, except for callbacks about orders that it opened.
///
/// # Errors
/// `not_ready` if `payment_provider` is wrong.
pub async fn refusal(provider: PaymentProvider) -> Result<Problem, Problem> {
    if provider::configured().await? == provider {
        let detail = "The signature does not hold for this body, secret and time.";
        return Ok(Problem::new(Code::SignatureInvalid, detail));
    }
    Ok(no_such_route())
}

/// Returns `not_found` if `provider` is neither configured nor has a secret in the variable `name`.
///
/// # Errors
/// That, or `not_ready` if `payment_provider` is wrong.
pub async fn require_secret(provider: PaymentProvider, name: &'static str) -> Result<(), Problem> {
    let is_configured = provider::configured().await? == provider;
    if is_configured || !config::get(name).await.trim().is_empty() { Ok(()) } else { Err(no_such_route()) }
}
