//! Liveness and readiness, with the state of each store (G6).

use std::rc::Rc;

use domain::{
    api::{Checks, Live, Ready},
    http::problem::{Code, Problem},
};
use operations::commands::readiness;
use platform::{
    auth,
    http::{ApiError, Request, Response},
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    redis::SpinRedis,
    settings,
    single_flight::Cached,
};
use stores::{Sql, StoreError, ledger::schema, ports::KeyValue};

/// Handles `GET /healthz`: this instance handles requests.
pub fn live() -> Response {
    Response::json(200, &Live { status: "ok" })
}

struct Readiness {
    checks: Checks,
    /// `<check>: <what is wrong>`.
    failures: Vec<String>,
}

thread_local! {
    static READINESS: Rc<Cached<Rc<Readiness>>> = Rc::default();
}

/// Handles `GET /readyz`: `200` if every store works and the secrets have no fault, else `503`. Only a caller with the
/// admin or metrics token learns the result of each check. For other callers, of whom there may be any number, an
/// instance checks once a second.
pub async fn ready(request: &Request) -> Result<Response, ApiError> {
    let shows_details = auth::may_monitor(request).await;
    let check = async || Ok::<_, ApiError>(Rc::new(Readiness::check().await));
    let readiness = if shows_details { check().await? } else { READINESS.with(Rc::clone).get_or_fetch(check).await? };
    let Readiness { checks, failures } = &*readiness;
    let checks = shows_details.then(|| checks.clone());
    if failures.is_empty() {
        return Ok(Response::json(200, &Ready { status: "ready", checks }));
    }
    let detail =
        if shows_details { failures.join("; ") } else { "Not ready: ask with a token for the reason".to_owned() };
    let mut problem = Problem::new(Code::NotReady, format!("{detail}.")).retry_after(2);
    problem.extensions.checks = checks;
    Err(problem.into())
}

impl Readiness {
    async fn check() -> Self {
        let mut failures = Vec::new();
        let mut result_of = |name: &str, check: Result<(), String>| match check {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                failures.push(format!("{name}: {error}"));
                error
            }
        };
        let variables = settings::find(settings::check).await;
        let checks = Checks {
            redis: result_of("redis", redis().await),
            ledger: result_of("ledger", ledger().await),
            key_value: result_of("key_value", key_value().await),
            // All variables, secrets among them.
            secrets: result_of("secrets", variables.map(drop).map_err(|fault| fault.to_string())),
            events: events().await.unwrap_or("ok").to_owned(),
        };
        Self { checks, failures }
    }
}

/// Checks that Redis is reachable, each server of a cluster, and its settings.
async fn redis() -> Result<(), String> {
    let fault = |error: StoreError| match &error {
        StoreError::RedisUnavailable(text) if text.contains("NOAUTH") || text.contains("AuthenticationFailed") => {
            "asks for a password, or for another one: put it into the variable redis_url".to_owned()
        }
        _ => summary(&error),
    };
    let is_replicated = settings::find(settings::REDIS_IS_REPLICATED).await.map_err(|fault| fault.to_string())?;
    for (server, info) in SpinRedis.info().await.map_err(fault)? {
        let found = info.map_or_else(|error| Some(fault(error)), |info| readiness::redis_fault(&info, *is_replicated));
        if let Some(fault) = found {
            return Err(format!("{server} {fault}").trim_start().to_owned());
        }
    }
    Ok(())
}

/// Checks that the ledger is reachable, has the schema of this release, and connections left. Migrates it first, because
/// the statement that reads its version does not.
async fn ledger() -> Result<(), String> {
    let fault = |error: StoreError| readiness::refused_connection_fault(&error).unwrap_or_else(|| summary(&error));
    let ledger = SpinLedger::open().await;
    schema::migrate(&ledger).await.map_err(fault)?;
    let current = schema::current_version(&ledger).await.map_err(fault)?;
    let required = schema::required_version(ledger.dialect());
    if current != required {
        return Err(format!("the schema is version {current}, this app needs {required}"));
    }
    readiness::connections_fault(&ledger).await.map_err(fault)?.map_or(Ok(()), Err)
}

/// What the shop's endpoint for events answered last, if that needs an operator.
async fn events() -> Option<&'static str> {
    let url = settings::find(settings::EVENTS_URL).await.ok().filter(|url| !url.is_empty())?;
    readiness::events_fault(&SpinLedger::open().await, &url).await
}

async fn key_value() -> Result<(), String> {
    SpinKeyValue.write_copy("ready", b"1").await;
    if SpinKeyValue.read_copy("ready").await.is_some() { Ok(()) } else { Err("not reachable".to_owned()) }
}

/// Describes an error without its text, which may contain the store's internals. The text is not logged here.
fn summary(error: &StoreError) -> String {
    match error {
        StoreError::RedisUnavailable(_) | StoreError::LedgerUnavailable(_) => "not reachable".to_owned(),
        _ => "answers with an error".to_owned(),
    }
}
