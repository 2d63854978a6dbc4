//! From a request to its answer.

use platform::http::{self, ApiError, Request, Response};
use spin_sdk::http::Method;

use crate::{
    encoding,
    file_cache::{FileCache, StoredFile},
    media::{self, MediaType},
    security,
};

/// Pages, and whatever else keeps its name when it changes.
const CACHE_ONE_MINUTE: &str = "public, max-age=60";
/// Assets whose name carries a hash of their content.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";
/// What is not there: long enough that a cache absorbs a crowd with a bad link.
const CACHE_NOT_FOUND: &str = "public, max-age=10";

const NOT_FOUND_PAGE: &str = "404.html";

/// Answers one request from the shelf.
///
/// # Errors
/// `not_found` below the interface's own paths, where nobody reads pages, and `method_not_allowed`.
pub fn respond(cache: &mut FileCache, request: &Request) -> Result<Response, ApiError> {
    if request.path.starts_with("/api/") || request.path.starts_with("/sandbox/") {
        return Err(http::not_found("There is no such route: the OpenAPI document lists them."));
    }
    if request.method != Method::GET {
        return Err(http::method_not_allowed("GET"));
    }
    let name = file_name(&request.path);
    let Some((media, file)) = find(cache, &name, request) else {
        return not_found_page(cache, request);
    };
    let response =
        if request.matches_etag(&file.etag) { Response::empty(304) } else { file_response(200, media, &file) };
    let cache_control = if media::is_hashed(&name) { CACHE_FOREVER } else { CACHE_ONE_MINUTE };
    Ok(with_file_headers(response, media, &file, cache_control))
}

fn not_found_page(cache: &mut FileCache, request: &Request) -> Result<Response, ApiError> {
    let Some((media, file)) = find(cache, NOT_FOUND_PAGE, request) else {
        return Err(http::not_found("There is no such page."));
    };
    Ok(with_file_headers(file_response(404, media, &file), media, &file, CACHE_NOT_FOUND))
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

fn find(cache: &mut FileCache, name: &str, request: &Request) -> Option<(MediaType, StoredFile)> {
    let media = media::media(name)?;
    let accept = if media.has_variants { request.header("accept-encoding").unwrap_or_default() } else { "" };
    Some((media, cache.load(name, encoding::accepted(accept))?))
}

fn file_response(status: u16, media: MediaType, file: &StoredFile) -> Response {
    let response = Response::text(status, media.content_type, file.bytes.clone());
    match file.encoding.token() {
        Some(token) => response.header("content-encoding", token),
        None => response,
    }
}

/// What caches and browsers have to know, whether the file comes along or not.
fn with_file_headers(response: Response, media: MediaType, file: &StoredFile, cache_control: &str) -> Response {
    let response =
        security::with_security_headers(response).header("etag", &*file.etag).header("cache-control", cache_control);
    if media.has_variants { response.header("vary", "accept-encoding") } else { response }
}

#[cfg(test)]
mod tests;
