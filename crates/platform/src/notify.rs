//! Lets one request of an instance wake another.
//!
//! The engine runs each request as its own task, and a Rust waker cannot wake another task. A WASI stream can: when its
//! writer is dropped, the engine wakes the task that reads from it. No crate does this: the channels of Tokio, futures
//! and async-channel rely on wakers.

use std::{future::Future, pin::Pin};

use spin_sdk::{wasip3::wit_stream, wit_bindgen::StreamWriter};

/// Wakes the waiting request when it is dropped.
pub struct Notifier {
    _writer: StreamWriter<u8>,
}

/// Completes when its [`Notifier`] is dropped.
pub type Notified = Pin<Box<dyn Future<Output = ()>>>;

/// Creates a notifier and the future that it completes.
#[must_use]
pub fn channel() -> (Notifier, Notified) {
    let (writer, mut reader) = wit_stream::new::<u8>();
    let notified = async move {
        reader.read(Vec::with_capacity(1)).await;
    };
    (Notifier { _writer: writer }, Box::pin(notified))
}
