//! Tests of what is found wrong.

use super::*;

const STRONG: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
const WEBHOOK: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const GOOD: [(&str, &str); 10] = [
    ("ticket_secret", STRONG),
    ("jwt_algorithm", "HS256"),
    ("jwt_key", STRONG),
    ("admin_token", STRONG),
    ("cron_token", STRONG),
    ("address_key", STRONG),
    ("ledger", "sqlite"),
    ("trusted_hops", "0"),
    ("payment_provider", "sandbox"),
    ("webhook_secrets", WEBHOOK),
];

/// Asserts which variable is wrong after some of the good ones have changed; empty: none is.
fn assert_wrong(expected: &str, changed: &[(&str, &str)]) {
    let all = || changed.iter().chain(&GOOD);
    let value = |name: &str| all().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    let fault = check(&Variables(&|name| value(name).into())).err();
    assert_eq!(fault.as_ref().map_or("", |fault| fault.variable), expected, "{changed:?}: {fault:?}");
}

#[test]
fn every_required_secret_is_checked() {
    assert_wrong("", &[]);
    for name in ["ticket_secret", "jwt_key", "admin_token", "cron_token", "address_key", "webhook_secrets"] {
        for weak in ["", " ", "short", "whsec_short", "-----BEGIN PUBLIC KEY-----"] {
            assert_wrong(name, &[(name, weak)]);
        }
    }
    assert_wrong("ticket_secret", &[("ticket_secret", &format!("retired:{STRONG}"))]);
}

#[test]
fn a_value_that_cannot_be_read_is_a_fault() {
    for (name, right, wrong) in [
        ("jwt_algorithm", &[][..], &["none"][..]),
        ("cors_origins", &["https://shop.example, http://localhost:8080"], &["*"]),
        ("legal_links", &[], &["terms"]),
        ("shop_color", &[], &["red"]),
        ("operator_tokens", &[], &["ada:read:short"]),
        ("metrics_token", &[STRONG], &["short"]),
        ("trusted_hops", &["2"], &["", "one", "-1", "1.5"]),
        ("payment_provider", &[], &["barter"]),
        ("stripe_shipping_countries", &["", "DE AT\nCH "], &["de", "DEU", "DE, AT"]),
        ("address_retention_days", &["0", " 400", "99999\n"], &["-1", "a week", "400 days", "1.5"]),
        ("retention_days", &["0", ""], &["-1", "100000", "100000000000000000000"]),
        (
            "ledger",
            &["postgres://app:pw@db.example:5432/shop?sslmode=require", "postgresql://db.example/shop"],
            &["\"postgres://db.example/shop\"", " postgres://db.example/shop", "pg://db.example/shop", "SQLite", ""],
        ),
    ] {
        right.iter().for_each(|value| assert_wrong("", &[(name, value)]));
        wrong.iter().for_each(|value| assert_wrong(name, &[(name, value)]));
    }
}

#[test]
fn variables_that_do_not_fit_each_other_are_a_fault() {
    let keys = [("jwt_jwks_url", "https://id.example/jwks"), ("jwt_key", ""), ("jwt_algorithm", "RS256 ES256")];
    assert_wrong("", &keys);
    assert_wrong("", &[("jwt_jwks_url", "http://127.0.0.1:8080/jwks"), keys[1], keys[2]]);
    assert_wrong("jwt_jwks_url", &[("jwt_jwks_url", "http://id.example/jwks"), keys[1], keys[2]]);
    assert_wrong("jwt_key", &[keys[0], keys[2]]);
    for wrong in ["", " ", "HS256", "RS256 HS256", "none", "RS256,ES256"] {
        assert_wrong("jwt_algorithm", &[keys[0], keys[1], ("jwt_algorithm", wrong)]);
    }
    let oidc =
        [("oidc_issuer", "https://id.example"), ("oidc_client_id", "pages"), ("jwt_issuer", "https://id.example")];
    assert_wrong("", &oidc);
    assert_wrong("oidc_issuer", &oidc[..2]);
    assert_wrong("sign_in_url", &[("session_url", "https://shop.example")]);
    let host = "https://shop.example";
    let events = [("events_url", host), ("events_host", host), ("events_secret", WEBHOOK)];
    assert_wrong("", &events);
    assert_wrong("events_secret", &events[..2]);
    assert_wrong("events_secret", &[events[0], events[1], ("events_secret", "whsec_")]);
    assert_wrong("siteverify_secret", &[("siteverify_url", "https://checks.example/siteverify")]);
}

