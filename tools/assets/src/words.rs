//! Adds the Chinese words to the elements of pages whose text they replace (`data-t`), for `first-paint.js`.

use std::collections::BTreeMap;

use anyhow::ensure;
use regex::{Captures, Regex};

use crate::tree::Tree;

/// The words by key, such as `"nav.orders": "我的订单"`, on a line of their own or, in a bundle, behind each other.
const WORDS: &str = "assets/js/words/zh.js";
const WORD: &str = r#"[{,]\s*"?(?P<key>[\w.]+)"?:\s*"(?P<text>[^"\\]*)""#;

/// Adds `data-zh="…"` behind each `data-t="…"` of every page that chooses its language.
pub fn add_to_pages(sources: &mut Tree) -> anyhow::Result<()> {
    let Some(words) = sources.get(WORDS) else { return Ok(()) };
    let words = str::from_utf8(words)?;
    let texts: BTreeMap<String, String> = Regex::new(WORD)?
        .captures_iter(words)
        .map(|word| (word["key"].to_owned(), word["text"].replace('&', "&amp;").replace('<', "&lt;")))
        .collect();
    ensure!(!texts.is_empty(), "{WORDS} has no word that can be read");
    let attribute = Regex::new(r#" data-t="(?P<key>[^"]+)""#)?;
    for (_, page) in sources.iter_mut().filter(|(path, _)| path.ends_with(".html")) {
        let text = str::from_utf8(page)?;
        if text.contains("first-paint.js") {
            let translated = attribute.replace_all(text, |found: &Captures| match texts.get(&found["key"]) {
                Some(chinese) => format!("{} data-zh=\"{chinese}\"", &found[0]),
                None => found[0].to_owned(),
            });
            *page = translated.into_owned().into_bytes();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_element_gets_the_chinese_word_of_its_key() {
        let page = r#"<script src="/assets/js/first-paint.js" data-inline></script>
            <a data-t="nav.orders" href="/orders">My orders</a><b data-t="unknown">x</b>"#;
        let words = "export const words = {\n  skip: \"跳到正文\",\n  \"nav.orders\": \"<我的>&订单\",\n};\n";
        let mut sources = Tree::from(
            [("a.html", page), ("b.html", r#"<a data-t="skip">"#), (WORDS, words)]
                .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())),
        );
        let bundled = sources.clone().into_iter().map(|(path, text)| {
            let text = String::from_utf8(text).unwrap();
            (
                path.clone(),
                if path == WORDS { text.replace(": ", ":").replace(['\n', ' '], "") } else { text }.into_bytes(),
            )
        });
        let mut bundled: Tree = bundled.collect();
        add_to_pages(&mut sources).unwrap();
        add_to_pages(&mut bundled).unwrap();
        assert_eq!(bundled["a.html"], sources["a.html"]);
        let text = |path: &str| str::from_utf8(&sources[path]).unwrap().to_owned();
        assert!(text("a.html").contains(r#"<a data-t="nav.orders" data-zh="&lt;我的>&amp;订单" href="/orders">"#));
        assert!(text("a.html").contains(r#"<b data-t="unknown">"#));
        assert_eq!(text("b.html"), r#"<a data-t="skip">"#);
    }
}
