//! Security headers of every file.

use std::rc::Rc;

use domain::sign_in::SignInSettings;
use platform::http::Response;

/// The page that shows human checks.
const SALE_PAGE: &str = "sale.html";

/// The content security policies of an instance.
#[derive(Default)]
pub struct Policies {
    /// Of every other file.
    usual: Rc<str>,
    /// Of the page that shows human checks: also allows what a hosted check loads.
    sale_page: Rc<str>,
}

impl Policies {
    /// Makes the policies; `widget_sources` are those of hosted checks, or empty; `style_source` is that of the shop's
    /// colours, or empty.
    pub fn new(widget_sources: &str, sign_in: &SignInSettings, style_source: &str) -> Self {
        let [usual, sale_page] = ["", widget_sources].map(|sources| policy(sources, sign_in, style_source).into());
        Self { usual, sale_page }
    }

    /// Adds the security headers to the response for a file.
    pub fn add_headers(&self, response: Response, name: &str) -> Response {
        let policy = if name == SALE_PAGE { &self.sale_page } else { &self.usual };
        response
            .header("content-security-policy", policy.to_string())
            .header("x-content-type-options", "nosniff")
            // The URL of an order's page contains its order number.
            .header("referrer-policy", "same-origin")
            .header("cross-origin-opener-policy", "same-origin")
    }
}

/// Allows scripts and styles only as files from this origin, and from the sources of a hosted check's widget, which also
/// opens frames. Images may come from any HTTPS URL, because operators enter image URLs, and from `data:` URLs, because
/// picture puzzles are sent as such. The shop's colours are an inline style, allowed by its hash. Requests and forms may
/// also go to the origins that the configured sign-in needs.
fn policy(widget_sources: &str, sign_in: &SignInSettings, style_source: &str) -> String {
    let [connect, form] = [&sign_in.connect_origins, &sign_in.form_origins]
        .map(|origins| origins.iter().fold(String::new(), |list, origin| format!("{list} {origin}")));

    let style = if style_source.is_empty() { String::new() } else { format!(" {style_source}") };
    let (more, frames) = match widget_sources {
        "" => (String::new(), String::new()),
        sources => (format!(" {sources}"), format!("frame-src {sources}; ")),
    };
    format!(
        "default-src 'none'; script-src 'self'{more}; worker-src 'self'; style-src 'self'{style}{more}; \
         img-src 'self' data: https:; connect-src 'self'{more}{connect}; {frames}form-action 'self'{form}; \
         base-uri 'none'; frame-ancestors 'none'"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_allows_the_sources_of_a_hosted_check() {
        let policy = policy("https://checks.example https://*.checks.example", &SignInSettings::none(), "");
        for directive in ["script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-src"] {
            let sources = format!("{directive} https://checks.example https://*.checks.example;");
            assert!(policy.contains(&sources), "{policy}");
        }
    }
}
