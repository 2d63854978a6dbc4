//! Tests of all responses with a small site.
#![allow(clippy::unwrap_used)]

use std::fs;

use domain::branding::Branding;
use tempfile::TempDir;

use super::*;

const ASSET: &str = "assets/buy.0123456789abcdef.js";

struct Site {
    _folder: TempDir,
    cache: FileCache,
    branding: Branding,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for path in ["assets", "client/v1", "client/0.1.0"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        for (path, text) in [
            ("index.html", "the list"),
            ("index.html.br", "br of the list"),
            ("index.html.gz", "gz of the list"),
            ("sale.html", "the sale"),
            ("404.html", "nothing here"),
            (ASSET, "buy()"),
            ("client/v1/element.js", "element"),
            ("client/0.1.0/element.js", "element 0.1.0"),
            ("assets/lamp.png", "a picture"),
            ("assets/lamp.png.gz", "never served"),
            ("assets/notes.md", "not served"),
        ] {
            fs::write(folder.path().join(path), text).unwrap();
        }
        Self { cache: FileCache::new(folder.path()), _folder: folder, branding: Branding::default() }
    }

    fn request(&mut self, path: &str, headers: &[(&'static str, &str)]) -> Response {
        let request = Request::new("GET".parse().unwrap(), path.to_owned(), headers, Vec::new(), "test".to_owned());
        let settings = Settings::parse(&domain::settings::Variables(&|_| "".into())).unwrap();
        let settings = Settings { branding: self.branding.clone(), ..settings };
        let response = respond(&mut self.cache, &settings, None, &request).unwrap();
        assert!(header(&response, "content-security-policy").contains("default-src 'none'"));
        assert_eq!(header(&response, "x-content-type-options"), "nosniff");
        response
    }

    fn get(&mut self, path: &str) -> Response {
        self.request(path, &[])
    }
}

fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let found: Vec<_> = response.headers.iter().filter(|(known, _)| *known == name).collect();
    assert!(found.len() < 2, "{name} is there twice");
    found.first().map_or("", |(_, value)| value)
}

#[test]
fn a_page_is_served_with_and_without_its_extension() {
    let mut site = Site::new();
    for (path, body) in
        [("/", "the list"), ("/index.html", "the list"), ("/sale", "the sale"), ("/sale.html", "the sale")]
    {
        let response = site.get(path);
        assert_eq!((response.status, &response.body[..]), (200, body.as_bytes()));
        assert_eq!(header(&response, "content-type"), "text/html; charset=utf-8");
        assert_eq!(header(&response, "cache-control"), "public, max-age=60");
    }
}

#[test]
fn the_page_of_a_sale_without_its_data_is_cached_shortly() {
    assert_eq!(header(&Site::new().get("/sale?activity=lamps"), "cache-control"), "public, max-age=1");
}

#[test]
fn a_hashed_asset_and_a_version_of_the_client_are_immutable_and_a_named_file_is_not() {
    let mut site = Site::new();
    let hashed = site.get(&format!("/{ASSET}"));
    assert_eq!(header(&hashed, "cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(header(&hashed, "content-type"), "text/javascript; charset=utf-8");
    assert_eq!(header(&site.get("/client/0.1.0/element.js"), "cache-control"), header(&hashed, "cache-control"));
    for named in ["/assets/lamp.png", "/client/v1/element.js"] {
        assert_eq!(header(&site.get(named), "cache-control"), "public, max-age=60");
    }
}

#[test]
fn each_encoding_is_its_own_representation_and_a_file_without_variants_is_served_plain() {
    let mut site = Site::new();
    let mut etags = std::collections::HashSet::new();
    for (path, accepted, encoding, body, vary) in [
        ("/", "", "", "the list", "accept-encoding"),
        ("/", "gzip, br", "br", "br of the list", "accept-encoding"),
        ("/", "gzip", "gzip", "gz of the list", "accept-encoding"),
        ("/sale", "br, gzip", "", "the sale", "accept-encoding"),
        ("/assets/lamp.png", "br, gzip", "", "a picture", ""),
    ] {
        let response = site.request(path, &[("accept-encoding", accepted)]);
        assert_eq!(String::from_utf8_lossy(&response.body), body);
        assert_eq!((header(&response, "content-encoding"), header(&response, "vary")), (encoding, vary), "{body}");
        assert!(etags.insert(header(&response, "etag").to_owned()), "{body}");
    }
}

#[test]
fn only_a_matching_etag_of_the_same_encoding_gets_304() {
    let mut site = Site::new();
    let etag = header(&site.get("/"), "etag").to_owned();
    for tags in [etag.clone(), format!("W/{etag}"), format!("\"other\", {etag}"), "*".to_owned()] {
        let response = site.request("/", &[("if-none-match", &tags)]);
        assert_eq!((response.status, response.body.len()), (304, 0), "{tags}");
        for (name, value) in [("etag", &*etag), ("cache-control", "public, max-age=60"), ("vary", "accept-encoding")] {
            assert_eq!(header(&response, name), value);
        }
    }
    for (tags, encoding) in [("\"other\"", ""), (etag.trim_matches('"'), ""), ("", ""), (&*etag, "br")] {
        let headers = [("if-none-match", tags), ("accept-encoding", encoding)];
        assert_eq!(site.request("/", &headers).status, 200, "{headers:?}");
    }
}

#[test]
fn a_missing_file_is_a_404_page() {
    let mut site = Site::new();
    for path in ["/nothing", "/sale/", "//", "/index.html.br", "/assets/notes.md", "/../etc/passwd", "/%2e"] {
        let response = site.get(path);
        assert_eq!((response.status, &response.body[..]), (404, &b"nothing here"[..]), "{path}");
        assert_eq!(header(&response, "cache-control"), "public, max-age=1");
    }
}

#[test]
fn the_settings_say_how_visitors_sign_in_and_the_links_and_nothing_else() {
    let response = Site::new().get("/settings.json");
    assert_eq!(response.body, br#"{"sign_in":{"kind":"none"},"links":{}}"#);
    assert_eq!(header(&response, "cache-control"), "public, max-age=60");
}

#[test]
fn a_branded_page_is_encoded_anew_and_other_files_are_not() {
    let mut site = Site::new();
    site.branding = Branding { style: Some(":root{}".to_owned()), ..Branding::default() };
    let page = "<head></head>the sale of Stampede";
    fs::write(site._folder.path().join("sale.html"), page).unwrap();
    fs::write(site._folder.path().join("sale.html.br"), "br of the unbranded page").unwrap();
    let gzip = site.request("/sale", &[("accept-encoding", "gzip, br")]);
    assert_eq!(header(&gzip, "content-encoding"), "gzip");
    let mut unpacked = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&gzip.body[..]), &mut unpacked).unwrap();
    assert_eq!(unpacked, "<head><style>:root{}</style></head>the sale of Stampede");
    assert_eq!(site.get("/sale").body, unpacked.as_bytes());
    let etag = header(&gzip, "etag").to_owned();
    assert_eq!(site.request("/sale", &[("accept-encoding", "gzip"), ("if-none-match", &etag)]).status, 304);
    assert_eq!(header(&site.request(&format!("/{ASSET}"), &[("accept-encoding", "br")]), "content-encoding"), "");
}
