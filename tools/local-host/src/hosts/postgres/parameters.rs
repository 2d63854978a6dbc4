//! Converts the guest's parameters to SQL parameters.

use anyhow::Context as _;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use postgres_range::{BoundSided, BoundType, Normalizable, Range, RangeBound};
use tokio_postgres::types::ToSql;

use super::types::{Decimal, Interval, Null};
use crate::bindings::postgres::{ParameterValue, RangeBoundKind};

type Parameter = Box<dyn ToSql + Send + Sync>;
type GuestBound<T> = Option<(T, RangeBoundKind)>;

/// Converts the parameters of a statement.
///
/// # Errors
/// If a value is malformed, for example a date that does not exist.
pub fn convert(values: &[ParameterValue]) -> anyhow::Result<Vec<Parameter>> {
    values.iter().map(parameter).collect()
}

fn parameter(value: &ParameterValue) -> anyhow::Result<Parameter> {
    use ParameterValue as P;
    Ok(match value {
        P::Boolean(value) => Box::new(*value),
        P::Int8(value) => Box::new(*value),
        P::Int16(value) => Box::new(*value),
        P::Int32(value) => Box::new(*value),
        P::Int64(value) => Box::new(*value),
        P::Floating32(value) => Box::new(*value),
        P::Floating64(value) => Box::new(*value),
        P::Str(value) => Box::new(value.clone()),
        P::Binary(value) => Box::new(value.clone()),
        P::Date((y, m, d)) => Box::new(date(*y, *m, *d)?),
        P::Time((h, m, s, n)) => Box::new(time(*h, *m, *s, *n)?),
        P::Datetime((y, mo, d, h, mi, s, n)) => {
            Box::new(NaiveDateTime::new(date(*y, *mo, *d)?, time(*h, *mi, *s, *n)?))
        }
        P::Timestamp(seconds) => Box::new(
            DateTime::<Utc>::from_timestamp(*seconds, 0)
                .with_context(|| format!("invalid epoch timestamp {seconds}"))?,
        ),
        P::Uuid(value) => Box::new(uuid::Uuid::parse_str(value).with_context(|| format!("invalid UUID {value}"))?),
        P::Jsonb(value) => Box::new(
            serde_json::from_slice::<serde_json::Value>(value)
                .with_context(|| format!("invalid JSON {}", String::from_utf8_lossy(value)))?,
        ),
        P::Decimal(value) => Box::new(decimal(value)?),
        P::RangeInt32((lower, upper)) => Box::new(range(*lower, *upper)),
        P::RangeInt64((lower, upper)) => Box::new(range(*lower, *upper)),
        P::RangeDecimal((lower, upper)) => Box::new(range(decimal_bound(lower)?, decimal_bound(upper)?)),
        P::ArrayInt32(values) => Box::new(values.clone()),
        P::ArrayInt64(values) => Box::new(values.clone()),
        P::ArrayDecimal(values) => Box::new(
            values.iter().map(|value| value.as_deref().map(decimal).transpose()).collect::<anyhow::Result<Vec<_>>>()?,
        ),
        P::ArrayStr(values) => Box::new(values.clone()),
        P::Interval(value) => Box::new(Interval(*value)),
        P::DbNull => Box::new(Null),
    })
}

fn date(year: i32, month: u8, day: u8) -> anyhow::Result<NaiveDate> {
    NaiveDate::from_ymd_opt(year, month.into(), day.into())
        .with_context(|| format!("invalid date y={year}, m={month}, d={day}"))
}

fn time(hour: u8, minute: u8, second: u8, nano: u32) -> anyhow::Result<NaiveTime> {
    NaiveTime::from_hms_nano_opt(hour.into(), minute.into(), second.into(), nano)
        .with_context(|| format!("invalid time {hour}:{minute}:{second}:{nano}"))
}

fn decimal(text: &str) -> anyhow::Result<rust_decimal::Decimal> {
    rust_decimal::Decimal::from_str_exact(text).with_context(|| format!("invalid decimal {text}"))
}

fn decimal_bound(bound: &GuestBound<String>) -> anyhow::Result<GuestBound<Decimal>> {
    bound.as_ref().map(|(text, kind)| Ok((Decimal(decimal(text)?), *kind))).transpose()
}

fn range<T: Normalizable + PartialOrd>(lower: GuestBound<T>, upper: GuestBound<T>) -> Range<T> {
    Range::new(lower.map(bound), upper.map(bound))
}

fn bound<S: BoundSided, T: PartialOrd>((value, kind): (T, RangeBoundKind)) -> RangeBound<S, T> {
    RangeBound::new(
        value,
        match kind {
            RangeBoundKind::Inclusive => BoundType::Inclusive,
            RangeBoundKind::Exclusive => BoundType::Exclusive,
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_parameters_are_refused() {
        use ParameterValue as P;
        for bad in [
            P::Date((2024, 2, 30)),
            P::Time((24, 0, 0, 0)),
            P::Uuid("x".into()),
            P::Jsonb(b"{".to_vec()),
            P::Decimal("1,5".into()),
            P::ArrayDecimal(vec![None, Some("x".into())]),
        ] {
            assert!(convert(std::slice::from_ref(&bad)).is_err(), "{bad:?} was accepted");
        }
        convert(&[P::Date((2024, 2, 29)), P::Decimal("1.50".into()), P::DbNull]).unwrap();
    }
}
