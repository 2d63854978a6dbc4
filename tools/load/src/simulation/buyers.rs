//! Prepares the buyers before the start: signs them in and fetches a ticket per visit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::header::HeaderValue;
use indicatif::ProgressBar;
use serde_json::json;
use tokio::task::JoinSet;

use super::context::IssuedTicket;
use super::setup::TestActivity;
use crate::app::App;
use crate::http::{Call, bearer};
use crate::identity::TokenSigner;
use crate::meter::Step;
use crate::target::Target;
use crate::wire::{SignInResponse, TicketResponse};

/// How long each of these requests is retried.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// Signs `count` buyers in: with the shared key if the app accepts it, otherwise at the sandbox.
pub async fn sign_in(
    app: &App,
    target: &Target,
    activity: &TestActivity,
    count: usize,
    bar: &ProgressBar,
) -> Result<Vec<HeaderValue>> {
    if let Some(settings) = &target.jwt {
        let signer = TokenSigner::new(settings.clone(), time::OffsetDateTime::now_utc().unix_timestamp());
        let probe = Call::get("/api/orders?limit=1").with_authorization(&bearer(&signer.sign(&activity.user_id(0))?)?);
        let response = app.send_with_retry(Step::SignIn, &probe, Instant::now() + RETRY_TIMEOUT).await?;
        if response.status == 200 {
            return (0..count)
                .inspect(|_| bar.inc(1))
                .map(|buyer| bearer(&signer.sign(&activity.user_id(buyer))?))
                .collect();
        }
    }
    let (app, activity, bar) = (app.clone(), activity.clone(), bar.clone());
    fan_out(count, move |buyer| {
        let (app, user, bar) = (app.clone(), activity.user_id(buyer), bar.clone());
        async move {
            let call = Call::post("/sandbox/sign-in", &json!({"user": user}));
            let response = app.send_with_retry(Step::SignIn, &call, Instant::now() + RETRY_TIMEOUT).await?;
            let signed_in: SignInResponse = response
                .error_for_status("signing in at the sandbox")
                .context(
                    "no way to sign buyers in: set SPIN_VARIABLE_JWT_KEY, _ISSUER and _AUDIENCE as the app has them, \
                     or start the app with its sandbox",
                )?
                .parse()?;
            bar.inc(1);
            bearer(&signed_in.token)
        }
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
    let path: Arc<str> = activity.path("/ticket").into();
    let (app, bar, count) = (app.clone(), bar.clone(), user_tokens.len());
    let user_tokens = Arc::new(user_tokens);
    fan_out(count, move |index| {
        let (app, bar) = (app.clone(), bar.clone());
        let call = Call::post(&*path, &json!({})).with_authorization(&user_tokens[index]);
        async move {
            let response = app.send_with_retry(Step::Ticket, &call, Instant::now() + RETRY_TIMEOUT).await?;
            let TicketResponse { ticket } = response.error_for_status("asking for a ticket")?.parse()?;
            bar.inc(1);
            Ok(IssuedTicket { bearer: bearer(&ticket)?, ticket })
        }
    })
    .await
}

/// Runs `count` jobs, up to 512 at a time (the client bounds the connections), and returns the results in order.
pub async fn fan_out<T, F, Fut>(count: usize, job: F) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T>> + Send + 'static,
{
    let job = Arc::new(job);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..count.min(512) {
        let (job, next) = (job.clone(), next.clone());
        workers.spawn(async move {
            let mut done = Vec::new();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return Ok::<_, anyhow::Error>(done);
                }
                done.push((index, job(index).await?));
            }
        });
    }
    let mut results = Vec::with_capacity(count);
    while let Some(worker) = workers.join_next().await {
        results.extend(worker.context("a worker broke")??);
    }
    results.sort_unstable_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_keep_their_order() {
        let squares = fan_out(1000, |n| async move {
            if n % 3 == 0 {
                tokio::task::yield_now().await;
            }
            Ok(n * n)
        });
        assert_eq!(squares.await.unwrap(), (0..1000).map(|n| n * n).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn one_failure_fails_all() {
        let outcome = fan_out(10, |n| async move { if n == 7 { anyhow::bail!("seven") } else { Ok(n) } });
        assert_eq!(outcome.await.unwrap_err().to_string(), "seven");
    }
}
