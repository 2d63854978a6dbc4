//! Builds the response for a file, with its caching headers (A1).

use domain::http::{
    request::{Headers, Request},
    routes::{StaticFiles, no_such_route},
};
use platform::http::{self, ApiError, Response};

use crate::{
    encoding,
    file_cache::{FileCache, StoredFile},
    media::{self, MediaType},
    page_data::PageData,
    security,
    settings::Settings,
};

/// For pages, and other files that keep their names when they change.
const CACHE_ONE_MINUTE: &str = "public, max-age=60";
/// For assets whose names contain a hash of their content, and for a version of the client.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";
/// For missing files, and for the page of a sale whose data are not at hand: a CDN absorbs many visitors with the same link.
const CACHE_INCOMPLETE: &str = "public, max-age=1";

const NOT_FOUND_PAGE: &str = "404.html";

/// What the variables say to the pages.
const SETTINGS: &str = "settings.json";

const API_DOCUMENT: &str = "openapi.json";

/// Returns the requested file, the settings, `304`, or the 404 page.
///
/// # Errors
/// `not_found` below `/api/` and `/sandbox/`, whose clients expect no HTML page, and if there is no 404 page;
/// `method_not_allowed` for methods other than `GET` and `HEAD`; `not_ready` for settings with wrong variables.
pub fn respond<H: Headers>(
    cache: &mut FileCache,
    settings: &Settings,
    data: Option<&PageData>,
    request: &Request<H>,
) -> Result<Response, ApiError> {
    if request.path().starts_with("/api/") || request.path().starts_with("/sandbox/") {
        return Err(no_such_route().into());
    }
    let (StaticFiles::File, _) = request.route()?;
    let name = file_name(request.path());
    if name == SETTINGS {
        let document = settings.document.as_ref().map_err(platform::settings::refusal)?;
        let response = Response::json(200, document).header("cache-control", CACHE_ONE_MINUTE);
        return Ok(security::add_headers(response, &settings.policies.of(&name, "")));
    }
    if let Some((media, file)) = find(cache, settings, data, &name, request) {
        let is_known = request.matches_etag(&file.etag);
        let response = if is_known { Response::empty(304) } else { file_response(200, media, &file) };
        let cache_control = match name.as_str() {
            name if media::is_hashed(name) || media::is_versioned(name) => CACHE_FOREVER,
            "sale.html" if data.is_none() && request.query_param("activity").is_some() => CACHE_INCOMPLETE,
            _ => CACHE_ONE_MINUTE,
        };
        let response = with_file_headers(response, media, &file, cache_control);
        // Tools of other origins read it: it is the same for everybody.
        return Ok(if name == API_DOCUMENT { response.header("access-control-allow-origin", "*") } else { response });
    }
    let found = find(cache, settings, None, NOT_FOUND_PAGE, request);
    let (media, file) = found.ok_or_else(|| http::not_found("There is no such page."))?;
    Ok(with_file_headers(file_response(404, media, &file), media, &file, CACHE_INCOMPLETE))
}

/// Returns the file name of a path: `/` is `index.html`, and a path without an extension is a page (`.html`).
fn file_name(path: &str) -> String {
    let name = path.strip_prefix('/').unwrap_or(path);
    let last = name.rsplit('/').next().unwrap_or(name);
    match (name, last.contains('.')) {
        ("", _) => "index.html".to_owned(),
        (_, true) => name.to_owned(),
        (_, false) => format!("{name}.html"),
    }
}

fn find<H: Headers>(
    cache: &mut FileCache,
    settings: &Settings,
    data: Option<&PageData>,
    name: &str,
    request: &Request<H>,
) -> Option<(MediaType, StoredFile)> {
    let media = media::media(name)?;
    let accept = media.has_variants.then(|| request.header("accept-encoding")).flatten().unwrap_or_default();
    Some((media, cache.load(name, encoding::accepted(&accept), settings, data)?))
}

fn file_response(status: u16, media: MediaType, file: &StoredFile) -> Response {
    let response = Response::with_body(status, media.content_type, file.bytes.to_vec());
    match file.encoding.token() {
        Some(token) => response.header("content-encoding", token),
        None => response,
    }
}

/// Adds the headers that `200`, `304` and `404` responses share.
fn with_file_headers(response: Response, media: MediaType, file: &StoredFile, cache_control: &'static str) -> Response {
    let response = security::add_headers(response, &file.policy);
    let response = response.header("etag", file.etag.to_string()).header("cache-control", cache_control);
    if media.has_variants { response.header("vary", "accept-encoding") } else { response }
}

#[cfg(test)]
mod tests;
