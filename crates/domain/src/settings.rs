//! Every setting of the app: how it is parsed from variables, and what is missing, weak or wrong in them (G7).
//!
//! A function of the app parses what it needs, since a component can read only the variables that `spin.toml` grants it.
//! Readiness parses all of them ([`check`]). Each parser returns the first fault that it finds.

use std::rc::Rc;

use crate::{
    address::AddressCipher,
    branding::Branding,
    http::cors::AllowedOrigins,
    human_check::CheckKeys,
    jwt::TokenVerifier,
    legal_links::LegalLinks,
    operators::Operators,
    order_number::OrderNumberKeys,
    secret,
    sign_in::SignInSettings,
    siteverify::{self, HostedChecks},
    ticket::TicketKeys,
    webhook::PaymentProvider,
};

pub use crate::variables::{Fault, Variables};

/// Parses a setting from its variables.
pub type Parser<T> = fn(&Variables) -> Result<T, Fault>;

/// Checks every variable, also where no function refuses to serve.
pub fn check(variables: &Variables) -> Result<(), Fault> {
    TICKET_SECRET(variables)?;
    TokenVerifier::parse(variables)?;
    OPERATORS(variables)?;
    CRON_TOKEN(variables)?;
    ADDRESS_CIPHER(variables)?;
    SignInSettings::parse(variables)?;
    let issuer = variables.trimmed("oidc_issuer");
    if !issuer.is_empty() && *issuer != *variables.get("jwt_issuer") {
        return Err(Fault::new("oidc_issuer", "differs from jwt_issuer: tokens of the one are refused"));
    }
    REDIS_IS_REPLICATED(variables)?;
    LEDGER(variables)?;
    variables.optional_secrets("metrics_token", false, secret::fault)?;
    TRUSTED_HOPS(variables)?;
    ALLOWED_ORIGINS(variables)?;
    LEGAL_LINKS(variables)?;
    Branding::parse(variables)?;
    if HAS_HOSTED_CHECKS(variables)? {
        HostedChecks::parse(variables)?;
    }
    ADDRESS_DAYS(variables)?;
    ACTIVITY_DAYS(variables)?;
    SANDBOX(variables)?;
    PaymentSettings::parse(variables)?;
    variables.secrets("webhook_secrets", secret::webhook_fault)?;
    STRIPE_SECRETS(variables)?;
    let has_events = !EVENTS_URL(variables)?.trim().is_empty();
    let calls_service = PAYMENT_PROVIDER(variables)? == PaymentProvider::Webhook;
    for (is_called, url, host) in
        [(has_events, "events_url", "events_host"), (calls_service, "payments_url", "payments_host")]
    {
        // The manifest allows calls to that host alone.
        let rest = variables.trimmed(url).strip_prefix(&*variables.trimmed(host)).map(str::to_owned);
        if is_called && !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?'])) {
            return Err(Fault::new(
                host,
                format!("is not the beginning of {url}, as https://host or https://host:port"),
            ));
        }
    }
    variables.optional_secrets("events_secret", has_events, secret::webhook_fault).map(drop)
}

/// The URL of Redis.
pub const REDIS_URL: Parser<Rc<str>> = |variables| Ok(variables.get("redis_url"));
/// Whether Redis is durable by its replicas, not by its append-only file.
pub const REDIS_IS_REPLICATED: Parser<bool> = |variables| match &*variables.trimmed("redis_durability") {
    "" | "aof" => Ok(false),
    "replication" => Ok(true),
    _ => Err(Fault::new("redis_durability", "is neither aof nor replication")),
};

/// `sqlite`, or the URL of the ledger's PostgreSQL.
pub const LEDGER: Parser<Rc<str>> = |variables| {
    let value = variables.get("ledger");
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| value.starts_with(scheme));
    let fault = Fault::new("ledger", "is neither sqlite nor the URL of a database, without quotes");
    if is_url || &*value == "sqlite" { Ok(value) } else { Err(fault) }
};

/// The secrets of tickets, order numbers and human checks, newest first, separated by spaces.
pub const TICKET_SECRET: Parser<Rc<str>> = |variables| variables.secrets("ticket_secret", secret::fault);
/// The keys of tickets.
pub const TICKET_KEYS: Parser<TicketKeys> = |variables| Ok(TicketKeys::new(&TICKET_SECRET(variables)?));
/// The keys of order numbers.
pub const ORDER_NUMBER_KEYS: Parser<OrderNumberKeys> = |variables| Ok(OrderNumberKeys::new(&TICKET_SECRET(variables)?));
/// The keys of human checks.
pub const CHECK_KEYS: Parser<CheckKeys> = |variables| Ok(CheckKeys::new(&TICKET_SECRET(variables)?));

