//! Timestamps in milliseconds, and their formats on the wire.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

/// Milliseconds since 1970-01-01T00:00:00Z. Serialised as RFC 3339 in UTC (`Z`) with three decimals.
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

/// Serialises 0, which the ledger has for no time, as null; for `serialize_with`.
///
/// # Errors
/// Those of the serialiser.
pub fn null_if_zero<S: Serializer>(time: &Millis, serializer: S) -> Result<S::Ok, S::Error> {
    Some(time).filter(|time| time.0 != 0).serialize(serializer)
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
        // The years that RFC 3339 can write.
        let ms = self.0.clamp(-62_167_219_200_000, 253_402_300_799_999);
        let moment = OffsetDateTime::from_unix_timestamp(ms.div_euclid(1_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = moment.to_calendar_date();
        let (hour, minute, second) = moment.to_hms();
        let month = u8::from(month);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", ms.rem_euclid(1_000))
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
    fn a_time_has_three_decimals() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1, "1970-01-01T00:00:00.001Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_795_266_138_500, "2026-11-21T13:02:18.500Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(Millis(ms).to_string(), text);
        }
        assert_eq!(Millis::parse("2026-11-21T13:02:18.5Z"), Ok(Millis(1_795_266_138_500)));
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
