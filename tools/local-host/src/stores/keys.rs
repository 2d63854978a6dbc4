//! The key stream and the error conversion of all key-value stores.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

use crate::bindings::key_value::Error;

/// A stream of keys, followed by the outcome of the listing.
pub struct Keys {
    /// The keys.
    pub keys: mpsc::Receiver<String>,
    /// Resolves after the last key.
    pub result: oneshot::Receiver<Result<(), Error>>,
}

/// Logs a store's error and converts it to the guest's error.
pub fn store_error(error: impl fmt::Debug + fmt::Display) -> Error {
    tracing::warn!("key-value error: {error:?}");
    Error::Other(error.to_string())
}
