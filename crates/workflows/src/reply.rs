//! Reads the flat replies of the scripts, in order.

use domain::money::Money;

use crate::ports::{RedisValue, StoreError};

/// A reply, read from its first element on.
pub struct Reply {
    items: std::vec::IntoIter<RedisValue>,
}

impl Reply {
    /// A reply from its elements.
    #[must_use]
    pub fn new(items: Vec<RedisValue>) -> Self {
        Self { items: items.into_iter() }
    }

    /// Elements not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.items.len()
    }

    /// The next element's bytes, nothing being empty.
    ///
    /// # Errors
    /// The reply ended.
    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.items.next() {
            Some(RedisValue::Bytes(bytes)) => Ok(bytes),
            Some(RedisValue::Int(number)) => Ok(number.to_string().into_bytes()),
            Some(RedisValue::Nil) => Ok(Vec::new()),
            None => Err(StoreError::Malformed("a reply is shorter than agreed".to_owned())),
        }
    }

    /// The next element as text.
    ///
    /// # Errors
    /// The reply ended, or holds no text.
    pub fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(|_| StoreError::Malformed("a reply holds no text".to_owned()))
    }

    /// The next element as a number, nothing being 0.
    ///
    /// # Errors
    /// The reply ended, or holds no number.
    pub fn int(&mut self) -> Result<i64, StoreError> {
        if let Some(RedisValue::Int(number)) = self.items.as_slice().first() {
            let number = *number;
            self.items.next();
            return Ok(number);
        }
        let text = self.text()?;
        if text.is_empty() {
            return Ok(0);
        }
        text.parse().map_err(|_| StoreError::Malformed(format!("{text:?} in a reply is no number")))
    }

    /// The next two elements, an amount and its currency.
    ///
    /// # Errors
    /// They are none.
    pub fn money(&mut self) -> Result<Money, StoreError> {
        Ok(Money { amount: self.int()?, currency: self.text()? })
    }
}
