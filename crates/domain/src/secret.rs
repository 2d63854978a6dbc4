//! Lists of secrets in a variable, and rejection of weak ones (G7).

/// Minimum length of a secret, in bytes.
pub const MIN_BYTES: usize = 32;

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

/// Returns why a secret must not be used, or `None` if it is acceptable.
///
/// Checks length, number of distinct bytes, and placeholder words from examples. It cannot measure randomness.
#[must_use]
pub fn weakness(secret: &str) -> Option<&'static str> {
    const PLACEHOLDERS: [&str; 6] = ["changeme", "change-me", "password", "secret", "example", "default"];
    let lower = secret.to_ascii_lowercase();
    let mut seen = [false; 256];
    secret.bytes().for_each(|byte| seen[usize::from(byte)] = true);
    if secret.is_empty() {
        Some("is empty")
    } else if secret.len() < MIN_BYTES {
        Some("is shorter than 32 bytes")
    } else if seen.iter().filter(|seen| **seen).count() < 8 {
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
    fn short_repeated_and_example_secrets_are_weak() {
        for weak in ["", "short", &"a".repeat(64), &"ab".repeat(32), "changeme-changeme-changeme-changeme-1234"] {
            assert!(weakness(weak).is_some(), "{weak:?} was accepted");
        }
        assert_eq!(weakness("kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-"), None);
    }
}
