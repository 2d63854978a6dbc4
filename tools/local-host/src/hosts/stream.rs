//! Streams the items of a channel to the guest.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::sync::mpsc;
use wasmtime::{
    StoreContextMut,
    component::{Destination, StreamProducer, StreamResult},
};

/// Forwards the items of a channel to the guest, one at a time.
pub struct ChannelProducer<T>(pub mpsc::Receiver<T>);

impl<D, T: Send + Sync + 'static> StreamProducer<D> for ChannelProducer<T> {
    type Item = T;
    type Buffer = Option<T>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        store: StoreContextMut<'a, D>,
        mut destination: Destination<'a, T, Option<T>>,
        finish: bool,
    ) -> Poll<wasmtime::Result<StreamResult>> {
        // A read of zero items only checks whether the stream is ready.
        if destination.remaining(store) == Some(0) {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        match self.0.poll_recv(context) {
            Poll::Pending if finish => Poll::Ready(Ok(StreamResult::Cancelled)),
            item => Poll::Ready(Ok(match ready!(item) {
                Some(item) => {
                    destination.set_buffer(Some(item));
                    StreamResult::Completed
                }
                None => StreamResult::Dropped,
            })),
        }
    }
}
