//! Authenticates requests of users, operators and the cron job.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use domain::{
    http::problem::{Code, Problem},
    human_check::CheckKeys,
    ids::OrderNo,
    jwt::{Claims, TokenError, Verifier, key_set::KeySetVerifier},
    log_limit::LogLimit,
    operators::{Operator, Operators},
    order_number::OrderNumberKeys,
    secret,
    sign_in::keys_url_fault,
    ticket::TicketKeys,
};

use crate::{
    clock, config,
    http::{ApiError, Request, not_found},
    http_client::SpinHttpClient,
    issuer_keys::{self, IssuerKeys},
    key_value::SpinKeyValue,
    log,
    redis::SpinRedis,
    single_flight::{Flight, Once},
};

/// Where the keys of sign-in tokens come from.
enum TokenVerifier {
    /// The variable `jwt_key`.
    Configured(Verifier),
    /// The URL in the variable `jwt_jwks_url`.
    Published { verifier: KeySetVerifier, url: Rc<str>, memory: Flight<issuer_keys::Memory> },
}

thread_local! {
    static VERIFIER: Rc<Once<TokenVerifier>> = Rc::default();
    static TICKET_KEYS: Rc<Once<TicketKeys>> = Rc::default();
    static ORDER_NUMBER_KEYS: Rc<Once<OrderNumberKeys>> = Rc::default();
    static OPERATORS: Rc<Once<Operators>> = Rc::default();
    static REFUSED_SIGN_INS: RefCell<HashMap<&'static str, LogLimit>> = RefCell::default();
    static CHECK_KEYS: Rc<Once<CheckKeys>> = Rc::default();
}

/// Returns the claims of the request's JSON Web Token (B1).
///
/// # Errors
/// `unauthenticated` if the token is missing or not valid; `not_ready` if the `jwt_…` variables are wrong, or the
/// issuer's keys are not known.
pub async fn user(request: &Request) -> Result<Claims, ApiError> {
    verify_token(request).await?.map_err(unauthenticated)
}

/// Returns the `unauthenticated` error for an invalid or expired token, and `not_ready` for one that may be valid.
#[must_use]
pub fn unauthenticated(error: TokenError) -> ApiError {
    match error {
        TokenError::Unnameable => {
            let detail = "The name of this account cannot be used: it has spaces at its ends or two in a row, or \
                          invisible characters. Sign in with another account.";
            Problem::new(Code::Unauthenticated, detail)
        }
        TokenError::Unconfirmed => {
            let detail = "Your sign-in cannot be checked now. Nothing is lost: ask again.";
            Problem::new(Code::NotReady, detail).retry_after(2)
        }
        _ => Problem::new(Code::Unauthenticated, "The token does not hold, or no longer: sign in again."),
    }
    .into()
}

/// Like [`user`], but reports why a token is invalid, so that the caller can count it.
///
/// # Errors
/// `unauthenticated` if there is no token; `not_ready` as for [`user`].
pub async fn verify_token(request: &Request) -> Result<Result<Claims, TokenError>, ApiError> {
    let token = request.bearer().ok_or_else(|| {
        Problem::new(Code::Unauthenticated, "Send 'Authorization: Bearer' with the token of your sign-in.")
    })?;
    let result = match &*VERIFIER.with(Rc::clone).get_or_init(token_verifier).await? {
        TokenVerifier::Configured(verifier) => verifier.verify(&token),
        TokenVerifier::Published { verifier, url, memory } => {
            let (redis, key_value, http_client) = (&SpinRedis, &SpinKeyValue, &SpinHttpClient);
            IssuerKeys { redis, key_value, http_client, url, memory }.verify(verifier, &token).await?
        }
    };
    Ok(result.inspect_err(|error| log_refusal(error.reason())))
}

/// Logs, once a minute, why sign-in tokens are refused: any client can send them.
fn log_refusal(reason: &'static str) {
    let number = REFUSED_SIGN_INS
        .with_borrow_mut(|limits| limits.entry(reason).or_insert_with(|| LogLimit::new(60_000)).count(clock::now()));
    if let Some(number) = number {
        log::info("sign-in refused", &[("because", reason.into()), ("number", number.into())]);
    }
}

