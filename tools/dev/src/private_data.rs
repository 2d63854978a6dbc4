//! Finds secrets and personal data in the logs of tests (G6).
//!
//! Tests use few names of buyers, and addresses that are reserved for documents: none of them is in a log by chance.

use std::{fs, path::Path, sync::LazyLock};

use regex::Regex;

use crate::variables::Variables;

/// Names of buyers, postal and IP addresses, sign-in tokens, tickets, and passwords in URLs.
#[allow(clippy::expect_used, reason = "the pattern is a constant")]
static PRIVATE: LazyLock<Regex> = LazyLock::new(|| {
    let patterns = [
        r"(?i)\b(ada|bob|cyd|eve|hal|mallory|mill lane|planted)\b",
        r"\b(192\.0\.2|198\.51\.100|203\.0\.113)\.\d",
        r"(?i)\b2001:db8:",
        r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
        r"\b1\.[^. ]+\.[a-z0-9-]+\.[0-9A-Z]{26}\.\d+\.",
        r"\bwhsec_.",
        r"://[^/@ ]*:[^/@ ]+@",
    ];
    Regex::new(&patterns.join("|")).expect("a pattern")
});

/// The shortest secret that is searched for, in bytes: shorter ones are parts of other words.
const MIN_SECRET_BYTES: usize = 24;

/// Returns the first line of `text` that contains a secret of `variables` or personal data of a test.
pub fn find<'a>(text: &'a str, variables: &Variables) -> Option<&'a str> {
    let secrets: Vec<_> =
        variables.iter().filter(|(name, _)| is_secret(name)).flat_map(|(_, value)| parts(value)).collect();
    text.lines().find(|line| PRIVATE.is_match(line) || secrets.iter().any(|secret| line.contains(secret)))
}

/// As [`find`], in the log at `path` and the part of it that was renamed to `<path>.1`.
pub fn find_in_log(path: &Path, variables: &Variables) -> Option<String> {
    let texts = [path.to_owned(), path.with_extension("log.1")].map(|path| fs::read(path).unwrap_or_default());
    texts.iter().find_map(|text| find(&String::from_utf8_lossy(text), variables).map(str::to_owned))
}

fn is_secret(name: &str) -> bool {
    ["_token", "_tokens", "_secret", "_secrets", "_key"].iter().any(|end| name.ends_with(end))
}

/// The secrets in a value that has several, and names before them.
fn parts(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split_whitespace().filter_map(|word| word.rsplit(':').next());
    words.filter(|word| word.len() >= MIN_SECRET_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_tokens_users_and_addresses_are_found() {
        let mut variables = Variables::default();
        variables
            .set("operator_tokens", "olga:read:0123456789abcdefghijklmnop otto:operate:zyxwvutsrqponmlkjihgfedcba");
        let found = |line: &str| find(&format!("first\n{line}\nlast"), &variables) == Some(line);
        for line in [
            r#"{"token":"zyxwvutsrqponmlkjihgfedcba"}"#,
            r#"{"user":"ada"}"#,
            "GET /api/admin/bans/ip/203.0.113.9",
            "client 2001:DB8::7",
            "Bearer eyJ0eXAiOiJKV1QifQ.eyJzdWIiOiJhIn0.c2ln",
            "ticket 1.a8f3.sale-1.01ARZ3NDEKTSV4RRFFQ69G5FAV.1790000000.0.YWRh.c2ln",
            "redis://:secret@127.0.0.1:6379",
            "1 Mill Lane",
        ] {
            assert!(found(line), "{line}");
        }
        let harmless =
            r#"{"order_no":"sale-1.01ARZ3NDEKTSV4RRFFQ69G5FAV","operator":"olga"} Serving http://127.0.0.1:3000"#;
        assert!(!found(harmless));
    }
}
