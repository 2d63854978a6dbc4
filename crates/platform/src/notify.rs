//! Alarms: how one request of an instance wakes another.
//!
//! To the engine each request is a task of its own, and a Rust waker of one does nothing for another. A stream does: when
//! its writing end is dropped, who reads from it wakes.

use std::{future::Future, pin::Pin};

use spin_sdk::{wasip3::wit_stream, wit_bindgen::StreamWriter};

/// Dropped, it wakes its sleeper.
pub struct Notifier {
    _writer: StreamWriter<u8>,
}

/// Over when its alarm is dropped.
pub type Notified = Pin<Box<dyn Future<Output = ()>>>;

/// An alarm and what it ends.
#[must_use]
pub fn channel() -> (Notifier, Notified) {
    let (writer, mut reader) = wit_stream::new::<u8>();
    let notified = async move {
        reader.read(Vec::with_capacity(1)).await;
    };
    (Notifier { _writer: writer }, Box::pin(notified))
}
