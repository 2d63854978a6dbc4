//! Determines the client's address for limits and bans (B4).
//!
//! `x-forwarded-for` is trusted only for the number of proxies in the variable `trusted_hops`.

use std::net::{IpAddr, SocketAddr};

/// Returns the client's address in the form that limits and bans use: an IPv4 address, the /64 network of an IPv6
/// address, or `unknown`.
///
/// It is the `hops`-th address from the end of the `forwarded` lines, which are read as one list. It is the `peer` if
/// `hops` is 0, if the list is shorter (then it does not come from the trusted proxies), or if that entry is not an
/// address.
pub fn limit_key<'a>(peer: Option<&[u8]>, forwarded: impl DoubleEndedIterator<Item = &'a [u8]>, hops: usize) -> String {
    format(client(peer, forwarded, hops))
}

/// Returns the client's whole address, found as [`limit_key`] does; `None` if it is not known.
pub fn client<'a>(
    peer: Option<&[u8]>,
    forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
    hops: usize,
) -> Option<IpAddr> {
    let mut last_first = forwarded.rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    let client = hops.checked_sub(1).and_then(|proxies| parse(last_first.nth(proxies)?));
    client.or_else(|| parse(peer?))
}

/// Parses a client address that an operator typed, and returns it in the form of [`limit_key`]. Also accepts an IPv6
/// network that ends in /64.
#[must_use]
pub fn normalize(text: &str) -> Option<String> {
    let address = match text.strip_suffix("/64") {
        Some(network) => parse(network.as_bytes()).filter(|address| address.to_canonical().is_ipv6()),
        None => parse(text.as_bytes()),
    };
    address.map(|address| format(Some(address)))
}

fn parse(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    text.parse::<SocketAddr>().map(|socket| socket.ip()).or_else(|_| text.trim_matches(['[', ']']).parse()).ok()
}

fn format(address: Option<IpAddr>) -> String {
    match address.map(|address| address.to_canonical()) {
        Some(IpAddr::V4(v4)) => v4.to_string(),
        Some(IpAddr::V6(v6)) => {
            let s = v6.segments();
            format!("{:x}:{:x}:{:x}:{:x}::/64", s[0], s[1], s[2], s[3])
        }
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "192.0.2.1:1234";

    fn key(lines: &[&str], hops: usize) -> String {
        limit_key(Some(PEER.as_bytes()), lines.iter().map(|line| line.as_bytes()), hops)
    }

    #[test]
    fn the_hops_th_address_from_the_end_counts() {
        let lines = ["203.0.113.1, 203.0.113.2", "198.51.100.3,198.51.100.4"];
        for (hops, expected) in [
            (0, "192.0.2.1"),
            (1, "198.51.100.4"),
            (2, "198.51.100.3"),
            (3, "203.0.113.2"),
            (4, "203.0.113.1"),
            (5, "192.0.2.1"),
            (usize::MAX, "192.0.2.1"),
        ] {
            assert_eq!(key(&lines, hops), expected, "{hops} hops");
        }
    }

    #[test]
    fn an_unreadable_entry_leaves_the_peer() {
        for entry in ["", " ", "unknown", "_hidden", "1.2.3", "1.2.3.4.5", "1.2.3.4 5.6.7.8", "::1::", "\u{fffd}"] {
            assert_eq!(key(&[entry], 1), "192.0.2.1", "{entry:?}");
        }
        assert_eq!(key(&[], 1), "192.0.2.1");
        let lines: [&[u8]; 1] = [b"198.51.100.3, \xff"];
        assert_eq!(limit_key(Some(PEER.as_bytes()), lines.into_iter(), 1), "192.0.2.1");
        assert_eq!(limit_key(Some(PEER.as_bytes()), lines.into_iter(), 2), "198.51.100.3");
        assert_eq!(limit_key(None, [].into_iter(), 0), "unknown");
        assert_eq!(limit_key(Some(b"a pipe"), [].into_iter(), 0), "unknown");
    }

    #[test]
    fn an_ipv6_client_is_its_network_and_a_mapped_one_its_ipv4_address() {
        for (entry, expected) in [
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::6]", "2001:db8:1:2::/64"),
            ("[2001:db8:1:2::6]:443", "2001:db8:1:2::/64"),
            ("::1", "0:0:0:0::/64"),
            ("::ffff:198.51.100.3", "198.51.100.3"),
            ("198.51.100.3:443", "198.51.100.3"),
        ] {
            assert_eq!(key(&[entry], 1), expected, "{entry}");
            assert_eq!(normalize(entry).as_deref(), Some(expected), "{entry}");
        }
    }

    #[test]
    fn an_operator_may_type_the_key_itself() {
        assert_eq!(normalize("2001:db8:1:2::/64").as_deref(), Some("2001:db8:1:2::/64"));
        for text in ["198.51.100.3/64", "2001:db8::/48", "unknown", "", "everyone"] {
            assert_eq!(normalize(text), None, "{text:?}");
        }
    }
}
