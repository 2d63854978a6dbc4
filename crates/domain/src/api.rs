//! The bodies of requests and responses that are no other type of this crate or of the slices.

pub mod admission;
pub mod operators;
pub mod orders;
pub mod payments;
pub mod visitors;

use schemars::JsonSchema;
use serde::Serialize;

use crate::http::problem::{FieldError, Problem};

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The entries.
    pub items: Vec<T>,
    /// The `before` of the next page; null after the last one.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The first `limit` entries of `found`, which has one more if there is a next page. `cursor` names an entry.
    #[must_use]
    pub fn new(mut found: Vec<T>, limit: i64, cursor: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit).unwrap_or_default();
        let has_next = found.len() > limit;
        found.truncate(limit);
        Self { next: found.last().filter(|_| has_next).map(cursor), items: found }
    }

    /// The page of up to `limit` entries of a whole list after the one with the cursor `before`, if there is one.
    ///
    /// # Errors
    /// `invalid_request` if no entry has this cursor.
    pub fn of_all(
        mut all: Vec<T>,
        before: Option<&str>,
        limit: i64,
        cursor: impl Fn(&T) -> String,
    ) -> Result<Self, Problem> {
        if let Some(before) = before {
            let position = all.iter().position(|entry| cursor(entry) == before);
            let unknown = || Problem::invalid(vec![FieldError::new("?before", "names no entry of the list")]);
            all.drain(..=position.ok_or_else(unknown)?);
        }
        Ok(Self::new(all, limit, cursor))
    }
}

/// The result of each check of readiness: `ok`, or what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Checks {
    /// Redis.
    pub redis: String,
    /// The ledger.
    pub ledger: String,
    /// The key-value store.
    pub key_value: String,
    /// The variables that hold secrets.
    pub secrets: String,
    /// The shop's endpoint for events, whose fault does not make the app unready.
    pub events: String,
}

/// The app is ready.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Ready {
    /// Always `ready`.
    #[schemars(extend("const" = "ready"))]
    pub status: &'static str,
    /// The result of each check; only for a caller with the admin or metrics token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Checks")]
    pub checks: Option<Checks>,
}

/// The instance handles requests.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Live {
    /// Always `ok`.
    #[schemars(extend("const" = "ok"))]
    pub status: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_until_next_is_null() {
        let cursor = |number: &i32| number.to_string();
        let page =
            |before, limit| Page::of_all(vec![5, 4, 3, 2], before, limit, cursor).map(|page| (page.items, page.next));
        assert_eq!(page(None, 2), Ok((vec![5, 4], Some("4".to_owned()))));
        assert_eq!(page(Some("4"), 2), Ok((vec![3, 2], None)));
        assert_eq!(page(Some("2"), 2), Ok((vec![], None)));
        assert_eq!(page(None, 4), Ok((vec![5, 4, 3, 2], None)));
        assert_eq!(page(Some("9"), 2).map_err(|problem| problem.errors[0].pointer.clone()), Err("?before".to_owned()));
    }
}