/// The token of the operator `admin`.
pub const ADMIN_TOKEN: Parser<Rc<str>> = |variables| variables.secrets("admin_token", secret::fault);

/// All operators.
pub const OPERATORS: Parser<Operators> = |variables| {
    let admin_token = ADMIN_TOKEN(variables)?;
    variables.parse("operator_tokens", |tokens| Operators::parse(&admin_token, tokens))
};

/// The tokens that show metrics and the details of readiness. A weak one shows nothing.
pub const MONITORING_TOKENS: Parser<Vec<Rc<str>>> = |variables| {
    let strong = |name| variables.secrets(name, secret::fault).ok();
    Ok(["admin_token", "metrics_token"].into_iter().filter_map(strong).collect())
};

/// The token of the job that calls the sweeper.
pub const CRON_TOKEN: Parser<Rc<str>> = |variables| variables.secrets("cron_token", secret::fault);

/// What encrypts delivery addresses.
pub const ADDRESS_CIPHER: Parser<AddressCipher> = |variables| {
    let secrets = variables.secrets("address_key", secret::fault)?;
    AddressCipher::new(&secrets).ok_or_else(|| Fault::new("address_key", "holds no key"))
};

/// The number of proxies in front of the app whose `x-forwarded-for` is trusted.
pub const TRUSTED_HOPS: Parser<usize> =
    |variables| variables.parse("trusted_hops", |hops| hops.trim().parse().map_err(|_| "is not a number"));

/// The origins of other pages that may call.
pub const ALLOWED_ORIGINS: Parser<AllowedOrigins> = |variables| variables.parse("cors_origins", AllowedOrigins::parse);

/// The links at the foot of the pages.
pub const LEGAL_LINKS: Parser<LegalLinks> = |variables| variables.parse("legal_links", LegalLinks::parse);

/// Where buyers see the shop, without a slash at its end.
pub const SHOP_URL: Parser<String> = |variables| Ok(variables.get("shop_url").trim_end_matches('/').to_owned());

/// Whether sales can have hosted human checks.
pub const HAS_HOSTED_CHECKS: Parser<bool> = |variables| Ok(!variables.get("siteverify_url").is_empty());

/// What pages may load for hosted human checks, as sources of a content security policy.
pub const WIDGET_SOURCES: Parser<String> = |variables| {
    let [script, origins] = ["siteverify_script", "siteverify_origins"].map(|name| variables.get(name));
    Ok(siteverify::content_sources(&script, &origins))
};

/// How long data is kept, in days; `None` is for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// How long delivery addresses are kept.
    pub address_days: Option<i64>,
    /// How long an activity is kept after its end.
    pub activity_days: Option<i64>,
}

/// How many days addresses are kept: 30 if the variable is empty.
pub const ADDRESS_DAYS: Parser<Option<i64>> = |variables| parse_days(variables, "address_retention_days", Some(30));

/// How many days activities are kept: for ever if the variable is empty. A setting of its own, so that a fault in it does
/// not keep addresses.
pub const ACTIVITY_DAYS: Parser<Option<i64>> = |variables| parse_days(variables, "retention_days", None);

fn parse_days(variables: &Variables, name: &'static str, default: Option<i64>) -> Result<Option<i64>, Fault> {
    variables.parse(name, |text| match (text.trim(), text.trim().parse()) {
        ("", _) => Ok(default),
        (_, Ok(days @ 0..100_000)) => Ok(Some(days)),
        _ => Err("is no number of days, 0 to 99,999"),
    })
}

/// The configured payment provider.
pub const PAYMENT_PROVIDER: Parser<PaymentProvider> = |variables| {
    let parse = |name: &str| PaymentProvider::parse(name).ok_or("is none of sandbox, webhook and stripe");
    variables.parse("payment_provider", parse)
};

/// The secrets of the sandbox's or the payment service's callbacks; `None` if there are none and Stripe is configured.
pub const WEBHOOK_SECRETS: Parser<Option<Rc<str>>> = |variables| {
    let is_required = PAYMENT_PROVIDER(variables)? != PaymentProvider::Stripe;
    variables.optional_secrets("webhook_secrets", is_required, secret::webhook_fault)
};

