//! Prepared requests: the loop only takes the next one.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

/// A prepared request.
pub type Prepared = Request<Full<Bytes>>;

/// Requests for one measurement.
pub struct Supply {
    requests: Vec<Prepared>,
    next: usize,
    endless: bool,
}

impl Supply {
    /// The same requests, over and over.
    pub fn endless(requests: Vec<Prepared>) -> Self {
        Self { requests, next: 0, endless: true }
    }

    /// Each request once.
    pub fn once(requests: Vec<Prepared>) -> Self {
        Self { requests, next: 0, endless: false }
    }

    /// Number and copy of the next request; `None` when all are used up.
    pub fn take(&mut self) -> Option<(usize, Prepared)> {
        if self.endless && self.next >= self.requests.len() {
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

    fn requests() -> Vec<Prepared> {
        ["/a", "/b"].map(|path| Request::get(path).body(Full::default()).unwrap()).into()
    }

    #[test]
    fn a_single_supply_ends_and_an_endless_one_begins_again() {
        let paths = |mut supply: Supply| {
            (0..3).map(|_| supply.take().map(|(number, request)| (number, request.uri().path().to_owned()))).collect()
        };
        let once: Vec<_> = paths(Supply::once(requests()));
        assert_eq!(once, [Some((0, "/a".to_owned())), Some((1, "/b".to_owned())), None]);
        let endless: Vec<_> = paths(Supply::endless(requests()));
        assert_eq!(endless[2], Some((0, "/a".to_owned())));
    }
}
