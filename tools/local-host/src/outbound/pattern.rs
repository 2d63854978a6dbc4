//! Parses and matches one entry of an allow-list: `<scheme>://<host>[:<port>]`, where the host may be `*`, `*.<domain>` or a
//! network, and the port `*` or a range.

use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use ip_network::IpNetwork;
use url::Host;

use super::OutboundUrl;

/// A parsed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    scheme: String,
    host: HostPart,
    port: PortPart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPart {
    Any,
    /// The suffix, with its leading dot.
    Subdomains(String),
    Exact(Host),
    Network(IpNetwork),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PortPart {
    Any,
    One(u16),
    Range(Range<u16>),
}

impl HostPattern {
    /// Parses an entry without templates.
    ///
    /// # Errors
    /// If it has no scheme, or has a path, credentials or an invalid port.
    pub fn parse(entry: &str) -> anyhow::Result<Self> {
        let text = entry.trim();
        let Some((scheme, rest)) = text.split_once("://") else {
            bail!("{text:?} is no allowed outbound host: write <scheme>://<host>[:<port>]");
        };
        let (host, port) = split_port(rest).with_context(|| format!("in {text:?}"))?;
        ensure!(scheme.chars().all(char::is_alphabetic), "in {text:?} the scheme is not a word");
        Ok(Self {
            port: PortPart::parse(port, scheme).with_context(|| format!("Invalid allowed host port {port:?}"))?,
            scheme: scheme.to_owned(),
            host: HostPart::parse(host).with_context(|| format!("Invalid allowed host {host:?}"))?,
        })
    }

    /// Returns whether a connection to this URL is allowed.
    pub fn allows(&self, url: &OutboundUrl) -> bool {
        self.scheme == url.scheme() && self.host.allows(url.host()) && self.port.allows(url.port(), url.scheme())
    }
}

/// Splits `host[:port]`, where the host may be an IPv6 address or a network.
fn split_port(rest: &str) -> anyhow::Result<(&str, &str)> {
    match rest.rsplit_once(':') {
        None => Ok((rest, "")),
        Some((host, "")) => Ok((host, "")),
        // The colon belongs to an IPv6 address.
        Some(_) if HostPart::parse(rest).is_ok() => Ok((rest, "")),
        Some((host, tail)) => {
            let (port, path) = tail.split_once('/').unwrap_or((tail, ""));
            if !path.is_empty() {
                bail!("an allowed outbound host has no path: leave out {path:?}");
            }
            Ok((host, port))
        }
    }
}

impl HostPart {
    fn parse(host: &str) -> anyhow::Result<Self> {
        let host = host.trim();
        ensure!(!matches!(host, "self" | "self.alt"), "this host knows no {host:?}");
        if host == "*" {
            return Ok(Self::Any);
        }
        if let Ok(network) = IpNetwork::from_str_truncate(host) {
            return Ok(Self::Network(network));
        }
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('/') {
            bail!("must not include a path");
        }
        if let Some(domain) = host.strip_prefix("*.") {
            ensure!(!domain.contains('*'), "wildcards are allowed only as prefixes");
            let Host::Domain(domain) =
                Host::parse(domain).with_context(|| format!("invalid wildcard host \"*.{domain}\""))?
            else {
                bail!("wildcard suffix must be a domain");
            };
            return Ok(Self::Subdomains(format!(".{domain}")));
        }
        if host.contains('*') {
            bail!("wildcards are allowed only as subdomains");
        }
        Ok(Self::Exact(Host::parse(host)?))
    }

    fn allows(&self, host: &str) -> bool {
        let Ok(host) = Host::parse(host) else { return false };
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Subdomains(suffix), Host::Domain(domain)) => domain.ends_with(suffix),
            (Self::Exact(allowed), host) => host == *allowed,
            (Self::Network(network), Host::Ipv4(ip)) => network.contains(ip),
            (Self::Network(network), Host::Ipv6(ip)) => network.contains(ip),
            (Self::Subdomains(_) | Self::Network(_), _) => false,
        }
    }
}

