//! A small site, asked in every way.
#![allow(clippy::unwrap_used)]

use std::fs;

use bytes::Bytes;
use domain::problem::Code;
use spin_sdk::http::{HeaderMap, HeaderName, HeaderValue};
use tempfile::TempDir;

use super::*;

const ASSET: &str = "assets/buy.0123456789abcdef.js";

struct Site {
    _folder: TempDir,
    shelf: Shelf,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("assets")).unwrap();
        for (path, text) in [
            ("index.html", "the list"),
            ("index.html.br", "br of the list"),
            ("index.html.gz", "gz of the list"),
            ("sale.html", "the sale"),
            ("404.html", "nothing here"),
            (ASSET, "buy()"),
            ("assets/lamp.png", "a picture"),
            ("assets/lamp.png.gz", "never served"),
            ("assets/notes.md", "not served"),
        ] {
            fs::write(folder.path().join(path), text).unwrap();
        }
        Self { shelf: Shelf::new(folder.path()), _folder: folder }
    }

    fn try_ask(&mut self, method: &str, path: &str, headers: &[(&'static str, &str)]) -> Result<Answer, Failure> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect::<HeaderMap>();
        let call = Call {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: String::new(),
            headers,
            body: Bytes::new(),
            request_id: "test".to_owned(),
        };
        answer(&mut self.shelf, &call)
    }

    fn ask(&mut self, path: &str, headers: &[(&'static str, &str)]) -> Answer {
        let answer = self.try_ask("GET", path, headers).unwrap();
        assert!(header(&answer, "content-security-policy").contains("default-src 'none'"));
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff");
        answer
    }

    fn get(&mut self, path: &str) -> Answer {
        self.ask(path, &[])
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let found: Vec<_> = answer.headers.iter().filter(|(known, _)| *known == name).collect();
    assert!(found.len() < 2, "{name} is there twice");
    found.first().map_or("", |(_, value)| value)
}

fn code(result: Result<Answer, Failure>) -> Option<Code> {
    match result {
        Err(Failure::Problem(problem)) => Some(problem.code),
        _ => None,
    }
}

#[test]
fn a_page_answers_to_its_name_with_and_without_the_ending() {
    let mut site = Site::new();
    for (path, body) in
        [("/", "the list"), ("/index.html", "the list"), ("/sale", "the sale"), ("/sale.html", "the sale")]
    {
        let answer = site.get(path);
        assert_eq!((answer.status, &answer.body[..]), (200, body.as_bytes()));
        assert_eq!(header(&answer, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&answer, "cache-control"), "public, max-age=60");
    }
}

#[test]
fn a_hashed_asset_is_immutable_and_a_named_one_is_not() {
    let mut site = Site::new();
    let hashed = site.get(&format!("/{ASSET}"));
    assert_eq!(header(&hashed, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&hashed, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&site.get("/assets/lamp.png"), "cache-control"), "public, max-age=60");
}

#[test]
fn each_encoding_is_its_own_representation() {
    let mut site = Site::new();
    let plain = site.get("/");
    let br = site.ask("/", &[("accept-encoding", "gzip, br")]);
    let gz = site.ask("/", &[("accept-encoding", "gzip")]);
    assert_eq!(&br.body[..], b"br of the list");
    assert_eq!(&gz.body[..], b"gz of the list");
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(header(&br, "content-encoding"), "br");
    assert_eq!(header(&gz, "content-encoding"), "gzip");
    for answer in [&plain, &br, &gz] {
        assert_eq!(header(answer, "vary"), "accept-encoding");
    }
    assert_ne!(header(&plain, "etag"), header(&br, "etag"));
    assert_ne!(header(&br, "etag"), header(&gz, "etag"));
}

#[test]
fn a_file_without_variants_is_served_plain() {
    let mut site = Site::new();
    let sale = site.ask("/sale", &[("accept-encoding", "br, gzip")]);
    assert_eq!(&sale.body[..], b"the sale");
    let lamp = site.ask("/assets/lamp.png", &[("accept-encoding", "br, gzip")]);
    assert_eq!(&lamp.body[..], b"a picture");
    assert_eq!(header(&lamp, "vary"), "");
}

#[test]
fn a_client_that_has_it_gets_304() {
    let mut site = Site::new();
    let etag = header(&site.get("/"), "etag").to_owned();
    for tags in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        let answer = site.ask("/", &[("if-none-match", &tags)]);
        assert_eq!(answer.status, 304, "{tags}");
        assert!(answer.body.is_empty());
        assert_eq!(header(&answer, "etag"), etag);
        assert_eq!(header(&answer, "cache-control"), "public, max-age=60");
        assert_eq!(header(&answer, "vary"), "accept-encoding");
    }
}

#[test]
fn a_client_that_has_another_version_gets_the_page() {
    let mut site = Site::new();
    let etag = header(&site.get("/"), "etag").to_owned();
    let inner = etag.trim_matches('"').to_owned();
    for tags in ["\"other\"", &inner, ""] {
        assert_eq!(site.ask("/", &[("if-none-match", tags)]).status, 200, "{tags}");
    }
    let other_encoding = [("if-none-match", etag.as_str()), ("accept-encoding", "br")];
    assert_eq!(site.ask("/", &other_encoding).status, 200);
}

#[test]
fn what_is_not_there_is_a_404_page() {
    let mut site = Site::new();
    for path in ["/nothing", "/sale/", "//", "/index.html.br", "/assets/notes.md", "/../etc/passwd", "/%2e"] {
        let answer = site.get(path);
        assert_eq!((answer.status, &answer.body[..]), (404, &b"nothing here"[..]), "{path}");
        assert_eq!(header(&answer, "cache-control"), "public, max-age=10");
    }
}

#[test]
fn an_unknown_route_of_the_interface_is_a_problem() {
    let mut site = Site::new();
    for (method, path) in [("GET", "/api/nothing"), ("POST", "/sandbox/sign-in")] {
        assert_eq!(code(site.try_ask(method, path, &[])), Some(Code::NotFound));
    }
}

#[test]
fn only_reading_is_allowed() {
    let mut site = Site::new();
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        assert_eq!(code(site.try_ask(method, "/", &[])), Some(Code::MethodNotAllowed));
    }
}
