//! Reads flat replies element by element. The first element of a Lua script's reply is a word that says what happened.
//!
//! Every read fails with [`StoreError::Malformed`] if the reply has ended or the element has another form.

use domain::{money::Money, time::Millis};
use serde::de::{DeserializeOwned, IntoDeserializer, value};

use crate::ports::{RedisValue, StoreError};

/// A reply and the position of the next element.
pub struct Reply {
    items: std::vec::IntoIter<RedisValue>,
}

impl Reply {
    /// Creates a reader for the elements of a reply.
    #[must_use]
    pub fn new(items: Vec<RedisValue>) -> Self {
        Self { items: items.into_iter() }
    }

    /// Number of elements not yet read.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.items.len()
    }

    /// Reads the next element as bytes; null is empty.
    pub fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.items.next() {
            Some(RedisValue::Bytes(bytes)) => Ok(bytes),
            Some(RedisValue::Int(number)) => Ok(number.to_string().into_bytes()),
            Some(RedisValue::Nil) => Ok(Vec::new()),
            None => Err(StoreError::Malformed("a reply is shorter than agreed".to_owned())),
        }
    }

    /// Reads the next element as UTF-8 text; null is empty.
    pub fn text(&mut self) -> Result<String, StoreError> {
        String::from_utf8(self.bytes()?).map_err(|_| StoreError::Malformed("a reply holds no text".to_owned()))
    }

    /// Reads the next element as an integer; null and empty text are 0.
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

    /// Reads the next element as the name of an enum's variant, or as an id.
    pub fn parse<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        T::deserialize(text.as_str().into_deserializer()).map_err(|_: value::Error| unexpected(&text))
    }

    /// Reads the word of a script that has no other, and returns the rest.
    pub fn after(mut self, word: &str) -> Result<Self, StoreError> {
        self.is(word, word).map(|_| self)
    }

    /// Reads a word that is `word` or `other`; returns whether it is `word`.
    pub fn is(&mut self, word: &str, other: &str) -> Result<bool, StoreError> {
        match self.text()? {
            text if text == word => Ok(true),
            text if text == other => Ok(false),
            text => Err(unexpected(&text)),
        }
    }

    /// Reads the next two elements as an amount in minor units and its currency.
    pub fn money(&mut self) -> Result<Money, StoreError> {
        Ok(Money { amount: self.int()?, currency: self.text()? })
    }
}

/// The error for a text that the reader of a reply does not know.
pub fn unexpected(text: &str) -> StoreError {
    StoreError::Malformed(format!("{text:?} in a reply is unexpected"))
}

/// A timestamp; `None` for 0.
pub fn non_zero_time(ms: i64) -> Option<Millis> {
    (ms > 0).then_some(Millis(ms))
}

/// A text; `None` if it is empty.
pub fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