/// The secrets of Stripe's callbacks; `None` if there are none and another provider is configured.
pub const STRIPE_SECRETS: Parser<Option<Rc<str>>> = |variables| {
    let is_required = PAYMENT_PROVIDER(variables)? == PaymentProvider::Stripe;
    variables.optional_secrets("stripe_secret", is_required, secret::stripe_fault)
};

/// The countries that Stripe's page lets a buyer choose, by their codes of ISO 3166-1.
pub const SHIPPING_COUNTRIES: Parser<Vec<String>> = |variables| {
    variables.parse("stripe_shipping_countries", |text| {
        let is_code = |code: &&str| code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase());
        let codes: Vec<_> = text.split_whitespace().collect();
        let are_codes = codes.iter().all(is_code);
        are_codes.then(|| codes.into_iter().map(str::to_owned).collect()).ok_or("has no codes such as DE")
    })
};

/// What calls to payment providers need. Only the other variables of the configured one are checked.
pub struct PaymentSettings {
    /// The configured provider.
    pub provider: PaymentProvider,
    /// Where the shop's payment service is.
    pub payments_url: String,
    /// Sign calls to it.
    pub webhook_secrets: Rc<str>,
    /// Stripe's API.
    pub stripe_api: String,
    /// The key of Stripe's API.
    pub stripe_api_key: String,
    /// The payment methods on Stripe's page, separated by spaces.
    pub stripe_payment_methods: Rc<str>,
    /// The countries to which goods can be sent whose address Stripe's page asks for.
    pub stripe_shipping_countries: Vec<String>,
}

impl PaymentSettings {
    /// Parses the settings.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let settings = Self {
            provider: PAYMENT_PROVIDER(variables)?,
            payments_url: variables.trimmed("payments_url"),
            webhook_secrets: variables.get("webhook_secrets"),
            stripe_api: variables.get("stripe_api").trim_end_matches('/').to_owned(),
            stripe_api_key: variables.trimmed("stripe_api_key"),
            stripe_payment_methods: variables.get("stripe_payment_methods"),
            stripe_shipping_countries: SHIPPING_COUNTRIES(variables)?,
        };
        let is_url = ["https://", "http://"].iter().any(|scheme| settings.payments_url.starts_with(scheme));
        match settings.provider {
            PaymentProvider::Webhook if !is_url => {
                Err(Fault::new("payments_url", "is no URL, and payment_provider is webhook"))
            }
            PaymentProvider::Stripe if settings.stripe_api_key.is_empty() => {
                Err(Fault::new("stripe_api_key", "is empty, and payment_provider is stripe"))
            }
            PaymentProvider::Stripe => Ok(settings),
            _ => WEBHOOK_SECRETS(variables).map(|_| settings),
        }
    }
}

/// Whether the sandbox is on. Beside a real provider it would let any client sign in as any user.
pub const SANDBOX: Parser<bool> = |variables| {
    let is_on = &*variables.get("sandbox") == "on";
    if is_on && PAYMENT_PROVIDER(variables)? != PaymentProvider::Sandbox {
        return Err(Fault::new("sandbox", "is on, and payment_provider is not sandbox: set sandbox to off"));
    }
    Ok(is_on)
};

/// What the sandbox signs sign-in tokens with: the newest secret, the issuer and the audience. `None` without HS256.
pub const SANDBOX_SIGNING: Parser<Option<[String; 3]>> = |variables| {
    if &*variables.get("jwt_algorithm") != "HS256" {
        return Ok(None);
    }
    let secrets = variables.secrets("jwt_key", secret::fault)?;
    let newest = secret::active(&secrets).next().unwrap_or_default().to_owned();
    let [issuer, audience] = ["jwt_issuer", "jwt_audience"].map(|name| variables.get(name).to_string());
    Ok(Some([newest, issuer, audience]))
};

/// Where events are sent; empty for nowhere.
pub const EVENTS_URL: Parser<Rc<str>> = |variables| Ok(variables.get("events_url"));
/// The secrets of events. A weak one only makes the app not ready: events are sent all the same.
pub const EVENTS_SECRETS: Parser<Rc<str>> = |variables| Ok(variables.get("events_secret"));

#[cfg(test)]
mod tests;
