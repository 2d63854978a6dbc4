//! Builds the payment provider from the variables.

use domain::{problem::Problem, webhook::PaymentProvider};
use workflows::payments::provider::{AnyProvider, RetryPolicy, Sandbox, Stripe};

use crate::{
    clock,
    config::{self, misconfigured},
    http_client::SpinHttpClient,
};

/// Returns the provider that the variable `payment_provider` names. `retry` sets Stripe's timeout and attempts.
///
/// # Errors
/// `not_ready` if `payment_provider` names no provider, or if it is `stripe` and `stripe_api_key` is empty; the
/// variable is logged. The other variables are not checked.
pub async fn from_config(retry: RetryPolicy) -> Result<AnyProvider<SpinHttpClient>, Problem> {
    match configured().await? {
        PaymentProvider::Sandbox => Ok(AnyProvider::Sandbox(Sandbox {
            http_client: SpinHttpClient,
            base_url: "http://sandbox.spin.internal".to_owned(),
            ticket_secret: config::get("ticket_secret").await.to_string(),
            cron_token: config::get("cron_token").await.to_string(),
        })),
        PaymentProvider::Stripe => {
            let key = config::get("stripe_api_key").await;
            if key.trim().is_empty() {
                return Err(misconfigured("stripe_api_key", "is empty"));
            }
            Ok(AnyProvider::Stripe(Stripe {
                http_client: SpinHttpClient,
                api_url: config::get("stripe_api").await.trim_end_matches('/').to_owned(),
                api_key: key.trim().to_owned(),
                shop_url: config::get("shop_url").await.trim_end_matches('/').to_owned(),
                retry,
                clock: clock::now,
                sleep: |ms| Box::pin(clock::sleep(ms)),
            }))
        }
    }
}

/// Returns the provider that the variable `payment_provider` names.
///
/// # Errors
/// `not_ready` if it names none; the variable is logged.
pub async fn configured() -> Result<PaymentProvider, Problem> {
    PaymentProvider::parse(&config::get("payment_provider").await)
        .ok_or_else(|| misconfigured("payment_provider", "is neither sandbox nor stripe"))
}
