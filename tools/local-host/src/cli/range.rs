//! Flag values that are either fixed or sampled from a range.

use std::{fmt, str::FromStr, time::Duration};

use rand::RngExt as _;

/// A fixed value, or a range (end excluded) from which [`Range::sample`] takes a random value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range<T> {
    Fixed(T),
    Between(T, T),
}

/// A type whose values a [`Range`] can hold.
pub trait RangeValue: Copy + PartialOrd + rand::distr::uniform::SampleUniform {
    /// Parses a single value.
    fn parse_value(text: &str) -> Result<Self, String>;
}

impl<T: RangeValue> Range<T> {
    /// Returns the fixed value, or a random value from the range.
    pub fn sample(self) -> T {
        match self {
            Self::Fixed(value) => value,
            Self::Between(start, end) => rand::rng().random_range(start..end),
        }
    }
}

impl<T: RangeValue> FromStr for Range<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((start, end)) = text.split_once("..") else {
            return T::parse_value(text).map(Self::Fixed);
        };
        let (start, end) = (T::parse_value(start)?, T::parse_value(end)?);
        if start >= end {
            return Err(format!("the range {text} is empty"));
        }
        Ok(Self::Between(start, end))
    }
}

impl RangeValue for usize {
    fn parse_value(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("expected integer or range; got {text:?}; {error}"))
    }
}

impl RangeValue for Duration {
    fn parse_value(text: &str) -> Result<Self, String> {
        type Unit = (&'static str, fn(u64) -> Duration);
        let units: [Unit; 5] = [
            ("ms", Self::from_millis),
            ("us", Self::from_micros),
            ("μs", Self::from_micros),
            ("ns", Self::from_nanos),
            ("s", Self::from_secs),
        ];
        let (number, unit) = units
            .iter()
            .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
            .unwrap_or((text, Self::from_secs));
        number.parse().map(unit).map_err(|error| {
            format!("expected integer suffixed by `s`, `ms`, `us`, `μs`, or `ns`; got {text:?}; {error}")
        })
    }
}

impl<T: fmt::Display> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(value) => value.fmt(f),
            Self::Between(start, end) => write!(f, "{start}..{end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_ranges_are_parsed() {
        assert_eq!("8".parse(), Ok(Range::Fixed(8_usize)));
        assert_eq!("1..8".parse(), Ok(Range::Between(1_usize, 8)));
        assert_eq!("2".parse(), Ok(Range::Fixed(Duration::from_secs(2))));
        assert_eq!("5ms".parse(), Ok(Range::Fixed(Duration::from_millis(5))));
        let range = Range::Between(Duration::from_secs(1), Duration::from_secs(8));
        assert_eq!("1..8s".parse(), Ok(range));
        for bad in ["", "x", "8..1", "1.."] {
            assert!(bad.parse::<Range<usize>>().is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn ranges_exclude_their_end() {
        let range: Range<usize> = "3..5".parse().unwrap();
        assert!((0..100).all(|_| (3..5).contains(&range.sample())));
    }
}
