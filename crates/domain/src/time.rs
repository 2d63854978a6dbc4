//! Timestamps in milliseconds, and their formats on the wire.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

/// Milliseconds since 1970-01-01T00:00:00Z. Serialised as RFC 3339 in UTC (`Z`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Millis(pub i64);

impl Millis {
    /// Parses RFC 3339 with any offset.
    ///
    /// # Errors
    /// A message for the client if `text` is not RFC 3339 or out of range.
    pub fn parse(text: &str) -> Result<Self, String> {
        let moment = OffsetDateTime::parse(text, &Rfc3339)
            .map_err(|_| "a time is RFC 3339, such as 2026-11-21T20:00:00Z".to_owned())?;
        i64::try_from(moment.unix_timestamp_nanos() / 1_000_000)
            .map(Self)
            .map_err(|_| "this time is too far away".to_owned())
    }

    /// The moment `ms` milliseconds later; saturates.
    #[must_use]
    pub fn plus(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Whole seconds until `later`, rounded up and at least `min`: a value for `Retry-After`.
    #[must_use]
    pub fn seconds_until(self, later: Self, min: i64) -> i64 {
        ceil_seconds(later.0.saturating_sub(self.0)).max(min)
    }
}

/// Milliseconds as whole seconds, rounded up; a negative value is 0.
#[must_use]
pub fn ceil_seconds(ms: i64) -> i64 {
    ms.max(0).saturating_add(999) / 1000
}

/// Parses a `Retry-After` header, in seconds or as an HTTP date, to milliseconds from `now`. `None` if it is neither.
#[must_use]
pub fn parse_retry_after(text: &str, now: Millis) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<i64>().ok()?.checked_mul(1_000);
    }
    let until = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((i64::try_from(until.as_millis()).ok()? - now.0).max(0))
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .ok()
            .and_then(|moment| moment.to_offset(UtcOffset::UTC).format(&Rfc3339).ok());
        f.write_str(text.as_deref().unwrap_or("1970-01-01T00:00:00Z"))
    }
}

crate::ids::text_conversions!(Millis, String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_accepted_and_invalid_times_are_refused() {
        assert_eq!(Millis::parse("1970-01-01T01:00:00+01:00"), Ok(Millis(0)));
        assert!(Millis::parse("tomorrow").is_err());
        assert!(Millis::parse("2026-02-30T00:00:00Z").is_err());
    }

    #[test]
    fn retry_after_is_seconds_or_an_http_date() {
        let now = Millis(1_445_412_470_000);
        assert_eq!(parse_retry_after(" 120 ", now), Some(120_000));
        assert_eq!(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT", now), Some(10_000));
        assert_eq!(parse_retry_after("Wed, 21 Oct 2015 07:27:00 GMT", now), Some(0));
        for nonsense in ["", "-1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(parse_retry_after(nonsense, now), None, "{nonsense:?}");
        }
    }

    #[test]
    fn seconds_are_rounded_up() {
        assert_eq!(Millis(0).seconds_until(Millis(1), 0), 1);
        assert_eq!(Millis(0).seconds_until(Millis(1000), 0), 1);
        assert_eq!(Millis(5000).seconds_until(Millis(0), 1), 1);
    }
}
