//! The instance's [`ClientLimits`] (B4).

use std::{cell::RefCell, net::IpAddr};

use domain::{
    jwt::token_hash,
    problem::{Code, Problem},
};
use workflows::hot::{
    client_limits::{ClientLimits, POLLS, Rate, SIGNED_IN},
    limits,
};

use crate::{
    clock,
    http::{ApiError, Request},
    request_address,
};

thread_local! {
    static LIMITS: RefCell<ClientLimits> = RefCell::default();
}

/// Counts a request that polls with a ticket, by the order. A client on this machine is not limited.
///
/// # Errors
/// As [`signed_in`].
pub async fn poll(request: &Request, order_no: &str) -> Result<(), ApiError> {
    match take(order_no, POLLS) {
        // Read only now: polls are many, and hardly any is refused.
        Err(_) if is_local(request_address::whole_address(request).await?) => Ok(()),
        result => Ok(result?),
    }
}

/// Whether the client is a program on this machine: a test, a measurement, or a proxy that `trusted_hops` does not count.
fn is_local(client: Option<IpAddr>) -> bool {
    client.is_some_and(|address| address.to_canonical().is_loopback())
}

/// Counts a request with a sign-in token before the token is verified, by the token: not by the user that it names, whom a
/// forged one would limit, too. A client on this machine is not limited. Addresses are counted by the proxy: one may be
/// a carrier's.
///
/// # Errors
/// `rate_limited`; `not_ready` if the variable `trusted_hops` is not a number.
pub async fn signed_in(request: &Request) -> Result<(), ApiError> {
    if is_local(request_address::whole_address(request).await?) {
        return Ok(());
    }
    match request.bearer() {
        Some(token) => Ok(take(&token_hash(&token), SIGNED_IN)?),
        None => Ok(()),
    }
}

fn take(client: &str, rate: Rate) -> Result<(), Problem> {
    LIMITS.with_borrow_mut(|limits| limits.take(client, rate, clock::now())).map_err(|wait_ms| {
        let problem = Problem::new(Code::RateLimited, "Too many requests: wait as Retry-After says.");
        limits::add_to_problem(problem, wait_ms, &[rate.used_up(wait_ms)])
    })
}
