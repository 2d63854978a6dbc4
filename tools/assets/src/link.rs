//! Gives assets hashed names and rewrites every reference to them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use crate::{
    inline,
    references::{self, Reference, Usage},
    tree::Tree,
};

/// Returns the tree with assets under hashed names and with rewritten references.
///
/// The hash of an asset is computed after its own references are rewritten. A change of a module therefore renames
/// every file that imports it.
pub fn link(sources: &Tree) -> anyhow::Result<Tree> {
    let mut linker = Linker { sources, linked: BTreeMap::new(), in_progress: Vec::new() };
    let mut linked = Tree::new();
    for path in sources.keys() {
        let file = linker.link(path)?;
        linked.insert(file.path.clone(), file.bytes.clone());
    }
    Ok(linked)
}

struct Linker<'s> {
    sources: &'s Tree,
    linked: BTreeMap<String, LinkedFile>,
    /// The chain of files from the first one to the one being linked, to detect cycles.
    in_progress: Vec<String>,
}

#[derive(Clone)]
struct LinkedFile {
    path: String,
    bytes: Vec<u8>,
    /// The modules that must be fetched before this one can run, by served path.
    imports: BTreeSet<String>,
}

impl Linker<'_> {
    fn link(&mut self, path: &str) -> anyhow::Result<LinkedFile> {
        if let Some(linked) = self.linked.get(path) {
            return Ok(linked.clone());
        }
        if self.in_progress.iter().any(|open| open == path) {
            bail!(
                "{} → {path} is a circle: a hashed name cannot be computed; \
                 move what both need into a module of its own",
                self.in_progress.join(" → ")
            );
        }
        let bytes = self
            .sources
            .get(path)
            .with_context(|| match self.in_progress.last() {
                Some(from) => format!("{from} refers to {path}, which does not exist"),
                None => format!("{path} does not exist"),
            })?
            .clone();
        self.in_progress.push(path.to_owned());
        let linked = self.link_file(path, bytes)?;
        self.in_progress.pop();
        self.linked.insert(path.to_owned(), linked.clone());
        Ok(linked)
    }

    fn link_file(&mut self, path: &str, bytes: Vec<u8>) -> anyhow::Result<LinkedFile> {
        let mut imports = BTreeSet::new();
        let mut preloads = BTreeSet::new();
        let bytes = match String::from_utf8(bytes) {
            Err(binary) => binary.into_bytes(),
            Ok(text) => {
                let mut targets = Vec::new();
                for reference in references::find(path, &text)? {
                    let target = self.link(&reference.path)?;
                    match reference.usage {
                        Usage::Import => {
                            imports.extend(target.imports);
                            imports.insert(target.path.clone());
                        }
                        Usage::Script => preloads.extend(target.imports),
                        Usage::Other => {}
                    }
                    targets.push((reference, target.path));
                }
                let page = insert_preloads(rewrite_references(&text, &targets), &preloads);
                if path.ends_with(".html") {
                    inline::insert(&page, |file| self.find(file))?.into_bytes()
                } else {
                    page.into_bytes()
                }
            }
        };
        Ok(LinkedFile { path: served_path(path, &bytes), bytes, imports })
    }

    /// Returns the linked file with this served path.
    fn find(&self, served: &str) -> Option<&[u8]> {
        self.linked.values().find(|linked| linked.path == served).map(|linked| &*linked.bytes)
    }
}

fn rewrite_references(text: &str, targets: &[(Reference, String)]) -> String {
    let mut rewritten = String::with_capacity(text.len() + targets.len() * 17);
    let mut end = 0;
    for (reference, path) in targets {
        rewritten.push_str(&text[end..reference.range.start]);
        // An absolute path is valid wherever the page or module is.
        rewritten.push('/');
        rewritten.push_str(path);
        end = reference.range.end;
    }
    rewritten.push_str(&text[end..]);
    rewritten
}

