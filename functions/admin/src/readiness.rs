//! Asks the function `health`, which alone has every variable, what is wrong with them (G7).

use domain::http::problem::Problem;
use platform::{http_client::SpinHttpClient, log, settings};
use serde_json::{Map, Value};
use stores::http_client::{HttpClient as _, HttpRequest};

const TIMEOUT_MS: i64 = 5_000;

/// Returns which variable is missing, weak or wrong. `None` also if `health` does not answer, which is logged: no answer
/// is no fault.
///
/// # Errors
/// `not_ready` if the variable `admin_token` is missing or weak.
pub async fn variables_fault() -> Result<Option<String>, Problem> {
    Ok(checks().await?.and_then(|mut checks| fault(checks.remove("secrets"))))
}

/// Returns which checks fail, but for that of events, and why; none if `health` does not answer.
///
/// # Errors
/// As [`variables_fault`].
pub async fn faults() -> Result<Vec<String>, Problem> {
    let checks = checks().await?.unwrap_or_default().into_iter().filter(|(check, _)| check != "events");
    Ok(checks.filter_map(|(check, result)| Some(format!("{check}: {}", fault(Some(result))?))).collect())
}

fn fault(result: Option<Value>) -> Option<String> {
    result?.as_str().filter(|result| *result != "ok").map(str::to_owned)
}

async fn checks() -> Result<Option<Map<String, Value>>, Problem> {
    let token = settings::load(settings::ADMIN_TOKEN).await?;
    let request = HttpRequest {
        method: "GET",
        url: "http://health.spin.internal/readyz".to_owned(),
        headers: vec![("authorization", format!("Bearer {token}"))],
        body: String::new(),
        timeout_ms: TIMEOUT_MS,
    };
    let answer = SpinHttpClient.send(request).await.map_err(|error| error.to_string());
    let checked = answer.and_then(|answer| {
        let mut document: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        match document["checks"].take() {
            Value::Object(checks) => Ok(checks),
            _ => Err(format!("status {}, without checks", answer.status)),
        }
    });
    let log_error = |because: &String| log::error("variables not checked", &[("because", because.as_str().into())]);
    Ok(checked.inspect_err(log_error).ok())
}
