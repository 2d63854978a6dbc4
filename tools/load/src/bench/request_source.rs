//! Hands out requests that are prepared before the clock starts.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

pub type PreparedRequest = Request<Full<Bytes>>;

/// The requests of one measurement, each with its index.
pub struct RequestSource(Box<dyn Iterator<Item = (usize, PreparedRequest)> + Send>);

impl RequestSource {
    /// Repeats the requests without end.
    pub fn repeating(requests: Vec<PreparedRequest>) -> Self {
        Self(Box::new((0..requests.len()).cycle().map(move |at| (at, requests[at].clone()))))
    }

    /// Hands out each request once.
    pub fn once(requests: Vec<PreparedRequest>) -> Self {
        Self(Box::new(requests.into_iter().enumerate()))
    }

    /// The next request; `None` when all are used up.
    pub fn take_next(&mut self) -> Option<(usize, PreparedRequest)> {
        self.0.next()
    }
}
