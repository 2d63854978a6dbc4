//! From a request to its answer.

use platform::http::{self, Answer, Call, Failure};
use spin_sdk::http::Method;

use crate::{
    encoding,
    media::{self, Media},
    security,
    shelf::{File, Shelf},
};

/// Pages, and whatever else keeps its name when it changes.
const NAMED: &str = "public, max-age=60";
/// Assets whose name carries a hash of their content.
const HASHED: &str = "public, max-age=31536000, immutable";
/// What is not there: long enough that a cache absorbs a crowd with a bad link.
const MISSING: &str = "public, max-age=10";

const NOT_FOUND_PAGE: &str = "404.html";

/// Answers one request from the shelf.
///
/// # Errors
/// `not_found` below the interface's own paths, where nobody reads pages, and `method_not_allowed`.
pub fn answer(shelf: &mut Shelf, call: &Call) -> Result<Answer, Failure> {
    if call.path.starts_with("/api/") || call.path.starts_with("/sandbox/") {
        return Err(http::not_found("There is no such route: the OpenAPI document lists them."));
    }
    if call.method != Method::GET {
        return Err(http::method_not_allowed("GET"));
    }
    let name = file_name(&call.path);
    let Some((media, file)) = find(shelf, &name, call) else {
        return missing(shelf, call);
    };
    let answer = if call.has(&file.etag) { Answer::empty(304) } else { found(200, media, &file) };
    let age = if media::is_hashed(&name) { HASHED } else { NAMED };
    Ok(dressed(answer, media, &file, age))
}

fn missing(shelf: &mut Shelf, call: &Call) -> Result<Answer, Failure> {
    let Some((media, file)) = find(shelf, NOT_FOUND_PAGE, call) else {
        return Err(http::not_found("There is no such page."));
    };
    Ok(dressed(found(404, media, &file), media, &file, MISSING))
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

fn find(shelf: &mut Shelf, name: &str, call: &Call) -> Option<(Media, File)> {
    let media = media::media(name)?;
    let accept = if media.has_variants { call.header("accept-encoding").unwrap_or_default() } else { "" };
    Some((media, shelf.load(name, encoding::accepted(accept))?))
}

fn found(status: u16, media: Media, file: &File) -> Answer {
    let answer = Answer::text(status, media.content_type, file.bytes.clone());
    match file.encoding.token() {
        Some(token) => answer.header("content-encoding", token),
        None => answer,
    }
}

/// What caches and browsers have to know, whether the file comes along or not.
fn dressed(answer: Answer, media: Media, file: &File, age: &str) -> Answer {
    let answer = security::guarded(answer).header("etag", &*file.etag).header("cache-control", age);
    if media.has_variants { answer.header("vary", "accept-encoding") } else { answer }
}

#[cfg(test)]
mod tests;
