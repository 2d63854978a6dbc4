//! Converts SQL values to the guest's values.

use anyhow::Context as _;
use chrono::{Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, Timelike as _};
use postgres_range::{BoundSided, BoundType, Normalizable, Range, RangeBound};
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};

use super::types::{Decimal, Interval, Raw};
use crate::bindings::postgres::{Column, DbDataType, DbValue, RangeBoundKind};

type GuestBound<T> = Option<(T, RangeBoundKind)>;

/// Returns the names and types of a row's columns.
pub fn columns(row: &Row) -> Vec<Column> {
    row.columns()
        .iter()
        .map(|column| Column { name: column.name().to_owned(), data_type: data_type(column.type_()) })
        .collect()
}

/// Converts the values of a row.
///
/// # Errors
/// If a value does not fit into the guest's type.
pub fn convert(row: &Row) -> anyhow::Result<Vec<DbValue>> {
    (0..row.len()).map(|index| value(row, index)).collect()
}

/// Returns the memory that values occupy, in bytes.
pub fn size(values: &[DbValue]) -> usize {
    let heap_size = |value: &DbValue| match value {
        DbValue::Str(text) | DbValue::Uuid(text) | DbValue::Decimal(text) => text.len(),
        DbValue::Jsonb(bytes) | DbValue::Binary(bytes) | DbValue::Unsupported(bytes) => bytes.len(),
        DbValue::ArrayInt32(values) => size_of_val(&**values),
        DbValue::ArrayInt64(values) => size_of_val(&**values),
        DbValue::ArrayDecimal(values) | DbValue::ArrayStr(values) => {
            size_of_val(&**values) + values.iter().map(|value| value.as_ref().map_or(0, String::len)).sum::<usize>()
        }
        _ => 0,
    };
    values.iter().map(|value| size_of::<DbValue>() + heap_size(value)).sum()
}

fn data_type(kind: &Type) -> DbDataType {
    match *kind {
        Type::BOOL => DbDataType::Boolean,
        Type::BYTEA => DbDataType::Binary,
        Type::FLOAT4 => DbDataType::Floating32,
        Type::FLOAT8 => DbDataType::Floating64,
        Type::INT2 => DbDataType::Int16,
        Type::INT4 => DbDataType::Int32,
        Type::INT8 => DbDataType::Int64,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => DbDataType::Str,
        Type::TIMESTAMP | Type::TIMESTAMPTZ => DbDataType::Datetime,
        Type::DATE => DbDataType::Date,
        Type::TIME => DbDataType::Time,
        Type::UUID => DbDataType::Uuid,
        Type::JSONB => DbDataType::Jsonb,
        Type::NUMERIC => DbDataType::Decimal,
        Type::INT4_RANGE => DbDataType::RangeInt32,
        Type::INT8_RANGE => DbDataType::RangeInt64,
        Type::NUM_RANGE => DbDataType::RangeDecimal,
        Type::INT4_ARRAY => DbDataType::ArrayInt32,
        Type::INT8_ARRAY => DbDataType::ArrayInt64,
        Type::NUMERIC_ARRAY => DbDataType::ArrayDecimal,
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY | Type::BPCHAR_ARRAY => DbDataType::ArrayStr,
        Type::INTERVAL => DbDataType::Interval,
        _ => DbDataType::Other(kind.name().to_owned()),
    }
}

