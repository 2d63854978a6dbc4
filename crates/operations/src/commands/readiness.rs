//! Checks of the settings without which the app must not serve (G6, G7).

use domain::{
    branding::Branding,
    http::cors::AllowedOrigins,
    jwt::key_set::KeySetVerifier,
    legal_links::LegalLinks,
    operators::Operators,
    secret,
    sign_in::{SignInSettings, keys_url_fault},
    siteverify,
    webhook::PaymentProvider,
};

use crate::upkeep::sweep::parse_days;

/// The variables that [`secrets_fault`] reads.
pub const VARIABLES: [&str; 41] = [
    "ledger",
    "ticket_secret",
    "jwt_algorithm",
    "jwt_key",
    "jwt_jwks_url",
    "jwt_issuer",
    "jwt_audience",
    "sign_in_url",
    "session_url",
    "oidc_issuer",
    "oidc_client_id",
    "oidc_scope",
    "oidc_origins",
    "admin_token",
    "cron_token",
    "metrics_token",
    "operator_tokens",
    "address_key",
    "events_url",
    "events_secret",
    "payment_provider",
    "payments_url",
    "stripe_api_key",
    "stripe_secret",
    "webhook_secrets",
    "sandbox",
    "trusted_hops",
    "cors_origins",
    "legal_links",
    "shop_name",
    "shop_logo",
    "shop_color",
    "shop_texts",
    "siteverify_url",
    "siteverify_secret",
    "siteverify_site_key",
    "siteverify_script",
    "siteverify_origins",
    "siteverify_hostnames",
    "retention_days",
    "address_retention_days",
];

