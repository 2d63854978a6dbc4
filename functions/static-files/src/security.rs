//! The headers that keep a page to itself.

use http::HeaderMap;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};

/// Only our own scripts and styles, from files; pictures from anywhere safe,
/// because operators name them by URL, and `data:` because puzzles come so.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; \
    style-src 'self'; img-src 'self' data: https:; connect-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";

/// Adds them; every answer carries them, errors too.
pub fn add(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // An order's number stands in its page's address.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
