//! Parses and matches one entry of an allow-list: `<scheme>://<host>[:<port>]`, with wildcards.

use std::ops::Range;

use ::url::Host;
use anyhow::{Context as _, bail};
use ip_network::IpNetwork;

use super::OutboundUrl;

/// The suffix of the host names of the application's components.
const CHAINING_SUFFIX: &str = ".spin.internal";

/// A parsed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// `None` matches any scheme.
    scheme: Option<String>,
    host: HostPart,
    port: PortPart,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPart {
    Any,
    /// The suffix, with its leading dot.
    Subdomains(String),
    SelfHost,
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
            bail!(
                "{text:?} is no allowed outbound host: write <scheme>://<host>[:<port>], where '*' \
                 may stand for each part ('*://*:*' allows everything)"
            );
        };
        let (host, port) = split_port(rest).with_context(|| format!("in {text:?}"))?;
        Ok(Self {
            port: PortPart::parse(port, scheme).with_context(|| format!("Invalid allowed host port {port:?}"))?,
            scheme: parse_scheme(scheme).with_context(|| format!("Invalid allowed host scheme {scheme:?}"))?,
            host: HostPart::parse(host).with_context(|| format!("Invalid allowed host {host:?}"))?,
        })
    }

    /// Returns whether a connection to this URL is allowed.
    pub fn allows(&self, url: &OutboundUrl) -> bool {
        self.allows_scheme(url.scheme()) && self.host.allows(url.host()) && self.port.allows(url.port(), url.scheme())
    }

    /// Returns whether requests to the application itself are allowed with one of these schemes.
    pub fn allows_self(&self, schemes: &[&str]) -> bool {
        schemes.iter().any(|scheme| self.allows_scheme(scheme))
            && matches!(self.host, HostPart::Any | HostPart::SelfHost)
    }

    /// Replaces `*.spin.internal` with one pattern per component of the application.
    pub fn expand_chaining(self, component_ids: &[String]) -> Vec<Self> {
        match &self.host {
            HostPart::Subdomains(suffix) if suffix == CHAINING_SUFFIX => component_ids
                .iter()
                .map(|id| Self {
                    host: HostPart::Exact(Host::Domain(format!("{id}{CHAINING_SUFFIX}"))),
                    ..self.clone()
                })
                .collect(),
            _ => vec![self],
        }
    }

    fn allows_scheme(&self, scheme: &str) -> bool {
        self.scheme.as_deref().is_none_or(|allowed| allowed == scheme)
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

fn parse_scheme(scheme: &str) -> anyhow::Result<Option<String>> {
    if scheme == "*" {
        return Ok(None);
    }
    if scheme.starts_with('{') {
        bail!("scheme lists are not supported");
    }
    if !scheme.chars().all(char::is_alphabetic) {
        bail!("only alphabetic characters are allowed");
    }
    Ok(Some(scheme.to_owned()))
}

impl HostPart {
    fn parse(host: &str) -> anyhow::Result<Self> {
        let host = host.trim();
        match host {
            "*" => return Ok(Self::Any),
            "self" | "self.alt" => return Ok(Self::SelfHost),
            _ => {}
        }
        if host.starts_with('{') {
            bail!("host lists are not yet supported");
        }
        if let Ok(network) = IpNetwork::from_str_truncate(host) {
            return Ok(Self::Network(network));
        }
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('/') {
            bail!("must not include a path");
        }
        if let Some(domain) = host.strip_prefix("*.") {
            if domain.contains('*') {
                bail!("wildcards are allowed only as prefixes");
            }
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
            (Self::Subdomains(_) | Self::Network(_) | Self::SelfHost, _) => false,
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
        if port.starts_with('{') {
            bail!("port lists are not yet supported");
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
        "mysql" => Some(3306),
        "redis" => Some(6379),
        "mqtt" => Some(1883),
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
    fn wildcards_stand_for_any_scheme_subdomain_and_port() {
        assert!(allows("*://a.example:*", "http://a.example:1"));
        assert!(allows("https://*.a.example", "https://b.a.example"));
        assert!(!allows("https://*.a.example", "https://a.example"));
        assert!(allows("*://*:*", "redis://anything:1234"));
        assert!(HostPattern::parse("https://a.*.example").is_err());
    }

    #[test]
    fn port_ranges_exclude_their_end() {
        assert!(allows("http://a.example:8000..8002", "http://a.example:8001"));
        assert!(!allows("http://a.example:8000..8002", "http://a.example:8002"));
    }

    #[test]
    fn networks_match_addresses_only() {
        assert!(allows("http://127.0.0.0/24:8080", "http://127.0.0.9:8080"));
        assert!(!allows("http://127.0.0.0/24:8080", "http://localhost:8080"));
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
