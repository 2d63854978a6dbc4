//! Parses the address that a component connects to.

use anyhow::Context as _;

/// The parts of an address that the allow-list checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboundUrl {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl OutboundUrl {
    /// Parses an address. `scheme` is assumed if it has none.
    ///
    /// # Errors
    /// If it is malformed or has no host.
    pub fn parse(address: &str, scheme: &str) -> anyhow::Result<Self> {
        let address = escape_credentials(address);
        let parsed = match ::url::Url::parse(&address) {
            Ok(url) if url.has_host() => url,
            first => ::url::Url::parse(&format!("{scheme}://{address}")).map_err(|second| match first {
                Err(first) => anyhow::Error::from(first),
                Ok(_) => second.into(),
            })?,
        };
        Ok(Self {
            scheme: parsed.scheme().to_owned(),
            host: parsed.host_str().context("the address has no host")?.to_owned(),
            port: parsed.port(),
        })
    }

    /// The scheme, for example `http` or `redis`.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The host's name or address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, or `None` if it is missing or is the scheme's default.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns `host[:port]`.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }
}

/// Percent-encodes user name and password, which may contain characters that are not allowed in a URL.
fn escape_credentials(address: &str) -> String {
    let start = address.find("://").map_or(0, |at| at + 3);
    let Some(at) = address.find('@').filter(|&at| at >= start) else {
        return address.to_owned();
    };
    let credentials = &address[start..at];
    if credentials.contains('/') {
        // The '@' belongs to the path.
        return address.to_owned();
    }
    let escaped: String = credentials
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    format!("{}{escaped}{}", &address[..start], &address[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(address: &str) -> (String, String) {
        let url = OutboundUrl::parse(address, "redis").unwrap();
        (url.scheme().to_owned(), url.authority())
    }

    #[test]
    fn a_missing_scheme_is_assumed() {
        assert_eq!(parts("cache:6380"), ("redis".into(), "cache:6380".into()));
        assert_eq!(parts("rediss://cache"), ("rediss".into(), "cache".into()));
    }

    #[test]
    fn reserved_characters_in_a_password_are_escaped() {
        assert_eq!(parts("redis://:p#s?@cache:1"), ("redis".into(), "cache:1".into()));
        assert_eq!(parts("http://a.example/@b"), ("http".into(), "a.example".into()));
    }

    #[test]
    fn an_address_without_host_is_refused() {
        assert!(OutboundUrl::parse("", "redis").is_err());
    }
}
