//! Refusals of callbacks that do not verify.

use domain::{
    http::{
        problem::{Code, Problem},
        routes::no_such_route,
    },
    webhook::PaymentProvider,
};
use platform::settings;

/// Returns the refusal of a callback of `provider` whose signature does not verify: `signature_invalid` if the provider
/// is configured. The route of another provider does not exist, except for callbacks about orders that it opened.
///
/// # Errors
/// `not_ready` if `payment_provider` is wrong.
pub async fn refusal(provider: PaymentProvider) -> Result<Problem, Problem> {
    if *settings::load(settings::PAYMENT_PROVIDER).await? == provider {
        let detail = "The signature does not hold for this body, secret and time.";
        return Ok(Problem::new(Code::SignatureInvalid, detail));
    }
    Ok(no_such_route())
}
