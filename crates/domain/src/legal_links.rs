//! The links at the foot of the buyers' pages: terms, privacy policy and imprint.

use serde::Serialize;

/// The links, from the variable `legal_links`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LegalLinks {
    /// The terms of sale.
    #[serde(skip_serializing_if = "Option::is_none")]
    terms: Option<String>,
    /// The privacy policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    privacy: Option<String>,
    /// Who runs the shop.
    #[serde(skip_serializing_if = "Option::is_none")]
    imprint: Option<String>,
}

impl LegalLinks {
    /// Reads `terms=…`, `privacy=…` and `imprint=…`, separated by spaces; each is optional.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut links = Self::default();
        for entry in text.split_whitespace() {
            let (name, url) = entry.split_once('=').unwrap_or((entry, ""));
            let link = match name {
                "terms" => &mut links.terms,
                "privacy" => &mut links.privacy,
                "imprint" => &mut links.imprint,
                _ => return Err(format!("has the entry {name}: use terms, privacy and imprint")),
            };
            let is_path = url.starts_with('/') && !url.starts_with("//");
            if !is_path && !url.starts_with("https://") {
                return Err(format!("has no https:// URL and no path for {name}"));
            }
            *link = Some(url.to_owned());
        }
        Ok(links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_https_urls_or_paths() {
        assert_eq!(LegalLinks::parse(" "), Ok(LegalLinks::default()));
        let links = LegalLinks::parse("terms=https://shop.example/terms?a=b  imprint=/imprint.html").expect("links");
        let json = serde_json::json!({ "terms": "https://shop.example/terms?a=b", "imprint": "/imprint.html" });
        assert_eq!(serde_json::to_value(links).expect("JSON"), json);
        for wrong in ["terms", "terms=", "help=/help", "terms=http://shop.example", "terms=//x", "terms=javascript:1"] {
            assert!(LegalLinks::parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }
}
