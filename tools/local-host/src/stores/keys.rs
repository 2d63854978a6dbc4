//! What every key-value store returns: a stream of keys, and errors.

use std::fmt;

use tokio::sync::{mpsc, oneshot};

use crate::bindings::key_value::Error;

/// The keys of a store as they come, and what went wrong, if anything.
pub struct Keys {
    /// The keys.
    pub keys: mpsc::Receiver<String>,
    /// Sent after the last key.
    pub result: oneshot::Receiver<Result<(), Error>>,
}

/// Turns a store's error into the guest's, and logs it.
pub fn store_error(error: impl fmt::Debug + fmt::Display) -> Error {
    tracing::warn!("key-value error: {error:?}");
    Error::Other(error.to_string())
}