impl PortPart {
    fn parse(port: &str, scheme: &str) -> anyhow::Result<Self> {
        if port.is_empty() {
            return default_port(scheme).map(Self::One).with_context(|| {
                format!(
                    "no port was provided and the scheme {scheme:?} does not have a known default \
                     port number"
                )
            });
        }
        if port == "*" {
            return Ok(Self::Any);
        }
        let number = |text: &str| text.parse::<u16>().with_context(|| format!("port {text:?} is not a number"));
        match port.split_once("..") {
            Some((start, end)) => Ok(Self::Range(number(start)?..number(end)?)),
            None => Ok(Self::One(number(port)?)),
        }
    }

    fn allows(&self, port: Option<u16>, scheme: &str) -> bool {
        let port = port.or_else(|| default_port(scheme));
        match self {
            Self::Any => true,
            Self::One(allowed) => port == Some(*allowed),
            Self::Range(range) => port.is_some_and(|port| range.contains(&port)),
        }
    }
}

fn default_port(scheme: &str) -> Option<u16> {
    match scheme {
        "postgres" => Some(5432),
        "redis" => Some(6379),
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(pattern: &str, url: &str) -> bool {
        HostPattern::parse(pattern).unwrap().allows(&OutboundUrl::parse(url, "https").unwrap())
    }

    #[test]
    fn a_missing_port_means_the_schemes_default() {
        assert!(allows("https://a.example", "https://a.example:443/x"));
        assert!(!allows("https://a.example", "https://a.example:8443/x"));
        assert!(allows("redis://a.example", "redis://a.example"));
        assert!(HostPattern::parse("gopher://a.example").is_err());
    }

    #[test]
    fn a_wildcard_stands_for_any_host_subdomain_or_port_and_nothing_else() {
        assert!(allows("https://*.a.example", "https://b.a.example"));
        assert!(!allows("https://*.a.example", "https://a.example"));
        assert!(allows("redis://*.a.example:6379", "redis://c.b.a.example"));
        assert!(!allows("redis://*.a.example:6379", "redis://c.b.a.example:6380"));
        assert!(!allows("redis://*.a.example:6379", "redis://10.1.0.3:6379"));
        assert!(allows("redis://a.example:*", "redis://:p%40ss@a.example:7000/0"));
        assert!(!allows("redis://a.example:*", "redis://b.example:7000"));
        assert!(allows("redis://*", "redis://10.1.0.3:6379") && !allows("redis://*", "redis://10.1.0.3:7000"));
        assert!(allows("redis://*:*", "redis://a.example:7000") && !allows("redis://*:*", "rediss://a.example:7000"));
        for bad in ["*://a.example:80", "http://a*:80", "http://self", "https://a.*.example", "http://*.10.1.0.3"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn port_ranges_exclude_their_end() {
        assert!(allows("http://a.example:8000..8002", "http://a.example:8001"));
        assert!(!allows("http://a.example:8000..8002", "http://a.example:8002"));
        assert!(allows("redis://127.0.0.1:7000..7006", "redis://127.0.0.1:7005"));
        assert!(!allows("redis://127.0.0.1:7000..7006", "redis://127.0.0.1:7006"));
        for bad in ["redis://a.example:7000..", "redis://a.example:..7006", "redis://a.example:7000-7005"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad} was accepted");
        }
    }

    #[test]
    fn networks_match_addresses_only() {
        assert!(allows("http://127.0.0.0/24:8080", "http://127.0.0.9:8080"));
        assert!(!allows("http://127.0.0.0/24:8080", "http://localhost:8080"));
        assert!(allows("redis://10.1.0.7/24:7000..7006", "redis://user:p%40ss@10.1.0.255:7001"));
        assert!(!allows("redis://10.1.0.0/24:6379", "redis://10.1.1.0:6379"));
        assert!(!allows("redis://10.1.0.0/24:6379", "redis://10.1.0.3:6380"));
        assert!(allows("rediss://fd00::/8:6379", "rediss://[fd00::1]:6379"));
        assert!(allows("http://[::1]:8080", "http://[::1]:8080"));
        assert!(allows("redis://127.0.0.1:16399", "redis://127.0.0.1:16399"));
    }

    #[test]
    fn paths_and_credentials_are_refused() {
        for bad in ["http://a.example:80/x", "http://a.example/x", "redis://user:pw@a.example:6379"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad} was accepted");
        }
        HostPattern::parse("http://a.example:80/").unwrap();
    }
}