/// Returns what is wrong with a Redis server, from its reply to `INFO`: it must be writable, have memory left, persist
/// its data and evict nothing. A setting that the server does not show passes.
#[must_use]
pub fn redis_fault(info: &str) -> Option<String> {
    let setting = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    if setting("role") == Some("slave") {
        return Some("is a read-only replica: point the app at the master, or send it 'replicaof no one'".to_owned());
    }
    if setting("aof_enabled") == Some("0") {
        return Some("appendonly is off: set 'appendonly yes' in redis.conf".to_owned());
    }
    if let Some(policy) = setting("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        return Some(format!("maxmemory-policy is {policy}: set 'maxmemory-policy noeviction' in redis.conf"));
    }
    let bytes = |name| setting(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
    let (used, limit) = (bytes("used_memory"), bytes("maxmemory"));
    (limit > 0 && used >= limit).then(|| format!("is full: it uses {used} bytes, and maxmemory is {limit}: raise it"))
}

/// Returns which of the [`VARIABLES`] lacks a secret or has a weak one. A `jwt_key` of another
/// algorithm than HS256 and Stripe's API key must only be set, Stripe's API key if it is used.
#[must_use]
pub fn secrets_fault<T: AsRef<str>>(variable: impl Fn(&str) -> T) -> Option<String> {
    for name in ["ticket_secret", "jwt_key", "admin_token", "cron_token", "address_key"] {
        let value = variable(name);
        let value = value.as_ref();
        let is_structured = name == "jwt_key" && variable("jwt_algorithm").as_ref() != "HS256";
        let is_published = name == "jwt_key" && !variable("jwt_jwks_url").as_ref().is_empty();
        if let Some(fault) = secret::fault(value).filter(|_| !is_structured && !is_published) {
            return Some(format!("the variable {name} {fault}"));
        }
    }
    if let Some(fault) = published_keys_fault(&variable).or_else(|| sign_in_fault(&variable)) {
        return Some(fault);
    }
    let ledger = variable("ledger");
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| ledger.as_ref().starts_with(scheme));
    if ledger.as_ref() != "sqlite" && !is_url {
        return Some("the variable ledger is neither sqlite nor the URL of a database, without quotes".to_owned());
    }
    let is_empty = |name| variable(name).as_ref().trim().is_empty();
    if let Some(fault) = secret::fault(variable("metrics_token").as_ref()).filter(|_| !is_empty("metrics_token")) {
        return Some(format!("the variable metrics_token {fault}"));
    }
    if let Err(fault) = Operators::parse("", variable("operator_tokens").as_ref()) {
        return Some(format!("the variable operator_tokens {fault}"));
    }
    if variable("trusted_hops").as_ref().trim().parse::<usize>().is_err() {
        return Some("the variable trusted_hops is not a number".to_owned());
    }
    if let Err(fault) = AllowedOrigins::parse(variable("cors_origins").as_ref()) {
        return Some(format!("the variable cors_origins {fault}"));
    }
    if let Err(fault) = LegalLinks::parse(variable("legal_links").as_ref()) {
        return Some(format!("the variable legal_links {fault}"));
    }
    if let Err((name, fault)) = Branding::parse(&variable) {
        return Some(format!("the variable {name} {fault}"));
    }
    if let Some((name, fault)) = siteverify::fault(&variable) {
        return Some(format!("the variable {name} {fault}"));
    }
    for name in ["retention_days", "address_retention_days"] {
        if let Err(fault) = parse_days(variable(name).as_ref()) {
            return Some(format!("the variable {name} {fault}"));
        }
    }
    let Some(provider) = PaymentProvider::parse(variable("payment_provider").as_ref()) else {
        return Some("the variable payment_provider is none of sandbox, webhook and stripe".to_owned());
    };
    if provider != PaymentProvider::Sandbox && variable("sandbox").as_ref() == "on" {
        return Some("the variable sandbox is on, and payment_provider is not sandbox: set sandbox to off".to_owned());
    }
    let is_url =
        ["https://", "http://"].iter().any(|scheme| variable("payments_url").as_ref().trim().starts_with(scheme));
    if provider == PaymentProvider::Webhook && !is_url {
        return Some("the variable payments_url is no URL, and payment_provider is webhook".to_owned());
    }
    let is_stripe = provider == PaymentProvider::Stripe;
    if is_stripe && is_empty("stripe_api_key") {
        return Some("the variable stripe_api_key is empty, and payment_provider is stripe".to_owned());
    }
    // A secret of a provider that is not configured still verifies callbacks about the orders that it opened.
    [
        ("webhook_secrets", secret::webhook_fault as fn(&str) -> Option<&'static str>, true),
        ("events_secret", secret::webhook_fault, !is_empty("events_url")),
        ("stripe_secret", secret::stripe_fault, is_stripe),
    ]
    .into_iter()
    .filter(|(name, _, is_used)| *is_used || !is_empty(name))
    .find_map(|(name, fault, _)| fault(variable(name).as_ref()).map(|fault| format!("the variable {name} {fault}")))
}

/// Returns what is wrong with the variables of tokens whose keys the issuer publishes.
fn published_keys_fault<T: AsRef<str>>(variable: impl Fn(&str) -> T) -> Option<String> {
    let url = variable("jwt_jwks_url");
    if url.as_ref().is_empty() {
        return None;
    }
    if !variable("jwt_key").as_ref().is_empty() {
        return Some("the variables jwt_key and jwt_jwks_url are both set: use one of them".to_owned());
    }
    if let Some(fault) = keys_url_fault(url.as_ref()) {
        return Some(format!("the variable jwt_jwks_url {fault}"));
    }
    let (issuer, audience) = (variable("jwt_issuer"), variable("jwt_audience"));
    KeySetVerifier::new(variable("jwt_algorithm").as_ref(), issuer.as_ref(), audience.as_ref()).err()
}

/// Returns what is wrong with the variables of the pages' sign-in.
fn sign_in_fault<T: AsRef<str>>(variable: impl Fn(&str) -> T) -> Option<String> {
    if let Err(fault) = SignInSettings::parse(&variable) {
        return Some(fault);
    }
    let (issuer, expected) = (variable("oidc_issuer"), variable("jwt_issuer"));
    let is_other = !issuer.as_ref().trim().is_empty() && issuer.as_ref().trim() != expected.as_ref();
    is_other.then(|| "the variables oidc_issuer and jwt_issuer differ: tokens of the one are refused".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nrole:master\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n\
        used_memory:100\r\nused_memory_peak:900\r\nmaxmemory:200\r\n";

    const STRONG: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";

    #[test]
    fn a_server_that_is_read_only_forgets_or_is_full_is_named() {
        assert_eq!(redis_fault(INFO), None);
        assert_eq!(redis_fault(""), None, "the server hides its settings");
        assert_eq!(redis_fault(&INFO.replace("maxmemory:200", "maxmemory:0")), None, "no limit");
        for (good, bad, fault) in [
            ("role:master", "role:slave", "replica"),
            ("aof_enabled:1", "aof_enabled:0", "appendonly"),
            ("noeviction", "allkeys-lru", "allkeys-lru"),
            ("maxmemory:200", "maxmemory:100", "is full"),
        ] {
            let found = redis_fault(&INFO.replace(good, bad)).unwrap_or_default();
            assert!(found.contains(fault), "{bad}: {found:?}");
        }
    }

    const WEBHOOK: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

    /// The fault of an app with good variables, of which some are replaced.
    fn fault(changed: &[(&str, &str)]) -> Option<String> {
        secrets_fault(|name| {
            assert!(VARIABLES.contains(&name), "{name} is read but not listed");
            let good = match name {
                "cors_origins" | "legal_links" | "payments_url" | "events_url" | "events_secret" | "jwt_jwks_url"
                | "metrics_token" | "operator_tokens" | "oidc_client_id" | "oidc_issuer" | "oidc_origins"
                | "oidc_scope" | "session_url" | "sign_in_url" | "stripe_api_key" | "stripe_secret" => "",
                name if name.ends_with("retention_days") => "",
                name if name.starts_with("siteverify_") || name.starts_with("shop_") => "",
                "ledger" => "sqlite",
                "sandbox" => "off",
                "trusted_hops" => "0",
                "jwt_algorithm" => "HS256",
                "payment_provider" => "sandbox",
                "webhook_secrets" => WEBHOOK,
                _ => STRONG,
            };
            let changed = changed.iter().find(|(known, _)| *known == name);
            changed.map_or(good, |(_, value)| *value).to_owned()
        })
    }

    #[test]
    fn every_required_secret_is_checked() {
        assert_eq!(fault(&[]), None);
        for name in ["ticket_secret", "jwt_key", "admin_token", "cron_token", "address_key", "webhook_secrets"] {
            for weak in ["", " ", "short", "whsec_short"] {
                assert!(fault(&[(name, weak)]).is_some_and(|fault| fault.contains(name)), "{name} is {weak:?}");
            }
        }
        assert!(fault(&[("ticket_secret", &format!("retired:{STRONG}"))]).is_some(), "no active secret");
    }

    #[test]
    fn a_structured_jwt_key_and_no_other_secret_passes() {
        for key in ["-----BEGIN PUBLIC KEY-----", "{\"kty\":\"OKP\"}"] {
            assert_eq!(fault(&[("jwt_key", key), ("jwt_algorithm", "EdDSA")]), None);
            assert!(fault(&[("jwt_key", key)]).is_some(), "a public key as a shared secret: {key}");
            assert!(fault(&[("admin_token", key)]).is_some(), "{key}");
        }
    }

    #[test]
    fn published_keys_replace_a_key_and_need_a_public_algorithm() {
        let url = ("jwt_jwks_url", "https://id.example/jwks");
        assert_eq!(fault(&[url, ("jwt_key", ""), ("jwt_algorithm", "RS256 ES256")]), None);
        assert!(fault(&[url, ("jwt_algorithm", "RS256")]).is_some_and(|fault| fault.contains("jwt_key")));
        assert!(fault(&[url, ("jwt_key", "")]).is_some_and(|fault| fault.contains("jwt_algorithm")), "HS256");
        for (url, is_right) in [("http://127.0.0.1:8080/jwks", true), ("http://id.example/jwks", false), ("id", false)]
        {
            let fault = fault(&[("jwt_jwks_url", url), ("jwt_key", ""), ("jwt_algorithm", "RS256")]);
            assert_eq!(fault.is_none(), is_right, "{url}");
            assert!(is_right || fault.is_some_and(|fault| fault.contains("jwt_jwks_url")), "{url}");
        }
    }

    #[test]
    fn a_sign_in_that_no_token_could_come_from_is_a_fault() {
        let oidc = [("oidc_issuer", "https://id.example"), ("oidc_client_id", "pages")];
        assert!(fault(&oidc).is_some_and(|fault| fault.contains("jwt_issuer")));
        assert_eq!(fault(&[&oidc[..], &[("jwt_issuer", "https://id.example")]].concat()), None);
        assert!(fault(&[("session_url", "https://shop.example")]).is_some_and(|fault| fault.contains("sign_in_url")));
    }

    #[test]
    fn secrets_of_events_and_stripe_are_required_where_they_are_used() {
        assert!(fault(&[("events_url", "https://shop.example")]).is_some());
        assert!(fault(&[("events_url", "https://shop.example"), ("events_secret", "whsec_")]).is_some());
        assert_eq!(fault(&[("events_url", "https://shop.example"), ("events_secret", WEBHOOK)]), None);
        let stripe = [("payment_provider", "stripe"), ("stripe_api_key", "any"), ("stripe_secret", WEBHOOK)];
        assert_eq!(fault(&stripe), None);
        assert!(fault(&stripe[..2]).is_some() && fault(&[stripe[0], stripe[2]]).is_some());
        assert!(fault(&[stripe[0], stripe[1], ("stripe_secret", "whsec_short")]).is_some());
        assert!(fault(&[("payment_provider", "barter")]).is_some());
    }

    #[test]
    fn a_payment_service_needs_a_url_and_a_strong_secret() {
        let webhook = [("payment_provider", "webhook"), ("payments_url", "https://pay.shop.example/stampede")];
        assert_eq!(fault(&webhook), None);
        assert!(fault(&webhook[..1]).is_some_and(|fault| fault.contains("payments_url")));
        assert!(fault(&[webhook[0], ("payments_url", "pay.shop.example")]).is_some());
        for weak in ["", "whsec_", "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM="] {
            let all = [webhook[0], webhook[1], ("webhook_secrets", weak)];
            assert!(fault(&all).is_some_and(|fault| fault.contains("webhook_secrets")), "{weak:?}");
        }
    }

    #[test]
    fn what_is_no_origin_is_a_fault() {
        assert_eq!(fault(&[("cors_origins", "https://shop.example, http://localhost:8080")]), None);
        assert!(fault(&[("cors_origins", "*")]).is_some_and(|fault| fault.contains("cors_origins")));
        assert!(fault(&[("legal_links", "terms")]).is_some_and(|fault| fault.contains("legal_links")));
        assert!(fault(&[("shop_color", "red")]).is_some_and(|fault| fault.contains("shop_color")));
    }

    #[test]
    fn a_ledger_that_is_no_url_is_a_fault() {
        for (value, is_right) in [
            ("postgres://app:pw@db.example:5432/shop?sslmode=require", true),
            ("postgresql://db.example/shop", true),
            ("\"postgres://db.example/shop\"", false),
            (" postgres://db.example/shop", false),
            ("pg://db.example/shop", false),
            ("SQLite", false),
            ("", false),
        ] {
            let fault = fault(&[("ledger", value)]);
            assert_eq!(fault.is_none(), is_right, "{value:?}");
            assert!(is_right || fault.is_some_and(|fault| fault.contains("variable ledger")), "{value:?}");
        }
    }

    #[test]
    fn a_retention_that_is_no_number_of_days_is_a_fault() {
        for name in ["retention_days", "address_retention_days"] {
            assert_eq!(fault(&[(name, " 400")]), None);
            assert!(fault(&[(name, "400 days")]).is_some_and(|fault| fault.contains(name)));
        }
    }

    #[test]
    fn hosted_checks_with_a_missing_variable_are_a_fault() {
        let url = ("siteverify_url", "https://checks.example/siteverify");
        assert!(fault(&[url]).is_some_and(|fault| fault.contains("siteverify_secret")));
    }

    #[test]
    fn the_sandbox_beside_a_real_provider_and_values_that_cannot_be_read_are_faults() {
        let stripe = [("payment_provider", "stripe"), ("stripe_api_key", "any"), ("stripe_secret", WEBHOOK)];
        assert_eq!(fault(&[("sandbox", "on")]), None);
        assert!(fault(&[&stripe[..], &[("sandbox", "on")]].concat()).is_some_and(|fault| fault.contains("sandbox")));
        let webhook = [("payment_provider", "webhook"), ("payments_url", "https://pay.example"), ("sandbox", "on")];
        assert!(fault(&webhook).is_some_and(|fault| fault.contains("sandbox")));
        assert!(fault(&[("operator_tokens", "ada:read:short")]).is_some());
        for unreadable in ["", "one", "-1", "1.5"] {
            assert!(fault(&[("trusted_hops", unreadable)]).is_some(), "{unreadable:?}");
        }
        assert_eq!(fault(&[("metrics_token", STRONG)]), None);
        assert!(fault(&[("metrics_token", "short")]).is_some_and(|fault| fault.contains("metrics_token")));
    }
}
