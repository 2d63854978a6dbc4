//! Reads the client's address from a request (B4).

use domain::{client_address::limit_key, request::Headers as _};

use crate::{config, http::Request};

/// Returns the client's address in the form of [`limit_key`].
pub async fn address(request: &Request) -> String {
    let hops = config::get("trusted_hops").await.parse().unwrap_or(0);
    let forwarded = if hops == 0 { Vec::new() } else { request.headers.values("x-forwarded-for") };
    // The last header line counts: the engine adds its own after any line of the same name that the client sent, and so
    // does a proxy that appends one.
    let peer = request.headers.values("spin-client-addr").pop();
    limit_key(peer.as_deref(), forwarded.iter().map(Vec::as_slice), hops)
}
