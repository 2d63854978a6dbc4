//! API errors for failed stores: an unavailable store is never a failed order (D8).

use domain::http::problem::{Code, Problem};

use crate::StoreError;

impl StoreError {
    /// Whether a store or the issuer was away, or a store busy with a rebuild: a retry may succeed.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        let is_away =
            matches!(self, Self::RedisUnavailable(_) | Self::LedgerUnavailable(_) | Self::IssuerUnavailable(_));
        is_away || *self == Self::Rebuilding
    }

    /// The API error for a failure that a handler does not expect: `not_ready` if the store
    /// [is unavailable](Self::is_unavailable), otherwise `internal`. The store's own text is never part of it.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        if !self.is_unavailable() {
            return Problem::internal();
        }
        let detail = match self {
            Self::IssuerUnavailable(_) => "Your sign-in cannot be checked now. Nothing is lost: ask again.",
            _ => "A store is not reachable. Nothing is lost: ask again, for an order with the same ticket.",
        };
        Problem::new(Code::NotReady, detail).retry_after(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "canceling statement due to lock timeout";

    #[test]
    fn only_an_unavailable_store_or_a_rebuild_is_worth_a_retry() {
        let text = || TEXT.to_owned();
        for (error, code) in [
            (StoreError::RedisUnavailable(text()), Code::NotReady),
            (StoreError::LedgerUnavailable(text()), Code::NotReady),
            (StoreError::IssuerUnavailable(text()), Code::NotReady),
            (StoreError::Rebuilding, Code::NotReady),
            (StoreError::RedisRefused(text()), Code::Internal),
            (StoreError::LedgerRefused(text()), Code::Internal),
            (StoreError::LedgerDataException(text()), Code::Internal),
            (StoreError::LedgerNotMigrated(text()), Code::Internal),
            (StoreError::Malformed(text()), Code::Internal),
        ] {
            let problem = error.to_problem();
            assert_eq!(problem.code, code, "{error}");
            assert!(!problem.to_json().contains(TEXT), "{error}: the store's text is sent");
        }
    }
}