/// Adds a preload link for every module that a page's scripts import, at any depth. The browser then fetches them all
/// at once instead of level by level.
fn insert_preloads(text: String, preloads: &BTreeSet<String>) -> String {
    let links: String =
        preloads.iter().map(|path| format!("<link rel=\"modulepreload\" href=\"/{path}\">\n")).collect();
    match text.find("</head>") {
        Some(end) if !links.is_empty() => format!("{}{links}{}", &text[..end], &text[end..]),
        _ => text,
    }
}

fn served_path(path: &str, bytes: &[u8]) -> String {
    match path.rsplit_once('.') {
        Some((stem, extension)) if path.starts_with("assets/") => {
            let digest = Sha256::digest(bytes);
            let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("{stem}.{hash}.{extension}")
        }
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        files.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect()
    }

    fn path_of<'t>(linked: &'t Tree, stem: &str) -> &'t str {
        linked.keys().find(|path| path.starts_with(stem)).unwrap()
    }

    fn text_of<'t>(linked: &'t Tree, path: &str) -> &'t str {
        str::from_utf8(&linked[path]).unwrap()
    }

    const PAGE: &str = r#"<head><script type="module" src="/assets/main.js"></script></head>"#;

    #[test]
    fn an_asset_carries_its_hash_and_a_page_keeps_its_name() {
        let linked = link(&tree(&[("index.html", PAGE), ("assets/main.js", "1")])).unwrap();
        let main = path_of(&linked, "assets/main.");
        assert_eq!(main.len(), "assets/main.0123456789abcdef.js".len());
        assert!(text_of(&linked, "index.html").contains(&format!("src=\"/{main}\"")));
    }

    #[test]
    fn a_change_renames_everything_that_imports_it() {
        let main = r#"import { x } from "./x.js";"#;
        let before = link(&tree(&[("assets/main.js", main), ("assets/x.js", "1")])).unwrap();
        let after = link(&tree(&[("assets/main.js", main), ("assets/x.js", "2")])).unwrap();
        assert_ne!(path_of(&before, "assets/main."), path_of(&after, "assets/main."));
    }

    #[test]
    fn a_page_preloads_what_its_script_imports_at_any_depth() {
        let linked = link(&tree(&[
            ("index.html", PAGE),
            ("assets/main.js", r#"import "./x.js"; import("./later.js");"#),
            ("assets/x.js", r#"import "./y.js";"#),
            ("assets/y.js", ""),
            ("assets/later.js", ""),
        ]))
        .unwrap();
        let page = text_of(&linked, "index.html");
        assert_eq!(page.matches("modulepreload").count(), 2, "{page}");
        assert!(page.contains(path_of(&linked, "assets/y.")), "{page}");
    }

    #[test]
    fn a_marked_style_and_a_marked_script_become_part_of_their_page() {
        let page = r#"<head><link rel="stylesheet" href="/assets/a.css" data-inline>
            <script type="application/json" id="a" src="/assets/a.json" data-inline></script>
            <script src="/assets/a.js" data-inline></script></head>"#;
        let files = |style| {
            let others = [("assets/a.js", "a()"), ("assets/a.json", "{}"), ("assets/b.svg", "")];
            tree(&[&[("index.html", page), ("assets/a.css", style)], &others[..]].concat())
        };
        let linked = link(&files(r#"a { background: url("./b.svg") }"#)).unwrap();
        let (page, picture) = (text_of(&linked, "index.html"), path_of(&linked, "assets/b."));
        assert!(page.contains(&format!(r#"<style>a {{ background: url("/{picture}") }}</style>"#)), "{page}");
        assert!(page.contains("<script>a()</script></head>"), "{page}");
        assert!(page.contains(r#"<script type="application/json" id="a">{}</script>"#), "{page}");
        assert!(link(&files("a::after { content: '</style>' }")).is_err());
    }

    #[test]
    fn a_reference_cycle_is_refused() {
        let error =
            link(&tree(&[("assets/a.js", r#"import "./b.js";"#), ("assets/b.js", r#"import "./a.js";"#)])).unwrap_err();
        assert!(error.to_string().contains("circle"), "{error}");
    }

    #[test]
    fn a_missing_file_is_refused_with_the_file_that_refers_to_it() {
        let error = link(&tree(&[("index.html", PAGE)])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("index.html refers to assets/main.js"), "{text}");
    }
}
