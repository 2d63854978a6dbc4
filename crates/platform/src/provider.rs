//! Builds the payment providers from the settings.

use std::rc::Rc;

use domain::{http::problem::Problem, webhook::PaymentProvider};
use payments::provider::{Caller, Providers, RetryPolicy, SealAddress, Stripe, Webhook};

use crate::{
    clock,
    http_client::SpinHttpClient,
    random,
    settings::{self, PaymentSettings},
};

/// Where the sandbox takes the calls of a payment service.
const SANDBOX_URL: &str = "http://sandbox.spin.internal/sandbox/payments";

/// Returns the providers whose variables are set: the configured one, and others that still have orders. `retry` sets the
/// timeout and the attempts of a call.
///
/// # Errors
/// `not_ready` if the variables of the configured provider are empty or weak.
pub async fn from_settings(retry: RetryPolicy) -> Result<Providers<SpinHttpClient>, Problem> {
    let settings = settings::load(PaymentSettings::parse).await?;
    let shop_url = settings::load(settings::SHOP_URL).await?.to_string();
    let caller =
        Caller { http_client: SpinHttpClient, retry, clock: clock::now, sleep: |ms| Box::pin(clock::sleep(ms)) };
    let configured = settings.provider;
    let (name, url) = match configured {
        PaymentProvider::Sandbox => (configured, SANDBOX_URL.to_owned()),
        _ => (PaymentProvider::Webhook, settings.payments_url.clone()),
    };
    let secrets = settings.webhook_secrets.to_string();
    let webhook = Webhook { name, caller: caller.clone(), url, secrets, shop_url: shop_url.clone() };
    let (api_key, api_url) = (settings.stripe_api_key.clone(), settings.stripe_api.clone());
    let payment_methods = settings.stripe_payment_methods.to_string();
    let shipping_countries = settings.stripe_shipping_countries.clone();
    let cipher = settings::find(settings::ADDRESS_CIPHER).await.ok();
    let seal: SealAddress = Rc::new(move |order_no, address| cipher.as_ref()?.seal(order_no, address, random::bytes()));
    let stripe = Stripe { caller, api_url, api_key, payment_methods, shop_url, shipping_countries, seal };
    Ok(Providers {
        configured,
        webhook: (!webhook.url.is_empty()).then_some(webhook),
        stripe: (!stripe.api_key.is_empty()).then_some(stripe),
    })
}
