//! Reads rows, column by column.

use domain::money::Money;

use crate::ports::{SqlValue, StoreError};

/// A row, read from its first column on.
pub struct RowReader {
    values: std::vec::IntoIter<SqlValue>,
}

impl RowReader {
    /// A row from its values.
    #[must_use]
    pub fn new(values: Vec<SqlValue>) -> Self {
        Self { values: values.into_iter() }
    }

    /// The next column as a number, null being 0.
    ///
    /// # Errors
    /// There is no such column, or it is no number.
    pub fn int(&mut self) -> Result<i64, StoreError> {
        match self.values.next() {
            Some(SqlValue::Int(number)) => Ok(number),
            Some(SqlValue::Null) => Ok(0),
            other => Err(StoreError::Malformed(format!("{other:?} where a row should have a number"))),
        }
    }

    /// The next column as text, null being empty.
    ///
    /// # Errors
    /// There is no such column, or it is no text.
    pub fn text(&mut self) -> Result<String, StoreError> {
        match self.values.next() {
            Some(SqlValue::Text(text)) => Ok(text),
            Some(SqlValue::Null) => Ok(String::new()),
            other => Err(StoreError::Malformed(format!("{other:?} where a row should have text"))),
        }
    }

    /// The next two columns, an amount and its currency.
    ///
    /// # Errors
    /// They are none.
    pub fn money(&mut self) -> Result<Money, StoreError> {
        Ok(Money { amount: self.int()?, currency: self.text()? })
    }

    /// The next column, parsed.
    ///
    /// # Errors
    /// It does not parse.
    pub fn parse<T, E>(&mut self, parse: impl Fn(&str) -> Result<T, E>) -> Result<T, StoreError> {
        let text = self.text()?;
        parse(&text).map_err(|_| StoreError::Malformed(format!("{text:?} in the ledger")))
    }
}
