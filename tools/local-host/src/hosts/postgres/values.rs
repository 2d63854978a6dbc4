//! Converts SQL values to the guest's values.

use anyhow::bail;
use tokio_postgres::{
    Row,
    types::{FromSql, Type},
};

use crate::bindings::postgres::{Column, DbDataType, DbValue};

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
/// If a column has a type that this host does not know.
pub fn convert(row: &Row) -> anyhow::Result<Vec<DbValue>> {
    (0..row.len()).map(|index| value(row, index)).collect()
}

/// Returns the memory that values occupy, in bytes.
pub fn size(values: &[DbValue]) -> usize {
    let heap_size = |value: &DbValue| if let DbValue::Str(text) = value { text.len() } else { 0 };
    values.iter().map(|value| size_of::<DbValue>() + heap_size(value)).sum()
}

fn data_type(kind: &Type) -> DbDataType {
    match *kind {
        Type::INT4 => DbDataType::Int32,
        Type::INT8 => DbDataType::Int64,
        Type::TEXT => DbDataType::Str,
        _ => DbDataType::Other(kind.name().to_owned()),
    }
}

fn value(row: &Row, index: usize) -> anyhow::Result<DbValue> {
    match *row.columns()[index].type_() {
        Type::INT4 => decode(row, index, DbValue::Int32),
        Type::INT8 => decode(row, index, DbValue::Int64),
        Type::TEXT => decode(row, index, DbValue::Str),
        ref other => bail!("this host reads no {other}"),
    }
}

fn decode<'a, T: FromSql<'a>>(row: &'a Row, index: usize, convert: impl Fn(T) -> DbValue) -> anyhow::Result<DbValue> {
    let value: Option<T> = row.try_get(index)?;
    Ok(value.map_or(DbValue::DbNull, convert))
}
