//! The instance's [`ClientLimits`] (B4).

use std::{cell::RefCell, net::IpAddr};

use domain::{
    jwt::unverified_user,
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

/// Counts a request with a sign-in token before the token is verified: by the user that it names together with the
/// address, so that a forged token limits no other address. A client on this machine is not limited. Addresses alone are
/// counted by the proxy: an instance ends before one address, which may be a carrier's, sends it too many.
///
/// # Errors
/// `rate_limited`; `not_ready` if the variable `trusted_hops` is not a number.
pub async fn signed_in(request: &Request) -> Result<(), ApiError> {
    let client = request_address::whole_address(request).await?;
    if is_local(client) {
        return Ok(());
    }
    if let Some(user) = request.bearer().and_then(|token| unverified_user(&token)) {
        let address = client.map(|address| address.to_string()).unwrap_or_default();
        take(&format!("{user} {address}"), SIGNED_IN)?;
    }
    Ok(())
}

fn take(client: &str, rate: Rate) -> Result<(), Problem> {
    LIMITS.with_borrow_mut(|limits| limits.take(client, rate, clock::now())).map_err(|wait_ms| {
        let problem = Problem::new(Code::RateLimited, "Too many requests: wait as Retry-After says.");
        limits::add_to_problem(problem, wait_ms, &[rate.used_up(wait_ms)])
    })
}
