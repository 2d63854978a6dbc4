//! Who is asking: a signed-in user, an operator, or the cron job.

use std::{cell::RefCell, rc::Rc};

use domain::{
    human_check::CheckKeys,
    jwt::{Claims, TokenError, Verifier},
    problem::{Code, Problem},
    signer::Signer,
    ticket::TicketKeys,
};

use crate::{
    async_once::{self, AsyncOnce},
    config,
    http::{ApiError, Request},
    log,
};

thread_local! {
    static VERIFIER: RefCell<AsyncOnce<Verifier>> = const { RefCell::new(AsyncOnce::Empty) };
    static TICKET_KEYS: RefCell<AsyncOnce<TicketKeys>> = const { RefCell::new(AsyncOnce::Empty) };
    static CHECK_KEYS: RefCell<AsyncOnce<CheckKeys>> = const { RefCell::new(AsyncOnce::Empty) };
}

/// The user of the call's JSON Web Token (B1).
///
/// # Errors
/// `unauthenticated`; `not_ready` where tokens cannot be verified.
pub async fn user(request: &Request) -> Result<Claims, ApiError> {
    verify_token(request).await?.map_err(unauthenticated)
}

/// The refusal of a token that does not hold.
#[must_use]
pub fn unauthenticated(_: TokenError) -> ApiError {
    Problem::new(Code::Unauthenticated, "The token does not hold, or no longer: sign in again.").into()
}

/// The same as [`user`], with what is wrong with a token.
///
/// # Errors
/// `unauthenticated` without a token; `not_ready` where tokens cannot be verified.
pub async fn verify_token(request: &Request) -> Result<Result<Claims, TokenError>, ApiError> {
    let token = request.bearer().ok_or_else(|| {
        Problem::new(Code::Unauthenticated, "Send 'Authorization: Bearer' with the token of your sign-in.")
    })?;
    let verifier = async_once::get_or_init(&VERIFIER, async || {
        let (algorithm, key) = (config::get("jwt_algorithm").await, config::get("jwt_key").await);
        let (issuer, audience) = (config::get("jwt_issuer").await, config::get("jwt_audience").await);
        Verifier::new(&algorithm, &key, &issuer, &audience).map_err(|because| {
            log::error("refusing to serve", &[("because", because.into())]);
            Problem::new(Code::NotReady, "Sign-ins cannot be verified: the log says which variable is wrong.")
                .retry_after(60)
        })
    })
    .await?;
    Ok(verifier.verify(token))
}

/// The live ticket keys.
///
/// # Errors
/// `not_ready` where the secret is missing or weak.
pub async fn ticket_keys() -> Result<Rc<TicketKeys>, Problem> {
    async_once::get_or_init(&TICKET_KEYS, async || Ok(TicketKeys::new(&config::secret("ticket_secret").await?))).await
}

/// The keys of human checks, which come from the same secret.
///
/// # Errors
/// `not_ready` where the secret is missing or weak.
pub async fn check_keys() -> Result<Rc<CheckKeys>, Problem> {
    async_once::get_or_init(&CHECK_KEYS, async || Ok(CheckKeys::new(&config::secret("ticket_secret").await?))).await
}

/// Lets a call pass that carries the token of the variable `name`.
///
/// # Errors
/// `unauthenticated`; `not_ready` where the token is missing or weak.
pub async fn require_token(request: &Request, name: &'static str) -> Result<(), ApiError> {
    let expected = config::secret(name).await?;
    let given = request.bearer().unwrap_or_default();
    // Compared by their signatures: equal time whatever was sent.
    let matches = Signer::new(&expected, "bearer").is_some_and(|signer| signer.verify(given, &signer.sign(&expected)));
    if matches {
        Ok(())
    } else {
        Err(Problem::new(Code::Unauthenticated, format!("Send the {name} as Bearer token.")).into())
    }
}
