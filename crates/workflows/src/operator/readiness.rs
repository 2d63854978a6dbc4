//! Checks of the settings without which the app must not serve (G6, G7).

use domain::secret;

/// The variables that [`secrets_fault`] reads.
pub const VARIABLES: [&str; 11] = [
    "ticket_secret",
    "jwt_key",
    "admin_token",
    "cron_token",
    "address_key",
    "events_url",
    "events_secret",
    "payment_provider",
    "stripe_api_key",
    "stripe_secret",
    "webhook_secrets",
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

/// Returns which of the [`VARIABLES`] lacks a secret or has a weak one. A `jwt_key` in PEM or JWK form, Stripe's secrets
/// and `events_secret` must only be set, the latter ones if they are used.
#[must_use]
pub fn secrets_fault<T: AsRef<str>>(variable: impl Fn(&str) -> T) -> Option<String> {
    for name in ["ticket_secret", "jwt_key", "admin_token", "cron_token", "address_key"] {
        let value = variable(name);
        let value = value.as_ref();
        let is_structured = name == "jwt_key" && (value.contains("-----BEGIN") || value.starts_with('{'));
        if let Some(fault) = secret::fault(value).filter(|_| !is_structured) {
            return Some(format!("the variable {name} {fault}"));
        }
    }
    let is_empty = |name| variable(name).as_ref().trim().is_empty();
    if !is_empty("events_url") && is_empty("events_secret") {
        return Some("the variable events_secret is empty, and events_url is not".to_owned());
    }
    if variable("payment_provider").as_ref() == "stripe" {
        for name in ["stripe_api_key", "stripe_secret"] {
            if is_empty(name) {
                return Some(format!("the variable {name} is empty, and payment_provider is stripe"));
            }
        }
    }
    if is_empty("webhook_secrets") {
        return Some("the variable webhook_secrets is empty".to_owned());
    }
    variable("webhook_secrets").as_ref().split_ascii_whitespace().find_map(|entry| {
        let Some(key) = entry.strip_prefix("whsec_") else {
            return Some("the variable webhook_secrets holds an entry that does not begin with whsec_".to_owned());
        };
        secret::weakness(key).map(|weakness| format!("the variable webhook_secrets holds an entry that {weakness}"))
    })
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

    /// The fault of an app with good variables, of which some are replaced.
    fn fault(changed: &[(&str, &str)]) -> Option<String> {
        secrets_fault(|name| {
            assert!(VARIABLES.contains(&name), "{name} is read but not listed");
            let webhook = format!("whsec_{STRONG}");
            let good = match name {
                "events_url" | "events_secret" | "stripe_api_key" | "stripe_secret" => "",
                "payment_provider" => "sandbox",
                "webhook_secrets" => &webhook,
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
            assert_eq!(fault(&[("jwt_key", key)]), None);
            assert!(fault(&[("admin_token", key)]).is_some(), "{key}");
        }
    }

    #[test]
    fn secrets_of_events_and_stripe_are_required_where_they_are_used() {
        assert!(fault(&[("events_url", "https://shop.example")]).is_some());
        assert_eq!(fault(&[("events_url", "https://shop.example"), ("events_secret", "any")]), None);
        let stripe = [("payment_provider", "stripe"), ("stripe_api_key", "any"), ("stripe_secret", "any")];
        assert_eq!(fault(&stripe), None);
        assert!(fault(&stripe[..2]).is_some() && fault(&[stripe[0], stripe[2]]).is_some());
    }
}
