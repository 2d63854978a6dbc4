//! Lists of secrets in a variable, and rejection of weak ones (G7).

use base64::{Engine, prelude::BASE64_STANDARD};
use subtle::ConstantTimeEq;

/// Minimum length of a secret, in bytes.
pub const MIN_BYTES: usize = 32;

/// Minimum length of the key in a `whsec_` secret, in bytes (Standard Webhooks 1.0).
pub const MIN_WEBHOOK_BYTES: usize = 24;

/// Before a secret of the variable `ticket_secret` that verifies order numbers, and nothing else any more.
const RETIRED: &str = "retired:";

/// The secrets of a variable that sign and verify, newest first.
pub fn active(secrets: &str) -> impl Iterator<Item = &str> {
    secrets.split_ascii_whitespace().filter(|word| !word.starts_with(RETIRED))
}

/// The active secrets of a variable, newest first, then the retired ones.
pub fn all(secrets: &str) -> impl Iterator<Item = &str> {
    active(secrets).chain(secrets.split_ascii_whitespace().filter_map(|word| word.strip_prefix(RETIRED)))
}

/// Whether a client sent the secret. The time does not depend on how much of a guess is right, only on its length.
#[must_use]
pub fn matches(secret: &str, sent: &str) -> bool {
    secret.as_bytes().ct_eq(sent.as_bytes()).into()
}

/// Returns why a variable's secrets must not be used, or `None` if there is an active one and all are acceptable.
#[must_use]
pub fn fault(secrets: &str) -> Option<&'static str> {
    match active(secrets).next() {
        None => Some("is empty"),
        Some(_) => all(secrets).find_map(weakness),
    }
}

/// Returns why a secret must not be used, or `None` if it is acceptable.
///
/// Checks length, number of distinct bytes, and placeholder words from examples. It cannot measure randomness.
#[must_use]
pub fn weakness(secret: &str) -> Option<&'static str> {
    if secret.is_empty() {
        Some("is empty")
    } else if secret.len() < MIN_BYTES {
        Some("is shorter than 32 bytes")
    } else {
        guessable(secret)
    }
}

/// Returns why the `whsec_` secrets of Standard Webhooks must not be used, or `None` if there is one and all are
/// acceptable. `whsec_` alone is a valid encoding of an empty key, with which any client could sign.
#[must_use]
pub fn webhook_fault(secrets: &str) -> Option<&'static str> {
    whsec_fault(secrets, |key| BASE64_STANDARD.decode(key).map(|key| key.len()).ok())
}

/// The same for Stripe's endpoint secrets, whose text is the key.
#[must_use]
pub fn stripe_fault(secrets: &str) -> Option<&'static str> {
    whsec_fault(secrets, |key| Some(key.len()))
}

fn whsec_fault(secrets: &str, key_bytes: impl Fn(&str) -> Option<usize>) -> Option<&'static str> {
    if secrets.trim().is_empty() {
        return Some("is empty");
    }
    secrets.split_ascii_whitespace().find_map(|secret| {
        let Some(key) = secret.strip_prefix("whsec_") else {
            return Some("holds an entry that does not begin with whsec_");
        };
        match key_bytes(key) {
            None => Some("holds an entry that is not base64 after whsec_"),
            Some(bytes) if bytes < MIN_WEBHOOK_BYTES => Some("holds a key that is shorter than 24 bytes"),
            Some(_) => guessable(key),
        }
    })
}

/// Returns why a text of sufficient length is no secret.
fn guessable(secret: &str) -> Option<&'static str> {
    const PLACEHOLDERS: [&str; 6] = ["changeme", "change-me", "password", "secret", "example", "default"];
    let lower = secret.to_ascii_lowercase();
    let mut seen = [false; 256];
    secret.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    if seen.iter().filter(|seen| **seen).count() < 8 {
        Some("repeats fewer than 8 different bytes")
    } else if PLACEHOLDERS.iter().any(|word| lower.contains(word)) {
        Some("looks like a value from an example")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_secret_is_not_active_and_comes_last() {
        let secrets = "  new retired:older\told ";
        assert_eq!(active(secrets).collect::<Vec<_>>(), ["new", "old"]);
        assert_eq!(all(secrets).collect::<Vec<_>>(), ["new", "old", "older"]);
    }

    #[test]
    fn one_weak_secret_or_no_active_one_is_a_fault() {
        let strong = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
        for (secrets, expected) in [
            (strong.to_owned(), None),
            (format!("{strong} retired:{strong}"), None),
            (String::new(), Some("is empty")),
            (" ".to_owned(), Some("is empty")),
            (format!("retired:{strong}"), Some("is empty")),
            (format!("{strong} short"), Some("is shorter than 32 bytes")),
            (format!("{strong} retired:short"), Some("is shorter than 32 bytes")),
            ("ab".repeat(32), Some("repeats fewer than 8 different bytes")),
            ("changeme-".repeat(4), Some("looks like a value from an example")),
        ] {
            assert_eq!(fault(&secrets), expected, "{secrets:?}");
        }
    }

    #[test]
    fn only_the_whole_secret_matches() {
        assert!(matches("secret", "secret"));
        for sent in ["", "secre", "secret ", "Secret", "secrets"] {
            assert!(!matches("secret", sent), "{sent:?}");
        }
    }

    #[test]
    fn a_webhook_secret_has_24_bytes() {
        let strong = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        assert_eq!([webhook_fault(strong), stripe_fault(strong)], [None, None]);
        assert_eq!(webhook_fault(&format!("{strong} {strong}")), None);
        let repeated = format!("whsec_{}", "A".repeat(32));
        for weak in ["", " ", "whsec_", "whsec_c2hvcnQ=", "C2FVsBQIhrscChlQIMV+b5sSYspob7oD", &repeated] {
            let both = format!("{strong} {weak}");
            assert!(webhook_fault(weak).is_some() && stripe_fault(weak).is_some(), "{weak:?}");
            assert_eq!(webhook_fault(&both).is_none(), weak.trim().is_empty(), "{both:?}");
        }
        assert!(webhook_fault("whsec_****************************************").is_some(), "not base64");
    }
}
