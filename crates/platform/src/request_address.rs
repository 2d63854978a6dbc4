//! Reads the client's address from a request (B4).

use domain::client_address::limit_key;
use http::HeaderValue;

use crate::{config, http::Request};

/// Returns the client's address in the form of [`limit_key`].
pub async fn address(request: &Request) -> String {
    let hops = config::get("trusted_hops").await.parse().unwrap_or(0);
    let lines = |name| request.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    // The last header line counts: the engine adds its own after any line of the same name that the client sent, and so
    // does a proxy that appends one.
    limit_key(lines("spin-client-addr").next_back(), lines("x-forwarded-for"), hops)
}
