//! Hosted human checks (B5): the widget for the page, and its token at the provider.

use std::{cell::Cell, rc::Rc};

use domain::{
    api::admission::{HostedChallenge, HostedCheck},
    http::problem::{Code, Problem},
    log_limit::LogLimit,
    siteverify::{self, ACTION, HostedChecks, Verdict},
    time::Millis,
};
use platform::{
    http::{ApiError, Request},
    http_client::SpinHttpClient,
    log, request_address, settings,
    siteverify::Siteverify,
};
use sale::admission::CheckOutcome;
use serde_json::{Value, json};

use crate::human_check::{CheckResult, check_failed};

thread_local! {
    static SILENT_AT: Rc<Cell<Option<Millis>>> = Rc::default();
    /// Visitors can send tokens that make the provider complain.
    static UNKNOWN: LogLimit = const { LogLimit::new(60_000) };
}

/// Returns what the page needs to show the provider's widget.
pub async fn challenge() -> Result<Value, ApiError> {
    let checks = settings::load(HostedChecks::parse).await?;
    let (script, site_key) = (&*checks.script, &*checks.site_key);
    Ok(json!(HostedChallenge { hosted: HostedCheck { script, site_key, action: ACTION } }))
}

/// Asks the provider about the widget's token.
///
/// # Errors
/// `not_ready` if the provider does not answer, or if it refuses the call itself; the reason is logged, once a minute.
pub async fn verify(request: &Request, token: &str, now: Millis) -> Result<CheckResult, ApiError> {
    let checks = settings::load(HostedChecks::parse).await?;
    let client = request_address::whole_address(request).await?;
    let silent_at = SILENT_AT.with(Rc::clone);
    let provider = Siteverify {
        http_client: SpinHttpClient,
        url: &checks.url,
        secret: &checks.secret,
        hostnames: &checks.hostnames,
        silent_at: &silent_at,
    };
    let unknown = || {
        let detail = "The check cannot be verified right now. Solve it again in a moment.";
        Problem::new(Code::NotReady, detail).retry_after(5)
    };
    match provider.verify(token, client, now).await {
        // The provider accepts a token once; the record refuses it here, too.
        Verdict::Passed => Ok(CheckResult {
            outcome: CheckOutcome::Passed(siteverify::record(token, now)),
            detail: "The check was used before. Ask for a new one.",
        }),
        Verdict::Failed => {
            Ok(CheckResult { outcome: CheckOutcome::Failed(None), detail: "The check was not solved. Solve it again." })
        }
        // No abuse: the visitor may have repeated a request whose reply was lost.
        Verdict::Spent => Err(check_failed("The check was used before, or is too old. Solve it again.").into()),
        Verdict::Unknown(reason) => {
            if let Some(number) = UNKNOWN.with(|limit| limit.count(now)) {
                log::error("human check not verified", &[("because", reason.into()), ("number", number.into())]);
            }
            Err(unknown().into())
        }
        Verdict::NotAsked => Err(unknown().into()),
    }
}
