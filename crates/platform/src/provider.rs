//! The payment provider of the variables.

use domain::problem::{Code, Problem};
use workflows::payments::provider::{AnyProvider, Patience, Sandbox, Stripe};

use crate::{clock, config, http_client::SpinHttpClient, log};

/// The provider that `payment_provider` names, with what it needs, for somebody with so much `patience`.
///
/// # Errors
/// `not_ready`, with the cause in the log.
pub async fn provider(patience: Patience) -> Result<AnyProvider<SpinHttpClient>, Problem> {
    match &*config::get("payment_provider").await {
        "sandbox" => Ok(AnyProvider::Sandbox(Sandbox {
            web: SpinHttpClient,
            url: "http://sandbox.spin.internal".to_owned(),
            ticket_secret: config::get("ticket_secret").await.to_string(),
            cron_token: config::get("cron_token").await.to_string(),
        })),
        "stripe" => {
            let key = config::get("stripe_api_key").await;
            if key.trim().is_empty() {
                return Err(wrong("stripe_api_key", "is empty"));
            }
            Ok(AnyProvider::Stripe(Stripe {
                web: SpinHttpClient,
                api: config::get("stripe_api").await.trim_end_matches('/').to_owned(),
                key: key.trim().to_owned(),
                shop: config::get("shop_url").await.trim_end_matches('/').to_owned(),
                patience,
                clock: clock::now,
                pause: |ms| Box::pin(clock::pause(ms)),
            }))
        }
        _ => Err(wrong("payment_provider", "is neither sandbox nor stripe")),
    }
}

fn wrong(variable: &'static str, because: &'static str) -> Problem {
    log::error("refusing to serve", &[("variable", variable.into()), ("because", because.into())]);
    Problem::new(Code::NotReady, format!("The variable {variable} {because}.")).retry_after(60)
}
