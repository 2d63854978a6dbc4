//! Authenticates requests of users, operators and the cron job.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use domain::{
    http::problem::{Code, Problem},
    ids::OrderNo,
    jwt::{Claims, TokenError, TokenVerifier},
    log_limit::LogLimit,
    operators::Operator,
    secret,
};

use crate::{
    clock,
    http::{ApiError, Request, not_found},
    http_client::SpinHttpClient,
    issuer_keys::{self, IssuerKeys},
    key_value::SpinKeyValue,
    log,
    redis::SpinRedis,
    settings,
    single_flight::Flight,
};

thread_local! {
    static ISSUER_KEYS: Rc<Flight<issuer_keys::Memory>> = Rc::default();
    static REFUSED_SIGN_INS: RefCell<HashMap<&'static str, LogLimit>> = RefCell::default();
}

/// Returns the claims of the request's JSON Web Token (B1).
///
/// # Errors
/// `unauthenticated` if the token is missing or not valid; `not_ready` if the `jwt_…` variables are wrong, or the
/// issuer's keys are not known.
pub async fn user(request: &Request) -> Result<Claims, ApiError> {
    match verify_token(request).await? {
        Ok(claims) => Ok(claims),
        Err(error) => Err(unauthenticated(error).await),
    }
}

/// Returns the `unauthenticated` error for an invalid or expired token, and `not_ready` for one that may be valid.
pub async fn unauthenticated(error: TokenError) -> ApiError {
    let is_sandbox_on =
        settings::find(|variables| Ok(&*variables.get("sandbox") == "on")).await.is_ok_and(|is_on| *is_on);
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
        TokenError::TooLong => {
            Problem::new(Code::Unauthenticated, "The token is too long: more than 12 KB. Put fewer groups into it.")
        }
        // Whoever signs in at a real shop cannot mend its configuration.
        _ if is_sandbox_on => {
            let detail =
                format!("The token is refused because of: {}. docs/sign-in.md has the reasons.", error.reason());
            Problem::new(Code::Unauthenticated, detail)
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
    let result = match &*settings::load(TokenVerifier::parse).await? {
        TokenVerifier::Configured(verifier) => verifier.verify(&token),
        TokenVerifier::Published(verifier, url) => {
            let (redis, key_value, http_client) = (&SpinRedis, &SpinKeyValue, &SpinHttpClient);
            let memory = &ISSUER_KEYS.with(Rc::clone);
            IssuerKeys { redis, key_value, http_client, url, memory }.verify(verifier, &token).await?
        }
    };
    Ok(result.inspect_err(|error| log_refusal(*error)))
}

/// Logs, once a minute, why sign-in tokens are refused: any client can send them. An error is what the issuer signed.
fn log_refusal(error: TokenError) {
    let reason = error.reason();
    let number = REFUSED_SIGN_INS
        .with_borrow_mut(|limits| limits.entry(reason).or_insert_with(|| LogLimit::new(60_000)).count(clock::now()));
    if let Some(number) = number {
        let level = if error.is_misconfigured() { "error" } else { "info" };
        log::write(level, "sign-in refused", &[("because", reason.into()), ("number", number.into())]);
    }
}

/// Parses the order number in a buyer's request. One that this app never issued costs no call to a store (F3).
///
/// # Errors
/// `not_found` as for another buyer's order; `not_ready` if `ticket_secret` is missing or weak.
pub async fn order_no(text: &str) -> Result<OrderNo, ApiError> {
    issued_order_no(text).await?.ok_or_else(order_not_found)
}

/// As [`order_no`], but `None` for a number that this app never issued.
pub async fn issued_order_no(text: &str) -> Result<Option<OrderNo>, Problem> {
    let Ok(order_no) = OrderNo::parse(text) else { return Ok(None) };
    Ok(settings::load(settings::ORDER_NUMBER_KEYS).await?.verify(&order_no).then_some(order_no))
}

/// Returns the `not_found` error for an order that does not exist or belongs to another buyer.
#[must_use]
pub fn order_not_found() -> ApiError {
    not_found("There is no such order, or it is not yours.")
}

/// Returns the `not_ready` error for an order that Redis, which is being rebuilt, may have.
#[must_use]
pub fn order_unknown() -> ApiError {
    Problem::new(Code::NotReady, "The sale is being restored. Nothing is lost: ask again.").retry_after(2).into()
}

/// Returns whether the request may see metrics and the details of readiness.
pub async fn may_monitor(request: &Request) -> bool {
    let tokens = settings::find(settings::MONITORING_TOKENS).await;
    let (Some(given), Ok(tokens)) = (request.bearer(), tokens) else { return false };
    tokens.iter().any(|token| secret::matches(token, &given))
}

/// Returns the operator whose token the request carries (G2).
///
/// # Errors
/// `unauthenticated` if it carries none; `not_ready` if the variables are missing, weak or malformed.
pub async fn operator(request: &Request) -> Result<Operator, ApiError> {
    let operators = settings::load(settings::OPERATORS).await?;
    request.bearer().and_then(|token| operators.find(&token).cloned()).ok_or_else(missing_token)
}

/// Checks that the request carries the token of the cron job.
///
/// # Errors
/// `unauthenticated` if it does not; `not_ready` if the variable is missing or weak.
pub async fn require_cron_token(request: &Request) -> Result<(), ApiError> {
    let expected = settings::load(settings::CRON_TOKEN).await?;
    if request.bearer().is_some_and(|given| secret::matches(&expected, &given)) { Ok(()) } else { Err(missing_token()) }
}

/// Returns the `unauthenticated` error for a request without the token that its route needs.
#[must_use]
pub fn missing_token() -> ApiError {
    Problem::new(Code::Unauthenticated, "Send this route's token as Bearer token.").into()
}
