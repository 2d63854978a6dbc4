//! Response body with a timeout between two frames.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use wasmtime_wasi_http::{Error, WasiBody};

pin_project_lite::pin_project! {
    /// Wraps a body. Fails with [`Error::ConnectionReadTimeout`] if the next frame takes longer than `timeout`.
    pub struct BetweenBytesTimeout {
        // `None` after a timeout. Dropping the body closes the connection.
        body: Option<WasiBody>,
        timeout: Duration,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl BetweenBytesTimeout {
    pub fn new(body: WasiBody, timeout: Duration) -> Self {
        Self { body: Some(body), timeout, sleep: None }
    }
}

impl Body for BetweenBytesTimeout {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let mut this = self.project();
        let Some(body) = this.body.as_mut() else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            this.sleep.set(None);
            return Poll::Ready(frame);
        }
        if this.sleep.is_none() {
            this.sleep.set(Some(sleep(*this.timeout)));
        }
        if let Some(sleep) = this.sleep.as_pin_mut() {
            ready!(sleep.poll(context));
        }
        *this.body = None;
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}
