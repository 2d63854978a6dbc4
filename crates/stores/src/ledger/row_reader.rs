//! Reads the columns of a row in order.
//!
//! Every read fails with [`StoreError::Malformed`] if there is no such column, or it has another type or form.

use domain::money::Money;

use crate::ports::{SqlValue, StoreError};

/// Reads a row from its first column on.
pub struct RowReader {
    values: std::vec::IntoIter<SqlValue>,
}

impl RowReader {
    /// Starts at the first of `values`.
    #[must_use]
    pub fn new(values: Vec<SqlValue>) -> Self {
        Self { values: values.into_iter() }
    }

    /// Reads the next column as a number; NULL is 0.
    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.values.next() {
            Some(SqlValue::Int(number)) => Ok(number),
            Some(SqlValue::Null) => Ok(0),
            other => Err(StoreError::Malformed(format!("{other:?} where a row should have a number"))),
        }
    }

    /// Reads the next column as text; NULL is empty.
    pub fn text(&mut self) -> Result<String, StoreError> {
        match self.values.next() {
            Some(SqlValue::Text(text)) => Ok(text),
            Some(SqlValue::Null) => Ok(String::new()),
            other => Err(StoreError::Malformed(format!("{other:?} where a row should have text"))),
        }
    }

    /// Reads the next two columns as an amount and its currency.
    pub fn money(&mut self) -> Result<Money, StoreError> {
        Ok(Money { amount: self.int()?, currency: self.text()? })
    }

    /// Reads the next column as text and parses it.
    pub fn parse<T, E>(&mut self, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, StoreError> {
        let text = self.text()?;
        parse(&text).map_err(|_| StoreError::Malformed(format!("{text:?} in the ledger")))
    }
}
