//! Security headers of every file.

use platform::http::Response;

/// Allows scripts and styles only as files from this origin. Images may come from any HTTPS URL, because operators
/// enter image URLs, and from `data:` URLs, because picture puzzles are sent as such.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
    img-src 'self' data: https:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Adds the security headers to a response.
pub fn with_security_headers(response: Response) -> Response {
    response
        .header("content-security-policy", CONTENT_SECURITY_POLICY)
        .header("x-content-type-options", "nosniff")
        // The URL of an order's page contains its order number.
        .header("referrer-policy", "same-origin")
        .header("cross-origin-opener-policy", "same-origin")
}
