//! Lets one request of an instance wake another.
//!
//! The engine runs each request as its own task, and a Rust waker cannot wake another task. A WASI stream can: when its
//! writer is dropped, the engine wakes the task that reads from it. No crate does this: the channels of Tokio, futures
//! and async-channel rely on wakers.

use std::{future::Future, pin::Pin};

#[cfg(not(test))]
type Writer = spin_sdk::wit_bindgen::StreamWriter<u8>;

#[cfg(test)]
type Writer = futures::channel::oneshot::Sender<()>;

/// Wakes the waiting request when it is dropped.
pub struct Notifier {
    _writer: Writer,
}

/// Completes when its [`Notifier`] is dropped.
pub type Notified = Pin<Box<dyn Future<Output = ()>>>;

/// Creates a notifier and the future that it completes.
#[cfg(not(test))]
#[must_use]
pub fn channel() -> (Notifier, Notified) {
    let (writer, mut reader) = spin_sdk::wasip3::wit_stream::new::<u8>();
    let notified = async move {
        reader.read(Vec::with_capacity(1)).await;
    };
    (Notifier { _writer: writer }, Box::pin(notified))
}

/// The same for tests on the host, where there is no engine: each is one task.
#[cfg(test)]
pub fn channel() -> (Notifier, Notified) {
    let (writer, reader) = futures::channel::oneshot::channel();
    let notified = async move {
        let _ = reader.await;
    };
    (Notifier { _writer: writer }, Box::pin(notified))
}
