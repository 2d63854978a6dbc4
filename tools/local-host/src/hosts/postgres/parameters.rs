//! Converts the guest's parameters to SQL parameters.

use anyhow::bail;
use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use crate::bindings::postgres::ParameterValue;

type Parameter = Box<dyn ToSql + Send + Sync>;

/// Converts the parameters of a statement.
///
/// # Errors
/// If a value has a type that this host does not know.
pub fn convert(values: &[ParameterValue]) -> anyhow::Result<Vec<Parameter>> {
    values
        .iter()
        .map(|value| {
            Ok(match value {
                ParameterValue::Int64(value) => Box::new(*value) as Parameter,
                ParameterValue::Str(value) => Box::new(value.clone()),
                ParameterValue::DbNull => Box::new(Null),
                _ => bail!("this host binds 64-bit integers, text and NULL only"),
            })
        })
        .collect()
}

/// NULL, for a column of any type.
#[derive(Debug)]
struct Null;

impl ToSql for Null {
    fn to_sql(&self, _: &Type, _: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Ok(IsNull::Yes)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_that_the_ledger_does_not_bind_are_refused() {
        use ParameterValue as P;
        convert(&[P::Int64(1), P::Str("a".into()), P::DbNull]).unwrap();
        for bad in [P::Boolean(true), P::Date((2024, 2, 29)), P::Jsonb(b"{}".to_vec())] {
            assert!(convert(std::slice::from_ref(&bad)).is_err(), "{bad:?} was accepted");
        }
    }
}
