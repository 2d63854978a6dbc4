//! Adds the Chinese words to the elements of pages whose text they replace (`data-t`), for `first-paint.js`.

use std::collections::BTreeMap;

use regex::{Captures, Regex};

use crate::tree::Tree;

/// The words by key, in lines such as `  "nav.orders": "我的订单",`.
const WORDS: &str = "assets/js/words/zh.js";
const WORD: &str = r#"(?m)^\s*"?(?P<key>[\w.]+)"?:\s+"(?P<text>[^"\\]*)","#;

/// Adds `data-zh="…"` behind each `data-t="…"` of every page that chooses its language.
pub fn add_to_pages(sources: &mut Tree) -> anyhow::Result<()> {
    let Some(words) = sources.get(WORDS) else { return Ok(()) };
    let words = str::from_utf8(words)?;
    let texts: BTreeMap<String, String> = Regex::new(WORD)?
        .captures_iter(words)
        .map(|word| (word["key"].to_owned(), word["text"].replace('&', "&amp;").replace('<', "&lt;")))
        .collect();
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
        add_to_pages(&mut sources).unwrap();
        let text = |path: &str| str::from_utf8(&sources[path]).unwrap().to_owned();
        assert!(text("a.html").contains(r#"<a data-t="nav.orders" data-zh="&lt;我的>&amp;订单" href="/orders">"#));
        assert!(text("a.html").contains(r#"<b data-t="unknown">"#));
        assert_eq!(text("b.html"), r#"<a data-t="skip">"#);
    }
}
