//! Prepares the buyers before the start: signs them in and fetches a ticket per visit.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::header::HeaderValue;
use indicatif::ProgressBar;
use serde_json::json;

use super::{context::IssuedTicket, setup::TestActivity};
use crate::{
    app::App,
    http::{Call, bearer},
    meter::Step,
    sign_in::BuyerTokens,
    target::Target,
};

/// How long each of these requests is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Signs buyers in: with given tokens, with a key if the app accepts it, otherwise at the sandbox.
pub async fn sign_in(
    app: &App,
    target: &Target,
    activity: &TestActivity,
    buyers: Range<usize>,
    bar: &ProgressBar,
) -> Result<Vec<HeaderValue>> {
    if let Some(tokens) = &target.tokens {
        let sign = |buyer: usize| match tokens {
            BuyerTokens::Given(tokens) => {
                let token = tokens.get(buyer).context("--tokens has fewer tokens than --buyers")?;
                bearer(token)
            }
            BuyerTokens::Signed(settings) => bearer(&settings.sign(&activity.user_id(buyer))?),
        };
        let probe = Call::get("/api/orders?limit=1").with_authorization(&sign(buyers.start)?);
        let response = app.send_with_retry(Step::SignIn, &probe, Instant::now() + RETRY_TIMEOUT).await?;
        if response.status == 200 || !tokens.is_shared_key() {
            response.error_for_status("the first buyer's token")?;
            return buyers.inspect(|_| bar.inc(1)).map(sign).collect();
        }
    }
    fan_out(buyers.len(), async |index| {
        let buyer = buyers.start + index;
        let call = Call::post("/sandbox/sign-in", &json!({"user": activity.user_id(buyer)}));
        let response = app.send_with_retry(Step::SignIn, &call, Instant::now() + RETRY_TIMEOUT).await?;
        let response = response.error_for_status("signing in at the sandbox").context(
            "no way to sign buyers in: pass --tokens FILE, one test user a line; or, where jwt_algorithm is HS256, set \
             SPIN_VARIABLE_JWT_KEY, _ISSUER and _AUDIENCE as the app has them",
        )?;
        bar.inc(1);
        bearer(&response.text("token")?)
    })
    .await
}

/// Fetches a ticket for each entry of `user_tokens` (each a `Bearer <JWT>`).
pub async fn fetch_tickets(
    app: &App,
    activity: &TestActivity,
    user_tokens: Vec<HeaderValue>,
    bar: &ProgressBar,
) -> Result<Vec<IssuedTicket>> {
    fan_out(user_tokens.len(), async |index| {
        let call = Call::post(activity.path("/ticket"), &json!({})).with_authorization(&user_tokens[index]);
        let response = app.send_with_retry(Step::Ticket, &call, Instant::now() + RETRY_TIMEOUT).await?;
        let ticket = response.error_for_status("asking for a ticket")?.text("ticket")?;
        bar.inc(1);
        Ok(IssuedTicket { bearer: bearer(&ticket)?, ticket })
    })
    .await
}

/// Runs `count` jobs, up to 512 at a time (the client bounds the connections), and returns the results in order.
pub async fn fan_out<T>(count: usize, job: impl AsyncFn(usize) -> Result<T>) -> Result<Vec<T>> {
    stream::iter(0..count).map(|index| job(index)).buffered(512).try_collect().await
}
