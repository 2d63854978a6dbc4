//! The headers that keep a page to itself.

use platform::http::Response;

/// Only our own scripts and styles, from files; pictures from anywhere safe, because operators name them by URL, and
/// `data:` because puzzles come so.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
    img-src 'self' data: https:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The answer with them; every file carries them.
pub fn with_security_headers(response: Response) -> Response {
    response
        .header("content-security-policy", CONTENT_SECURITY_POLICY)
        .header("x-content-type-options", "nosniff")
        // An order's number stands in its page's address.
        .header("referrer-policy", "same-origin")
        .header("cross-origin-opener-policy", "same-origin")
}
