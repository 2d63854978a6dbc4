//! Security headers of every file.

use base64::{Engine, prelude::BASE64_STANDARD};
use domain::sign_in::SignInSettings;
use platform::http::Response;
use sha2::{Digest, Sha256};

/// The page that shows human checks.
const SALE_PAGE: &str = "sale.html";

/// What the content security policies of an instance allow.
pub struct Policies {
    /// What hosted checks load; may be empty.
    widget_sources: String,
    /// Origins to which pages may send requests, each behind a space.
    connect: String,
    /// Origins to which pages may send forms, each behind a space.
    form: String,
}

impl Policies {
    /// `widget_sources` are those of hosted checks, or empty.
    pub fn new(widget_sources: String, sign_in: &SignInSettings) -> Self {
        let [connect, form] = [&sign_in.connect_origins, &sign_in.form_origins]
            .map(|origins| origins.iter().fold(String::new(), |list, origin| format!("{list} {origin}")));
        Self { widget_sources, connect, form }
    }

    /// Returns the policy of the file `name`, with this text if it is a page.
    ///
    /// It allows scripts and styles as files from this origin, and those that the page contains, by their hashes. A page
    /// that shows hosted checks may also load them, which open frames. Images may come from any HTTPS URL, because operators
    /// enter image URLs, and from `data:` URLs, because picture puzzles are sent as such. Requests and forms may also go to
    /// the origins that the configured sign-in needs.
    pub fn of(&self, name: &str, page: &str) -> String {
        let Self { widget_sources, connect, form } = self;
        let [scripts, styles] = ["script", "style"].map(|element| hashes(page, element));
        let (more, frames) = match widget_sources.as_str() {
            sources if name == SALE_PAGE && !sources.is_empty() => {
                (format!(" {sources}"), format!("frame-src {sources}; "))
            }
            _ => (String::new(), String::new()),
        };
        format!(
            "default-src 'none'; script-src 'self'{scripts}{more}; worker-src 'self'; style-src 'self'{styles}{more}; \
             img-src 'self' data: https:; connect-src 'self'{more}{connect}; {frames}form-action 'self'{form}; \
             base-uri 'none'; frame-ancestors 'none'"
        )
    }
}

/// The sources that allow the contents of the page's elements `<script>` or `<style>` without attributes.
fn hashes(page: &str, element: &str) -> String {
    let [start, end] = [format!("<{element}>"), format!("</{element}>")];
    let contents = page.split(&start).skip(1).filter_map(|part| part.split_once(&end));
    contents.fold(String::new(), |list, (content, _)| {
        format!("{list} 'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(content)))
    })
}

/// Adds the security headers to the response for a file.
pub fn add_headers(response: Response, policy: &str) -> Response {
    response
        .header("content-security-policy", policy.to_owned())
        .header("x-content-type-options", "nosniff")
        // The URL of an order's page contains its order number.
        .header("referrer-policy", "same-origin")
        .header("cross-origin-opener-policy", "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_sale_page_allows_the_sources_of_a_hosted_check() {
        let policies =
            Policies::new("https://checks.example https://*.checks.example".to_owned(), &SignInSettings::none());
        let policy = policies.of(SALE_PAGE, "");
        for directive in ["script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-src"] {
            let sources = format!("{directive} https://checks.example https://*.checks.example;");
            assert!(policy.contains(&sources), "{policy}");
        }
        assert!(!policies.of("index.html", "").contains("checks.example"));
    }

    #[test]
    fn a_page_allows_exactly_the_scripts_and_styles_that_it_contains() {
        let page = "<script>alert(1)</script><style>a{}</style><style>b{}</style><script src=\"/a.js\"></script>";
        let policy = Policies::new(String::new(), &SignInSettings::none()).of("index.html", page);
        let hash = |text: &str| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)));
        let [script, a, b] = ["alert(1)", "a{}", "b{}"].map(hash);
        assert!(policy.contains(&format!("script-src 'self' {script};")), "{policy}");
        assert!(policy.contains(&format!("style-src 'self' {a} {b};")), "{policy}");
        assert_eq!(policy.matches("sha256").count(), 3, "{policy}");
    }
}