fn value(row: &Row, index: usize) -> anyhow::Result<DbValue> {
    let column = row.columns().get(index).context("there is no such column")?;
    match *column.type_() {
        Type::BOOL => decode(row, index, DbValue::Boolean),
        Type::BYTEA => decode(row, index, DbValue::Binary),
        Type::FLOAT4 => decode(row, index, DbValue::Floating32),
        Type::FLOAT8 => decode(row, index, DbValue::Floating64),
        Type::INT2 => decode(row, index, DbValue::Int16),
        Type::INT4 => decode(row, index, DbValue::Int32),
        Type::INT8 => decode(row, index, DbValue::Int64),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR => decode(row, index, DbValue::Str),
        // Reading a TIMESTAMPTZ fails, as in Spin: the driver does not convert it to a type without time zone.
        Type::TIMESTAMP | Type::TIMESTAMPTZ => try_decode(row, index, |value: NaiveDateTime| {
            let (y, mo, d) = date(value.date())?;
            let (h, mi, s, n) = time(value.time())?;
            Ok(DbValue::Datetime((y, mo, d, h, mi, s, n)))
        }),
        Type::DATE => try_decode(row, index, |value| Ok(DbValue::Date(date(value)?))),
        Type::TIME => try_decode(row, index, |value| Ok(DbValue::Time(time(value)?))),
        Type::UUID => decode(row, index, |value: uuid::Uuid| DbValue::Uuid(value.to_string())),
        Type::JSONB => try_decode(row, index, |value: serde_json::Value| {
            Ok(DbValue::Jsonb(serde_json::to_vec(&value).context("invalid JSON from database")?))
        }),
        Type::NUMERIC => decode(row, index, |value: Decimal| DbValue::Decimal(value.to_string())),
        Type::INT4_RANGE => decode(row, index, |value| DbValue::RangeInt32(range(&value, |v| *v))),
        Type::INT8_RANGE => decode(row, index, |value| DbValue::RangeInt64(range(&value, |v| *v))),
        Type::NUM_RANGE => {
            decode(row, index, |value| DbValue::RangeDecimal(range(&value, |v: &Decimal| v.to_string())))
        }
        Type::INT4_ARRAY => decode(row, index, DbValue::ArrayInt32),
        Type::INT8_ARRAY => decode(row, index, DbValue::ArrayInt64),
        Type::NUMERIC_ARRAY => decode(row, index, |values: Vec<Option<Decimal>>| {
            let texts = values.iter().map(|value| value.map(|value| value.to_string()));
            DbValue::ArrayDecimal(texts.collect())
        }),
        Type::TEXT_ARRAY | Type::VARCHAR_ARRAY | Type::BPCHAR_ARRAY => decode(row, index, DbValue::ArrayStr),
        Type::INTERVAL => decode(row, index, |value: Interval| DbValue::Interval(value.0)),
        _ => decode(row, index, |value: Raw| DbValue::Unsupported(value.0)),
    }
}

fn decode<'a, T: FromSql<'a>>(row: &'a Row, index: usize, convert: impl Fn(T) -> DbValue) -> anyhow::Result<DbValue> {
    try_decode(row, index, |value| Ok(convert(value)))
}

fn try_decode<'a, T: FromSql<'a>>(
    row: &'a Row,
    index: usize,
    convert: impl Fn(T) -> anyhow::Result<DbValue>,
) -> anyhow::Result<DbValue> {
    let value: Option<T> = row.try_get(index)?;
    value.map_or(Ok(DbValue::DbNull), convert)
}

fn date(value: NaiveDate) -> anyhow::Result<(i32, u8, u8)> {
    Ok((value.year(), value.month().try_into()?, value.day().try_into()?))
}

fn time(value: NaiveTime) -> anyhow::Result<(u8, u8, u8, u32)> {
    let (hour, minute, second) = (value.hour(), value.minute(), value.second());
    Ok((hour.try_into()?, minute.try_into()?, second.try_into()?, value.nanosecond()))
}

fn range<T: Normalizable + PartialOrd, U>(
    range: &Range<T>,
    convert: impl Fn(&T) -> U,
) -> (GuestBound<U>, GuestBound<U>) {
    (
        range.lower().map(|bound| (convert(&bound.value), kind(bound))),
        range.upper().map(|bound| (convert(&bound.value), kind(bound))),
    )
}

fn kind<S: BoundSided, T>(bound: &RangeBound<S, T>) -> RangeBoundKind {
    match bound.type_ {
        BoundType::Inclusive => RangeBoundKind::Inclusive,
        BoundType::Exclusive => RangeBoundKind::Exclusive,
    }
}