#[test]
fn the_configured_payment_provider_needs_its_variables() {
    let on = ("sandbox", "on");
    assert_wrong("", &[on]);
    let stripe = [("payment_provider", "stripe"), ("stripe_api_key", "any"), ("stripe_secret", WEBHOOK)];
    assert_wrong("", &stripe);
    assert_wrong("stripe_secret", &stripe[..2]);
    assert_wrong("stripe_secret", &[stripe[0], stripe[1], ("stripe_secret", "whsec_short")]);
    assert_wrong("stripe_api_key", &[stripe[0], stripe[2]]);
    assert_wrong("sandbox", &[&stripe[..], &[on]].concat());
    let webhook = [
        ("payment_provider", "webhook"),
        ("payments_url", "https://pay.shop.example/stampede"),
        ("payments_host", "https://pay.shop.example"),
    ];
    assert_wrong("", &webhook);
    assert_wrong("payments_url", &webhook[..1]);
    assert_wrong("payments_url", &[webhook[0], ("payments_url", "pay.shop.example")]);
    assert_wrong("sandbox", &[webhook[0], webhook[1], on]);
    for weak in ["", "whsec_", "whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM="] {
        assert_wrong("webhook_secrets", &[webhook[0], webhook[1], ("webhook_secrets", weak)]);
    }
}

#[test]
fn callbacks_of_a_provider_that_is_not_configured_need_no_secret() {
    let has_secrets = |provider: &str, secrets: &str| {
        let value = |name| if name == "payment_provider" { provider } else { secrets }.into();
        let variables = Variables(&value);
        [WEBHOOK_SECRETS(&variables), STRIPE_SECRETS(&variables)].map(|found| found.map(|found| found.is_some()).ok())
    };
    assert_eq!(has_secrets("stripe", ""), [Some(false), None]);
    assert_eq!(has_secrets("webhook", ""), [None, Some(false)]);
    assert_eq!(has_secrets("stripe", WEBHOOK), [Some(true), Some(true)]);
    assert_eq!(has_secrets("webhook", "whsec_"), [None, None]);
}

#[test]
fn addresses_are_kept_for_thirty_days_and_activities_forever_unless_the_variables_say_otherwise() {
    let with_a_fault = Variables(&|name| if name == "retention_days" { "400 days".into() } else { " ".into() });
    assert!(ACTIVITY_DAYS(&with_a_fault).is_err());
    assert_eq!(ADDRESS_DAYS(&with_a_fault), Ok(Some(30)), "a fault of the one keeps addresses");
    let empty = Variables(&|_| " ".into());
    let days = ADDRESS_DAYS(&empty).and_then(|address| Ok((address, ACTIVITY_DAYS(&empty)?)));
    assert_eq!(days.ok(), Some((Some(30), None)));
}

#[test]
fn a_url_that_the_manifest_does_not_allow_is_found() {
    let events = ("events_url", "https://shop.example/events");
    for host in ["https://events.invalid", "https://shop.exam", "https://shop.example/events/x", "http://shop.example"]
    {
        assert_wrong("events_host", &[events, ("events_secret", WEBHOOK), ("events_host", host)]);
    }
    assert_wrong("", &[events, ("events_secret", WEBHOOK), ("events_host", "https://shop.example")]);
    assert_wrong("", &[("events_host", "https://events.invalid")]);
    let payments = [("payment_provider", "webhook"), ("payments_url", "https://pay.example:8443")];
    assert_wrong("payments_host", &[payments[0], payments[1], ("payments_host", "https://pay.example")]);
    assert_wrong("", &[payments[0], payments[1], ("payments_host", "https://pay.example:8443")]);
}
