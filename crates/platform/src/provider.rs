//! Builds the payment providers from the variables.

use domain::{http::problem::Problem, webhook::PaymentProvider};
use payments::provider::{Caller, Providers, RetryPolicy, Stripe, Webhook};

use crate::{
    clock,
    config::{self, misconfigured},
    http_client::SpinHttpClient,
};

/// Where the sandbox takes the calls of a payment service.
const SANDBOX_URL: &str = "http://sandbox.spin.internal/sandbox/payments";

/// Returns the providers whose variables are set: the one that `payment_provider` names, and others that still have
/// orders. `retry` sets the timeout and the attempts of a call.
///
/// # Errors
/// `not_ready` if `payment_provider` names no provider, or one whose variables are empty or weak; the variable is logged.
/// The variables of other providers are not checked.
pub async fn from_config(retry: RetryPolicy) -> Result<Providers<SpinHttpClient>, Problem> {
    let configured = configured().await?;
    let caller =
        Caller { http_client: SpinHttpClient, retry, clock: clock::now, sleep: |ms| Box::pin(clock::sleep(ms)) };
    let shop_url = config::get("shop_url").await.trim_end_matches('/').to_owned();
    let (name, url) = match configured {
        PaymentProvider::Sandbox => (configured, SANDBOX_URL.to_owned()),
        _ => (PaymentProvider::Webhook, config::get("payments_url").await.trim().to_owned()),
    };
    let secrets = match configured {
        PaymentProvider::Stripe => config::get("webhook_secrets").await,
        _ => config::webhook_secrets("webhook_secrets").await?,
    };
    let (api_key, api_url) = (config::get("stripe_api_key").await, config::get("stripe_api").await);
    let (api_key, api_url) = (api_key.trim().to_owned(), api_url.trim_end_matches('/').to_owned());
    let missing = match configured {
        PaymentProvider::Webhook if url.is_empty() => Some("payments_url"),
        PaymentProvider::Stripe if api_key.is_empty() => Some("stripe_api_key"),
        _ => None,
    };
    if let Some(variable) = missing {
        return Err(misconfigured(variable, "is empty"));
    }
    let webhook =
        Webhook { name, caller: caller.clone(), url, secrets: secrets.to_string(), shop_url: shop_url.clone() };
    let payment_methods = config::get("stripe_payment_methods").await.to_string();
    let stripe = Stripe { caller, api_url, api_key, payment_methods, shop_url };
    Ok(Providers {
        configured,
        webhook: (!webhook.url.is_empty()).then_some(webhook),
        stripe: (!stripe.api_key.is_empty()).then_some(stripe),
    })
}

/// Returns the provider that the variable `payment_provider` names.
///
/// # Errors
/// `not_ready` if it names none; the variable is logged.
pub async fn configured() -> Result<PaymentProvider, Problem> {
    PaymentProvider::parse(&config::get("payment_provider").await)
        .ok_or_else(|| misconfigured("payment_provider", "is none of sandbox, webhook and stripe"))
}
