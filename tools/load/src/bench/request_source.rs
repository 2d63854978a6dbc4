//! Hands out requests that are prepared before the clock starts.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

/// A request that only needs to be sent.
pub type PreparedRequest = Request<Full<Bytes>>;

/// The requests of one measurement.
pub struct RequestSource {
    requests: Vec<PreparedRequest>,
    next: usize,
    repeating: bool,
}

impl RequestSource {
    /// Repeats the requests without end.
    pub fn repeating(requests: Vec<PreparedRequest>) -> Self {
        Self { requests, next: 0, repeating: true }
    }

    /// Hands out each request once.
    pub fn once(requests: Vec<PreparedRequest>) -> Self {
        Self { requests, next: 0, repeating: false }
    }

    /// Index and copy of the next request; `None` when all are used up.
    pub fn take_next(&mut self) -> Option<(usize, PreparedRequest)> {
        if self.repeating && self.next >= self.requests.len() {
            self.next = 0;
        }
        let request = self.requests.get(self.next)?.clone();
        self.next += 1;
        Some((self.next - 1, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<PreparedRequest> {
        ["/a", "/b"].map(|path| Request::get(path).body(Full::default()).unwrap()).into()
    }

    #[test]
    fn a_single_pass_ends_and_a_repeating_source_starts_again() {
        let paths = |mut source: RequestSource| {
            (0..3)
                .map(|_| source.take_next().map(|(number, request)| (number, request.uri().path().to_owned())))
                .collect()
        };
        let once: Vec<_> = paths(RequestSource::once(requests()));
        assert_eq!(once, [Some((0, "/a".to_owned())), Some((1, "/b".to_owned())), None]);
        let repeating: Vec<_> = paths(RequestSource::repeating(requests()));
        assert_eq!(repeating[2], Some((0, "/a".to_owned())));
    }
}
