//! Asks the function `health`, which alone has every variable, what is wrong with them (G7).

use domain::http::problem::Problem;
use platform::{http_client::SpinHttpClient, log, settings};
use serde_json::Value;
use stores::http_client::{HttpClient as _, HttpRequest};

const TIMEOUT_MS: i64 = 5_000;

/// Returns which variable is missing, weak or wrong. `None` also if `health` does not answer, which is logged: no answer
/// is no fault.
///
/// # Errors
/// `not_ready` if the variable `admin_token` is missing or weak.
pub async fn variables_fault() -> Result<Option<String>, Problem> {
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
        let document: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        let result = document.pointer("/checks/secrets").and_then(Value::as_str);
        result.map(str::to_owned).ok_or_else(|| format!("status {}, without checks", answer.status))
    });
    Ok(match checked {
        Ok(result) => Some(result).filter(|result| result != "ok"),
        Err(because) => {
            log::error("variables not checked", &[("because", because.into())]);
            None
        }
    })
}
