//! Converts between the guest's values and SQLite's.

use rusqlite::types::ValueRef;

use super::io_error;
use crate::bindings::sqlite::{Error, RowResult, Value};

/// Returns the names of the columns.
pub fn column_names(statement: &rusqlite::Statement<'_>) -> Vec<String> {
    statement.column_names().into_iter().map(str::to_owned).collect()
}

/// Converts the parameters of a statement.
pub fn bind(parameters: Vec<Value>) -> impl rusqlite::Params {
    rusqlite::params_from_iter(parameters.into_iter().map(|value| match value {
        Value::Null => rusqlite::types::Value::Null,
        Value::Integer(value) => rusqlite::types::Value::Integer(value),
        Value::Real(value) => rusqlite::types::Value::Real(value),
        Value::Text(value) => rusqlite::types::Value::Text(value),
        Value::Blob(value) => rusqlite::types::Value::Blob(value),
    }))
}

/// Converts a row to the guest's type.
///
/// # Errors
/// If a TEXT value is not UTF-8.
pub fn convert(row: &rusqlite::Row<'_>) -> Result<RowResult, Error> {
    let count = row.as_ref().column_count();
    let values = (0..count)
        .map(|column| {
            Ok(match row.get_ref(column).map_err(io_error)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(value) => Value::Integer(value),
                ValueRef::Real(value) => Value::Real(value),
                ValueRef::Text(value) => Value::Text(str::from_utf8(value).map_err(io_error)?.to_owned()),
                ValueRef::Blob(value) => Value::Blob(value.to_vec()),
            })
        })
        .collect::<Result<_, Error>>()?;
    Ok(RowResult { values })
}

/// Returns the memory that a row occupies, in bytes.
pub fn row_size(row: &RowResult) -> usize {
    let heap_size = |value: &Value| match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => 0,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
    };
    row.values.iter().map(|value| size_of::<Value>() + heap_size(value)).sum()
}
