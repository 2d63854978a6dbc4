//! Where a call comes from (B4): taken from a configured number of trusted hops, never blindly from a header.

use std::net::{IpAddr, SocketAddr};

use crate::{config, http::Request};

/// The client's address as limits count it: IPv4 whole, IPv6 by its /64.
pub async fn address(request: &Request) -> String {
    let hops = config::get("trusted_hops").await.parse().unwrap_or(0);
    let values = |name| request.headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    // The engine's word comes after whatever a client claims under the same name, as a proxy's does that adds a line.
    let peer = values("spin-client-addr").next_back();
    let forwarded: Vec<_> = values("x-forwarded-for").collect();
    limit_key(behind_proxies(peer.as_deref(), &forwarded.join(","), hops))
}

/// The peer, or what the `hops`-th trusted proxy before it saw. A list shorter than the hops is not from our proxies.
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

/// An address that an operator wrote, as limits count it.
#[must_use]
pub fn normalize(text: &str) -> Option<String> {
    let address = match text.strip_suffix("/64") {
        Some(network) => parse(network).filter(|address| address.to_canonical().is_ipv6()),
        None => parse(text),
    };
    address.map(|address| limit_key(Some(address)))
}

/// A part of a path with its `%xx` undone.
#[must_use]
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
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
