//! HTTP responses as handlers build them.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::http::{
    problem::{Code, Problem},
    request::{Headers, Request},
};

/// The capacity at which a JSON body starts to be written. Most documents fit in.
const JSON_CAPACITY: usize = 512;

/// A response to send.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The code of the problem that it is, if it is one.
    pub code: Option<Code>,
    /// The headers, except `content-length` and `x-request-id`.
    pub headers: Vec<(&'static str, Cow<'static, str>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Builds a JSON response with `cache-control: no-store`.
    pub fn json(status: u16, document: &impl serde::Serialize) -> Self {
        let mut body = Vec::with_capacity(JSON_CAPACITY);
        if serde_json::to_writer(&mut body, document).is_err() {
            body.clear();
        }
        Self::with_body(status, "application/json", body).header("cache-control", "no-store")
    }

    /// Builds a response without a body.
    #[must_use]
    pub fn empty(status: u16) -> Self {
        Self { status, code: None, headers: Vec::with_capacity(8), body: Vec::new() }
    }

    /// Builds a response with a body of the given content type.
    pub fn with_body(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::empty(status) }.header("content-type", content_type)
    }

    /// Sets a header and replaces one of the same name.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Self {
        match self.headers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value.into(),
            None => self.headers.push((name, value.into())),
        }
        self
    }

    /// Sets these headers.
    #[must_use]
    pub fn with_headers(self, headers: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        headers.into_iter().fold(self, |response, (name, value)| response.header(name, value))
    }

    /// Adds the `ETag` of the body; becomes a `304` without a body and without the other headers if the client has it.
    #[must_use]
    pub fn unless_unchanged<H: Headers>(self, request: &Request<H>) -> Self {
        let mut hasher = DefaultHasher::new();
        self.body.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        let response = if request.matches_etag(&etag) { Self::empty(304) } else { self };
        response.header("etag", etag)
    }

    /// Returns all header lines to send, and the body.
    #[must_use]
    pub fn into_lines_and_body(self, request_id: String) -> (Vec<(String, Vec<u8>)>, Vec<u8>) {
        let mut lines = Vec::with_capacity(self.headers.len() + 2);
        lines.push(("content-length".to_owned(), self.body.len().to_string().into_bytes()));
        lines.push(("x-request-id".to_owned(), request_id.into_bytes()));
        let headers = self.headers.into_iter();
        lines.extend(headers.map(|(name, value)| (name.to_owned(), value.into_owned().into_bytes())));
        (lines, self.body)
    }
}

impl From<Problem> for Response {
    fn from(problem: Problem) -> Self {
        let mut response = Response::with_body(problem.code.status(), "application/problem+json", problem.to_json())
            .header("cache-control", "no-store");
        response.code = Some(problem.code);
        if let Some(seconds) = problem.retry_after {
            response = response.header("retry-after", seconds.to_string());
        }
        if problem.code == Code::Unauthenticated {
            response = response.header("www-authenticate", "Bearer");
        }
        response.with_headers(problem.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_token_names_the_scheme() {
        let headers = Response::from(Problem::new(Code::Unauthenticated, "")).headers;
        assert!(headers.contains(&("www-authenticate", "Bearer".into())));
    }
}
