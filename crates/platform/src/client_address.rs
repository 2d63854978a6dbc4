//! Determines the client's address for limits and bans (B4).
//!
//! `x-forwarded-for` is trusted only for the number of proxies in the variable `trusted_hops`.

use std::net::{IpAddr, SocketAddr};

use crate::{config, http::Request};

/// Returns the client's address in the form that limits and bans use: an IPv4 address, the /64 network of an IPv6
/// address, or `unknown`.
pub async fn address(request: &Request) -> String {
    let hops = config::get("trusted_hops").await.parse().unwrap_or(0);
    let values = |name| request.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    // The last header line counts: the engine adds its own after any line of the same name that the client sent, and so
    // does a proxy that appends one.
    let peer = values("spin-client-addr").next_back();
    let forwarded: Vec<_> = values("x-forwarded-for").collect();
    limit_key(behind_proxies(peer.as_deref(), &forwarded.join(","), hops))
}

/// Returns the `hops`-th address from the end of the forwarded list.
///
/// Returns the peer if `hops` is 0, if the list is shorter (then it does not come from the trusted proxies), or if that
/// entry is not an address.
fn behind_proxies(peer: Option<&str>, forwarded: &str, hops: usize) -> Option<IpAddr> {
    let peer = peer.and_then(parse);
    if hops == 0 {
        return peer;
    }
    let forwarded: Vec<_> = forwarded.split(',').map(str::trim).collect();
    forwarded.len().checked_sub(hops).and_then(|index| parse(forwarded[index])).or(peer)
}

fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<SocketAddr>().map(|socket| socket.ip()).or_else(|_| text.trim_matches(['[', ']']).parse()).ok()
}

/// Parses a client address that an operator typed, and returns it in the form of [`address`]. Also accepts an IPv6
/// network that ends in /64.
#[must_use]
pub fn normalize(text: &str) -> Option<String> {
    let address = match text.strip_suffix("/64") {
        Some(network) => parse(network).filter(|address| address.to_canonical().is_ipv6()),
        None => parse(text),
    };
    address.map(|address| limit_key(Some(address)))
}

fn limit_key(address: Option<IpAddr>) -> String {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(v4)) => v4.to_string(),
        Some(IpAddr::V6(v6)) => {
            let s = v6.segments();
            format!("{:x}:{:x}:{:x}:{:x}::/64", s[0], s[1], s[2], s[3])
        }
        None => "unknown".to_owned(),
    }
}
