//! From a request to its answer.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderName, HeaderValue, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, Method, Response, StatusCode, request::Parts};

use crate::media::{self, Media};
use crate::shelf::{File, Shelf};
use crate::{encoding, security};

/// Pages, and whatever else keeps its name when it changes.
const NAMED: HeaderValue = HeaderValue::from_static("public, max-age=60");
/// Assets whose name carries a hash of their content.
const HASHED: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// What is not there: long enough that a cache absorbs a crowd with a bad link.
const MISSING: HeaderValue = HeaderValue::from_static("public, max-age=10");

const NOT_FOUND_PAGE: &str = "404.html";

/// Answers one request from the shelf.
///
/// The answer to a `HEAD` carries the body of the `GET`: the server that sends
/// it leaves the body out and keeps its length.
pub fn answer(shelf: &mut Shelf, request: &Parts) -> Response<Bytes> {
    let path = request.uri.path();
    let mut response = if is_interface(path) {
        problem(
            StatusCode::NOT_FOUND,
            "not_found",
            "There is nothing at this address.",
        )
    } else if !matches!(request.method, Method::GET | Method::HEAD) {
        let mut refusal = problem(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "Pages and assets can be read only: use GET or HEAD.",
        );
        refusal
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        refusal
    } else {
        page(shelf, path, &request.headers)
    };
    security::add(response.headers_mut());
    response
}

/// The interface's own paths: whoever asks there reads JSON, not pages.
fn is_interface(path: &str) -> bool {
    path.starts_with("/api/") || path.starts_with("/sandbox/")
}

fn page(shelf: &mut Shelf, path: &str, headers: &HeaderMap) -> Response<Bytes> {
    let name = file_name(path);
    if let Some((media, file)) = find(shelf, &name, headers) {
        let age = if media::is_hashed(&name) {
            HASHED
        } else {
            NAMED
        };
        if matches(headers, &file.etag) {
            return unchanged(media, file, age);
        }
        return found(StatusCode::OK, media, file, age);
    }
    match find(shelf, NOT_FOUND_PAGE, headers) {
        Some((media, file)) => found(StatusCode::NOT_FOUND, media, file, MISSING),
        None => problem(StatusCode::NOT_FOUND, "not_found", "There is no such page."),
    }
}

/// `/` is `index.html`, and a page goes by its name without `.html`.
fn file_name(path: &str) -> String {
    let name = path.strip_prefix('/').unwrap_or(path);
    let last = name.rsplit('/').next().unwrap_or(name);
    match (name, last.contains('.')) {
        ("", _) => "index.html".to_owned(),
        (_, true) => name.to_owned(),
        (_, false) => format!("{name}.html"),
    }
}

fn find(shelf: &mut Shelf, name: &str, headers: &HeaderMap) -> Option<(Media, File)> {
    let media = media::media(name)?;
    let accept = if media.has_variants {
        text(headers, &ACCEPT_ENCODING)
    } else {
        ""
    };
    Some((media, shelf.load(name, encoding::accepted(accept))?))
}

fn found(status: StatusCode, media: Media, file: File, age: HeaderValue) -> Response<Bytes> {
    let length = file.bytes.len();
    let mut response = Response::new(file.bytes);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media.content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    if let Some(token) = file.encoding.token() {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(token));
    }
    cacheable(headers, media, file.etag, age);
    response
}

/// A `304` has no body, and so no length of one.
fn unchanged(media: Media, file: File, age: HeaderValue) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    cacheable(response.headers_mut(), media, file.etag, age);
    response
}

fn cacheable(headers: &mut HeaderMap, media: Media, etag: HeaderValue, age: HeaderValue) {
    headers.insert(ETAG, etag);
    headers.insert(CACHE_CONTROL, age);
    if media.has_variants {
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// `If-None-Match` (RFC 9110, 13.1.2): weak comparison, any of a list, or `*`.
fn matches(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(str::trim)
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag).as_bytes() == etag)
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

/// An error in the form that every route uses (RFC 9457).
fn problem(status: StatusCode, code: &str, detail: &str) -> Response<Bytes> {
    let title = status.canonical_reason().unwrap_or_default();
    let body = format!(
        r#"{{"type":"about:blank","title":"{title}","status":{},"detail":"{detail}","code":"{code}"}}"#,
        status.as_u16()
    );
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    let length = response.body().len();
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/problem+json"),
    );
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests;
