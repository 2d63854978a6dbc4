//! Maps file names to content types and caching.

/// How files with an extension are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaType {
    /// The value of `content-type`.
    pub content_type: &'static str,
    /// Whether the file may have `.br` and `.gz` variants.
    pub has_variants: bool,
}

/// Returns the media type of the file at `path`; `None` if it is not served, such as `.br` and `.gz` variants under
/// their own names.
pub fn media(path: &str) -> Option<MediaType> {
    let (_, extension) = path.rsplit_once('.')?;
    let (content_type, has_variants) = match extension {
        "html" => ("text/html; charset=utf-8", true),
        "js" => ("text/javascript; charset=utf-8", true),
        "css" => ("text/css; charset=utf-8", true),
        "svg" => ("image/svg+xml", true),
        "json" => ("application/json", true),
        "webmanifest" => ("application/manifest+json", true),
        "txt" => ("text/plain; charset=utf-8", true),
        "png" => ("image/png", false),
        "jpg" | "jpeg" => ("image/jpeg", false),
        "webp" => ("image/webp", false),
        "avif" => ("image/avif", false),
        "ico" => ("image/x-icon", false),
        "woff2" => ("font/woff2", false),
        _ => return None,
    };
    Some(MediaType { content_type, has_variants })
}

/// Returns whether the name contains a hash of the content, as `scripts/assets` adds it: `buy.0123456789abcdef.js`.
/// Such a file never changes.
pub fn is_hashed(path: &str) -> bool {
    let mut parts = path.rsplit('.');
    let hash = parts.nth(1).unwrap_or_default();
    parts.next().is_some_and(|stem| !stem.is_empty())
        && hash.len() == 16
        && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns whether the file belongs to one version of the client, such as `client/0.1.0/element.js`, and never changes.
/// Those of `client/v1` do.
pub fn is_versioned(path: &str) -> bool {
    path.strip_prefix("client/").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_hash_counts_as_one() {
        assert!(is_hashed("assets/js/buy.0123456789abcdef.js"));
        assert!(!is_hashed("assets/js/buy.js"));
        assert!(!is_hashed("assets/js/buy.0123456789abcdeg.js"));
        assert!(!is_hashed("assets/js/buy.0123456789abcde.js"));
        assert!(!is_hashed("0123456789abcdef.js"));
    }
}
