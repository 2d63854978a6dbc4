//! A small site, asked in every way.
#![allow(clippy::unwrap_used)]

use std::fs;

use http::Request;
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
        Self {
            shelf: Shelf::new(folder.path()),
            _folder: folder,
        }
    }

    fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let response = answer(&mut self.shelf, &parts);
        assert!(header(&response, "content-security-policy").contains("default-src 'none'"));
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        if response.status() != 304 {
            assert_eq!(
                header(&response, "content-length"),
                response.body().len().to_string()
            );
        }
        response
    }

    fn get(&mut self, path: &str) -> Response<Bytes> {
        self.ask("GET", path, &[])
    }
}

fn header<'r>(response: &'r Response<Bytes>, name: &str) -> &'r str {
    response
        .headers()
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[test]
fn a_page_answers_to_its_name_with_and_without_the_ending() {
    let mut site = Site::new();
    for (path, body) in [
        ("/", "the list"),
        ("/index.html", "the list"),
        ("/sale?activity=a", "the sale"),
        ("/sale.html", "the sale"),
    ] {
        let response = site.get(path);
        assert_eq!(
            (response.status().as_u16(), &response.body()[..]),
            (200, body.as_bytes())
        );
        assert_eq!(
            header(&response, "content-type"),
            "text/html; charset=utf-8"
        );
        assert_eq!(header(&response, "cache-control"), "public, max-age=60");
    }
}

#[test]
fn a_hashed_asset_is_immutable_and_a_named_one_is_not() {
    let mut site = Site::new();
    let hashed = site.get(&format!("/{ASSET}"));
    assert_eq!(
        header(&hashed, "cache-control"),
        "public, max-age=31536000, immutable"
    );
    assert_eq!(
        header(&hashed, "content-type"),
        "text/javascript; charset=utf-8"
    );
    assert_eq!(
        header(&site.get("/assets/lamp.png"), "cache-control"),
        "public, max-age=60"
    );
}

#[test]
fn each_encoding_is_its_own_representation() {
    let mut site = Site::new();
    let plain = site.get("/");
    let br = site.ask("GET", "/", &[("accept-encoding", "gzip, br")]);
    let gz = site.ask("GET", "/", &[("accept-encoding", "gzip")]);
    assert_eq!(&br.body()[..], b"br of the list");
    assert_eq!(&gz.body()[..], b"gz of the list");
    assert_eq!(header(&plain, "content-encoding"), "");
    assert_eq!(header(&br, "content-encoding"), "br");
    assert_eq!(header(&gz, "content-encoding"), "gzip");
    for response in [&plain, &br, &gz] {
        assert_eq!(header(response, "vary"), "accept-encoding");
    }
    assert_ne!(header(&plain, "etag"), header(&br, "etag"));
    assert_ne!(header(&br, "etag"), header(&gz, "etag"));
}

#[test]
fn a_file_without_variants_is_served_plain() {
    let mut site = Site::new();
    let sale = site.ask("GET", "/sale", &[("accept-encoding", "br, gzip")]);
    assert_eq!(&sale.body()[..], b"the sale");
    let lamp = site.ask(
        "GET",
        "/assets/lamp.png",
        &[("accept-encoding", "br, gzip")],
    );
    assert_eq!(&lamp.body()[..], b"a picture");
    assert_eq!(header(&lamp, "vary"), "");
}

#[test]
fn a_client_that_has_it_gets_304() {
    let mut site = Site::new();
    let etag = header(&site.get("/"), "etag").to_owned();
    for tags in [
        etag.clone(),
        format!("W/{etag}"),
        format!("\"other\", {etag}"),
        "*".to_owned(),
    ] {
        let response = site.ask("GET", "/", &[("if-none-match", &tags)]);
        assert_eq!(response.status(), 304, "{tags}");
        assert!(response.body().is_empty());
        assert_eq!(header(&response, "etag"), etag);
        assert_eq!(header(&response, "cache-control"), "public, max-age=60");
        assert_eq!(header(&response, "vary"), "accept-encoding");
        assert_eq!(header(&response, "content-length"), "");
    }
}

#[test]
fn a_client_that_has_another_version_gets_the_page() {
    let mut site = Site::new();
    let etag = header(&site.get("/"), "etag").to_owned();
    let inner = etag.trim_matches('"').to_owned();
    for tags in ["\"other\"", &inner, ""] {
        assert_eq!(
            site.ask("GET", "/", &[("if-none-match", tags)]).status(),
            200,
            "{tags}"
        );
    }
    let other_encoding = [("if-none-match", etag.as_str()), ("accept-encoding", "br")];
    assert_eq!(site.ask("GET", "/", &other_encoding).status(), 200);
}

#[test]
fn what_is_not_there_is_a_404_page() {
    let mut site = Site::new();
    for path in [
        "/nothing",
        "/sale/",
        "//",
        "/index.html.br",
        "/assets/notes.md",
        "/../etc/passwd",
        "/%2e",
    ] {
        let response = site.get(path);
        assert_eq!(response.status(), 404, "{path}");
        assert_eq!(&response.body()[..], b"nothing here", "{path}");
        assert_eq!(header(&response, "cache-control"), "public, max-age=10");
    }
}

#[test]
fn an_unknown_route_of_the_interface_is_a_problem_document() {
    let mut site = Site::new();
    for (method, path) in [("GET", "/api/nothing"), ("POST", "/sandbox/sign-in")] {
        let response = site.ask(method, path, &[]);
        assert_eq!(response.status(), 404);
        assert_eq!(
            header(&response, "content-type"),
            "application/problem+json"
        );
        assert!(
            str::from_utf8(response.body())
                .unwrap()
                .contains(r#""code":"not_found""#)
        );
    }
}

#[test]
fn only_reading_is_allowed() {
    let mut site = Site::new();
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let response = site.ask(method, "/", &[]);
        assert_eq!(response.status(), 405);
        assert_eq!(header(&response, "allow"), "GET, HEAD");
    }
}

#[test]
fn head_has_the_headers_of_get() {
    let mut site = Site::new();
    let get = site.get("/sale");
    let head = site.ask("HEAD", "/sale", &[]);
    assert_eq!(
        (head.status(), head.headers()),
        (get.status(), get.headers())
    );
}
