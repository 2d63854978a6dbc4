//! Liveness and readiness, with the state of each store (G6).

use domain::{
    problem::{Code, Problem},
    secret,
};
use platform::{
    config,
    http::{ApiError, Response},
    key_value,
    ledger::SpinLedger,
    redis::SpinRedis,
};
use serde_json::{Value, json};
use workflows::{Redis, Sql, StoreError, ledger::schema, ports::RedisValue};

/// Handles `GET /healthz`: this instance handles requests.
pub fn live() -> Response {
    Response::json(200, &json!({ "status": "ok" }))
}

/// Handles `GET /readyz`: `200` if every store works and [`secrets`] finds no fault, else `503` with the failed checks.
pub async fn ready() -> Result<Response, ApiError> {
    let checks = [
        ("redis", redis().await),
        ("ledger", ledger().await),
        ("key_value", key_value().await),
        ("secrets", secrets().await),
    ];
    let failures: Vec<_> =
        checks.iter().filter_map(|(name, check)| Some(format!("{name}: {}", check.as_ref().err()?))).collect();
    let checks: serde_json::Map<String, Value> = checks
        .into_iter()
        .map(|(name, check)| (name.to_owned(), Value::from(check.err().unwrap_or_else(|| "ok".to_owned()))))
        .collect();
    if failures.is_empty() {
        return Ok(Response::json(200, &json!({ "status": "ready", "checks": checks })));
    }
    let mut problem = Problem::new(Code::NotReady, format!("{}.", failures.join("; "))).retry_after(2);
    problem.extensions.push(("checks", checks.into()));
    Err(problem.into())
}

/// Checks that Redis is reachable and writable, has memory left, persists its data and evicts nothing. A setting that
/// the server does not show passes.
async fn redis() -> Result<(), String> {
    let items = SpinRedis.command("INFO", Vec::new()).await.map_err(|error| match &error {
        StoreError::RedisUnavailable(text) if text.contains("NOAUTH") || text.contains("AuthenticationFailed") => {
            "asks for a password, or for another one: put it into the variable redis_url".to_owned()
        }
        _ => summary(&error),
    })?;
    let text = items.iter().find_map(|item| match item {
        RedisValue::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    });
    let text = text.unwrap_or_default();
    let setting = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if setting("role") == Some("slave") {
        return Err("is a read-only replica: point the app at the master, or send it 'replicaof no one'".to_owned());
    }
    if setting("aof_enabled") == Some("0") {
        return Err("appendonly is off: set 'appendonly yes' in redis.conf".to_owned());
    }
    if let Some(policy) = setting("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        return Err(format!("maxmemory-policy is {policy}: set 'maxmemory-policy noeviction' in redis.conf"));
    }
    let bytes = |name| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    match (bytes("used_memory"), bytes("maxmemory")) {
        (used, limit) if limit > 0 && used >= limit => {
            Err(format!("is full: it uses {used} bytes, and maxmemory is {limit}: raise it"))
        }
        _ => Ok(()),
    }
}

/// Checks that the ledger is reachable and has the schema of this release. Migrates it first, because the statement
/// that reads its version does not.
async fn ledger() -> Result<(), String> {
    let ledger = SpinLedger::open().await;
    schema::migrate(&ledger).await.map_err(|error| summary(&error))?;
    let (current, required) = (
        schema::current_version(&ledger).await.map_err(|error| summary(&error))?,
        schema::required_version(ledger.dialect()),
    );
    if current == required {
        Ok(())
    } else {
        Err(format!("the schema is version {current}, this app needs {required}"))
    }
}

async fn key_value() -> Result<(), String> {
    key_value::set("ready", b"1").await;
    if key_value::get("ready").await.is_some() { Ok(()) } else { Err("not reachable".to_owned()) }
}

/// Checks that each required secret is set and strong. A `jwt_key` in PEM or JWK form, Stripe's secrets and
/// `events_secret` must only be set, the latter ones if they are used.
async fn secrets() -> Result<(), String> {
    for name in ["ticket_secret", "jwt_key", "admin_token", "cron_token", "address_key"] {
        let value = config::get(name).await;
        let weak = value.split_ascii_whitespace().find_map(secret::weakness);
        let weak = if value.trim().is_empty() { Some("is empty") } else { weak };
        if let Some(weakness) = weak.filter(|_| !value.contains("-----BEGIN") && !value.starts_with('{')) {
            return Err(format!("the variable {name} {weakness}"));
        }
    }
    if !config::get("events_url").await.is_empty() && config::get("events_secret").await.trim().is_empty() {
        return Err("the variable events_secret is empty, and events_url is not".to_owned());
    }
    if &*config::get("payment_provider").await == "stripe" {
        for name in ["stripe_api_key", "stripe_secret"] {
            if config::get(name).await.trim().is_empty() {
                return Err(format!("the variable {name} is empty, and payment_provider is stripe"));
            }
        }
    }
    let webhook_secrets = config::get("webhook_secrets").await;
    if webhook_secrets.trim().is_empty() {
        return Err("the variable webhook_secrets is empty".to_owned());
    }
    for entry in webhook_secrets.split_ascii_whitespace() {
        let Some(key) = entry.strip_prefix("whsec_") else {
            return Err("the variable webhook_secrets holds an entry that does not begin with whsec_".to_owned());
        };
        if let Some(weakness) = secret::weakness(key) {
            return Err(format!("the variable webhook_secrets holds an entry that {weakness}"));
        }
    }
    Ok(())
}

/// Describes an error without its text, which may contain the store's internals: `/readyz` needs no token. The text is
/// not logged here.
fn summary(error: &StoreError) -> String {
    match error {
        StoreError::RedisUnavailable(_) | StoreError::LedgerUnavailable(_) => "not reachable".to_owned(),
        _ => "answers with an error".to_owned(),
    }
}
