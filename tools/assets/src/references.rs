//! Finds the references from one source file to others.

use std::ops::Range;

use anyhow::bail;
use regex::Regex;

/// A reference to another file.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// Byte range of the file name in the text.
    pub range: Range<usize>,
    /// The referenced file, as a path inside the source directory.
    pub path: String,
    /// How the file is used.
    pub usage: Usage,
}

/// How a referenced file is used.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Usage {
    /// A statically imported module, fetched before the importing one can run.
    Import,
    /// The module script of a page.
    Script,
    /// Any other file: a stylesheet, a picture, a worker, or a module that is imported dynamically.
    Other,
}

// In scripts and styles only relative names are references: a string such as "/api/orders" is not.
const SCRIPT: &str = r#"(?x)
    (?: \b(?P<import>from|import)\s* | \bimport\s*\(\s* | \bnew\s+URL\(\s* )
    (?: "(?P<double>\.{1,2}/[^"\n]+)" | '(?P<single>\.{1,2}/[^'\n]+)' )"#;

const STYLE: &str = r#"(?x)
    (?: \burl\(\s* | @import\s+ )
    (?: "(?P<double>\.{1,2}/[^"\n]+)" | '(?P<single>\.{1,2}/[^'\n]+)' )"#;

const PAGE: &str = r#"(?x)
    (?P<script><script\s+type="module"\s+src=|\b(?:href|src)=)
    (?: "(?P<double>/assets/[^"\n]+)" )"#;

/// Returns every reference in `text`, in order. The extension of `path` selects the syntax, and relative names are
/// resolved against `path`.
pub fn find(path: &str, text: &str) -> anyhow::Result<Vec<Reference>> {
    let pattern = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => SCRIPT,
        Some("css") => STYLE,
        Some("html") => PAGE,
        _ => return Ok(Vec::new()),
    };
    let mut found = Vec::new();
    for captures in Regex::new(pattern)?.captures_iter(text) {
        let Some(name) = captures.name("double").or_else(|| captures.name("single")) else {
            continue;
        };
        // The types in a comment.
        let line = text[..name.start()].rsplit('\n').next().unwrap_or_default().trim_start();
        if ["*", "/*", "//"].iter().any(|comment| line.starts_with(comment)) {
            continue;
        }
        let usage = match (captures.name("import"), captures.name("script")) {
            (Some(_), _) => Usage::Import,
            (_, Some(tag)) if tag.as_str().starts_with("<script") => Usage::Script,
            _ => Usage::Other,
        };
        found.push(Reference { range: name.range(), path: resolve(path, name.as_str())?, usage });
    }
    Ok(found)
}

/// Resolves `name`, as written in the file `from`, to a path inside the source directory.
fn resolve(from: &str, name: &str) -> anyhow::Result<String> {
    if let Some(absolute) = name.strip_prefix('/') {
        return Ok(absolute.to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." if parts.pop().is_none() => bail!("{from} refers to {name}, outside the sources"),
            ".." => {}
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn references_in(path: &str, text: &str) -> Vec<(String, Usage)> {
        let references = find(path, text).unwrap();
        references.into_iter().map(|found| (found.path, found.usage)).collect()
    }

    #[test]
    fn a_script_refers_by_import_dynamic_import_and_url() {
        let text = r#"
            import { a } from "./a.js";
            import '../b.js';
            export { c } from "./deep/c.js";
            const d = await import("./d.js");
            new Worker(new URL("./e.js", import.meta.url));
            fetch("/api/orders"); const from = "x";"#;
        assert_eq!(
            references_in("assets/js/main.js", text),
            [
                ("assets/js/a.js".into(), Usage::Import),
                ("assets/b.js".into(), Usage::Import),
                ("assets/js/deep/c.js".into(), Usage::Import),
                ("assets/js/d.js".into(), Usage::Other),
                ("assets/js/e.js".into(), Usage::Other),
            ]
        );
    }

    #[test]
    fn a_type_in_a_comment_is_no_reference() {
        let text = "/** @type {import(\"../types/a.js\").A} */\n/**\n * @param {import(\"./b.js\").B} b\n */\n// from \"./c.js\"";
        assert_eq!(references_in("client/v1/index.js", text), []);
    }

    #[test]
    fn a_link_to_a_page_is_no_reference() {
        let text = r#"<link rel="stylesheet" href="/assets/a.css"><a href="/sale">x</a>
            <script type="module" src="/assets/js/main.js"></script>"#;
        assert_eq!(
            references_in("index.html", text),
            [("assets/a.css".into(), Usage::Other), ("assets/js/main.js".into(), Usage::Script),]
        );
    }

    #[test]
    fn a_style_refers_by_url_and_import() {
        let text = r#"@import "./base.css"; a { background: url("../img/a.svg") }"#;
        assert_eq!(
            references_in("assets/css/main.css", text),
            [("assets/css/base.css".into(), Usage::Other), ("assets/img/a.svg".into(), Usage::Other),]
        );
    }

    #[test]
    fn a_reference_out_of_the_sources_is_an_error() {
        let error = find("main.js", r#"import "../../secret.js""#).unwrap_err();
        assert!(error.to_string().contains("outside the sources"), "{error}");
    }
}