/// Builds the verifier from the `jwt_…` variables.
async fn token_verifier() -> Result<TokenVerifier, Problem> {
    let (algorithm, url) = (config::get("jwt_algorithm").await, config::get("jwt_jwks_url").await);
    let (issuer, audience) = (config::get("jwt_issuer").await, config::get("jwt_audience").await);
    let key = config::get("jwt_key").await;
    if url.is_empty() {
        return Verifier::new(&algorithm, &key, &issuer, &audience)
            .map(TokenVerifier::Configured)
            .map_err(|because| config::misconfigured("jwt_key", &because));
    }
    if !key.is_empty() {
        return Err(config::misconfigured("jwt_key", "is set, and so is jwt_jwks_url"));
    }
    if let Some(fault) = keys_url_fault(&url) {
        return Err(config::misconfigured("jwt_jwks_url", fault));
    }
    let verifier = KeySetVerifier::new(&algorithm, &issuer, &audience)
        .map_err(|because| config::misconfigured("jwt_algorithm", &because))?;
    Ok(TokenVerifier::Published { verifier, url, memory: Flight::default() })
}

/// Returns the ticket keys, one for each secret in `ticket_secret`.
///
/// # Errors
/// `not_ready` if the secret is missing or weak.
pub async fn ticket_keys() -> Result<Rc<TicketKeys>, Problem> {
    TICKET_KEYS.with(Rc::clone).get_or_init(async || Ok(TicketKeys::new(&config::secret("ticket_secret").await?))).await
}

/// Returns the keys of order numbers, derived from `ticket_secret` as well.
///
/// # Errors
/// `not_ready` if the secret is missing or weak.
pub async fn order_number_keys() -> Result<Rc<OrderNumberKeys>, Problem> {
    let init = async || Ok(OrderNumberKeys::new(&config::secret("ticket_secret").await?));
    ORDER_NUMBER_KEYS.with(Rc::clone).get_or_init(init).await
}

/// Parses the order number in a buyer's request. One that this app never issued costs no call to a store (F3).
///
/// # Errors
/// `not_found` as for another buyer's order; `not_ready` if `ticket_secret` is missing or weak.
pub async fn order_no(text: &str) -> Result<OrderNo, ApiError> {
    issued_order_no(text).await?.ok_or_else(order_not_found)
}

/// As [`order_no`], but `None` for a number that this app never issued.
///
/// # Errors
/// `not_ready` if `ticket_secret` is missing or weak.
pub async fn issued_order_no(text: &str) -> Result<Option<OrderNo>, Problem> {
    let Ok(order_no) = OrderNo::parse(text) else { return Ok(None) };
    Ok(order_number_keys().await?.verify(&order_no).then_some(order_no))
}

/// Returns the `not_found` error for an order that does not exist or belongs to another buyer.
#[must_use]
pub fn order_not_found() -> ApiError {
    not_found("There is no such order, or it is not yours.")
}

/// Returns the keys of human checks, derived from `ticket_secret` as well.
///
/// # Errors
/// `not_ready` if the secret is missing or weak.
pub async fn check_keys() -> Result<Rc<CheckKeys>, Problem> {
    CHECK_KEYS.with(Rc::clone).get_or_init(async || Ok(CheckKeys::new(&config::secret("ticket_secret").await?))).await
}

/// Returns whether the request carries the bearer token of one of the variables. A weak or empty one matches nothing.
pub async fn has_token(request: &Request, names: &[&'static str]) -> bool {
    let Some(given) = request.bearer() else { return false };
    for name in names {
        let expected = config::get(name).await;
        if secret::fault(&expected).is_none() && secret::matches(&expected, &given) {
            return true;
        }
    }
    false
}

/// Returns the operator whose token the request carries (G2).
///
/// # Errors
/// `unauthenticated` if it carries none; `not_ready` if the variables are missing, weak or malformed.
pub async fn operator(request: &Request) -> Result<Operator, ApiError> {
    let operators = OPERATORS
        .with(Rc::clone)
        .get_or_init(async || {
            let (admin_token, tokens) = (config::secret("admin_token").await?, config::get("operator_tokens").await);
            Operators::parse(&admin_token, &tokens).map_err(|fault| config::misconfigured("operator_tokens", fault))
        })
        .await?;
    request.bearer().and_then(|token| operators.find(&token).cloned()).ok_or_else(missing_token)
}

/// Checks that the request carries the bearer token of the variable `name`.
///
/// # Errors
/// `unauthenticated` if it does not; `not_ready` if the variable is missing or weak.
pub async fn require_token(request: &Request, name: &'static str) -> Result<(), ApiError> {
    let expected = config::secret(name).await?;
    if request.bearer().is_some_and(|given| secret::matches(&expected, &given)) { Ok(()) } else { Err(missing_token()) }
}

/// Returns the `unauthenticated` error for a request without the token that its route needs.
#[must_use]
pub fn missing_token() -> ApiError {
    Problem::new(Code::Unauthenticated, "Send this route's token as Bearer token.").into()
}
