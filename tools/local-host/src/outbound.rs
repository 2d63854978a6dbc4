//! Checks which hosts a component may connect to (`allowed_outbound_hosts`).

mod pattern;
mod url;

use std::sync::{Arc, OnceLock};

use anyhow::Context as _;

use self::{pattern::HostPattern, url::OutboundUrl};
use crate::variables::{Template, Variables};

/// The allow-list of one component.
#[derive(Debug)]
pub struct AllowedHosts {
    entries: Vec<String>,
    variables: Arc<Variables>,
    /// Resolved on first use, which also reports errors in templates, as in Spin.
    resolved: OnceLock<Result<Vec<HostPattern>, String>>,
}

impl AllowedHosts {
    /// Creates an allow-list from the manifest's entries, which may contain templates.
    pub fn new(entries: &[String], variables: Arc<Variables>) -> Self {
        Self { entries: entries.to_owned(), variables, resolved: OnceLock::new() }
    }

    /// Checks entries before the variables have values.
    ///
    /// # Errors
    /// If an entry is malformed, or is malformed once the variables' defaults are inserted.
    pub fn validate(entries: &[String], variables: &Variables) -> anyhow::Result<()> {
        for entry in entries {
            let template = Template::parse(entry)?;
            if template.is_literal() {
                HostPattern::parse(entry)?;
            } else if let Some(resolved) = variables.render_defaults(&template) {
                parse_or_skip(&resolved).with_context(|| {
                    format!(
                        "using default variable value(s) with template {entry:?} results in \
                         invalid config {resolved:?}"
                    )
                })?;
            }
        }
        Ok(())
    }

    /// Returns whether a connection to `url` is allowed. `scheme` is assumed if `url` has none.
    ///
    /// # Errors
    /// If the allow-list cannot be resolved.
    pub fn allows_url(&self, url: &str, scheme: &str) -> anyhow::Result<bool> {
        let url = match OutboundUrl::parse(url, scheme) {
            Ok(url) => url,
            Err(error) => {
                tracing::warn!(%error, "a component tried to connect to a URL that cannot be parsed");
                return Ok(false);
            }
        };
        let allowed = self.patterns()?.iter().any(|pattern| pattern.allows(&url));
        if !allowed {
            report_refusal(url.scheme(), &url.authority());
        }
        Ok(allowed)
    }

    fn patterns(&self) -> anyhow::Result<&[HostPattern]> {
        self.resolved
            .get_or_init(|| {
                self.resolve().map_err(|error| {
                    tracing::error!("the allowed outbound hosts cannot be resolved: {error:#}");
                    error.to_string()
                })
            })
            .as_deref()
            .map_err(|error| anyhow::Error::msg(error.clone()))
    }

    fn resolve(&self) -> anyhow::Result<Vec<HostPattern>> {
        let mut patterns = Vec::new();
        for entry in &self.entries {
            let template = Template::parse(entry)?;
            let pattern = if template.is_literal() {
                Some(HostPattern::parse(entry)?)
            } else {
                parse_or_skip(&self.variables.render(&template)?)?
            };
            if let Some(pattern) = pattern {
                patterns.push(pattern);
            }
        }
        Ok(patterns)
    }
}

/// Parses a resolved template. Returns `None` if it is empty or only `http://` or `https://`: it allows nothing.
fn parse_or_skip(resolved: &str) -> anyhow::Result<Option<HostPattern>> {
    if matches!(resolved, "" | "http://" | "https://") {
        return Ok(None);
    }
    HostPattern::parse(resolved).map(Some)
}

fn report_refusal(scheme: &str, authority: &str) {
    tracing::error!("Outbound network destination not allowed: {scheme}://{authority}");
    eprintln!(
        "A component tried to connect to {scheme}://{authority}, which it may not. To allow it, add \
         'allowed_outbound_hosts = [\"{scheme}://{authority}\"]' to the component's section of the \
         manifest."
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Provider;

    fn allowed(entries: &[&str], host: &str) -> AllowedHosts {
        let mut variables =
            Variables::new([("host".to_owned(), None), ("empty".to_owned(), Some(String::new()))].into()).unwrap();
        variables.add_provider(Provider::fixed([("host", host)]));
        let entries: Vec<String> = entries.iter().map(|&entry| entry.to_owned()).collect();
        AllowedHosts::new(&entries, Arc::new(variables))
    }

    #[test]
    fn a_template_allows_the_host_that_the_variable_names() {
        let list = allowed(&["redis://{{ host }}:6380"], "cache");
        assert!(list.allows_url("redis://cache:6380", "redis").unwrap());
        assert!(list.allows_url("redis://user:p%40ss@cache:6380/1", "redis").unwrap());
        assert!(!list.allows_url("redis://cache:6379", "redis").unwrap());
        assert!(!list.allows_url("redis://other:6380", "redis").unwrap());
    }

    #[test]
    fn a_whole_url_in_the_variable_is_refused() {
        let list = allowed(&["redis://{{ host }}"], "user:password@cache:6379");
        assert!(list.allows_url("redis://cache:6379", "redis").is_err());
        let list = allowed(&["http://{{ host }}"], "shop.example/path");
        assert!(list.allows_url("http://shop.example", "http").is_err());
    }

    #[test]
    fn an_empty_variable_grants_nothing_and_is_no_error() {
        let list = allowed(&["{{ empty }}", "https://{{ empty }}", "http://a.example"], "h");
        assert!(list.allows_url("http://a.example/x?y", "https").unwrap());
        assert!(!list.allows_url("https://a.example", "https").unwrap());
    }

    #[test]
    fn malformed_entries_fail_validation() {
        let variables = Variables::new([("host".to_owned(), Some("a/b".to_owned()))].into()).unwrap();
        for bad in ["http://a.example/path", "a.example", "*", "http://{{ host }}", "insecure:allow-all"] {
            assert!(AllowedHosts::validate(&[bad.to_owned()], &variables).is_err(), "{bad} passed");
        }
        AllowedHosts::validate(&["http://*.a.example".to_owned()], &variables).unwrap();
    }
}
