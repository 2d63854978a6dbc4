//! Reads the client's address from a request (B4).

use std::net::IpAddr;

use domain::{
    client_address::{client, limit_key},
    http::{problem::Problem, request::Headers as _},
};

use crate::{http::Request, settings};

/// Returns the client's address in the form of [`limit_key`].
///
/// # Errors
/// `not_ready` if the variable `trusted_hops` is not a number: with a guess, all visitors might share one address.
pub async fn address(request: &Request) -> Result<String, Problem> {
    let (peer, forwarded, hops) = read(request).await?;
    Ok(limit_key(peer.as_deref(), forwarded.iter().map(Vec::as_slice), hops))
}

/// Returns the client's whole address; `None` if it is not known.
pub async fn whole_address(request: &Request) -> Result<Option<IpAddr>, Problem> {
    let (peer, forwarded, hops) = read(request).await?;
    Ok(client(peer.as_deref(), forwarded.iter().map(Vec::as_slice), hops))
}

/// Returns the peer, the lines of `x-forwarded-for` if any is trusted, and the number of trusted proxies.
async fn read(request: &Request) -> Result<(Option<Vec<u8>>, Vec<Vec<u8>>, usize), Problem> {
    let hops = *settings::load(settings::TRUSTED_HOPS).await?;
    let forwarded = if hops == 0 { Vec::new() } else { request.headers.values("x-forwarded-for") };
    // The last header line counts: the engine adds its own after any line of the same name that the client sent, and so
    // does a proxy that appends one.
    Ok((request.headers.values("spin-client-addr").pop(), forwarded, hops))
}
