//! Puts styles, scripts and data into the pages that mark them with `data-inline`: the first paint then needs no other file.

use anyhow::{Context, ensure};
use regex::{Captures, Regex};

const ELEMENT: &str = r#"(?x)
    <link\ rel="stylesheet"\ href="/(?P<style>[^"]+)"\ data-inline>
    | <script(?P<data>\ type="application/json"\ id="[^"]+")?\ src="/(?P<script>[^"]+)"\ data-inline></script>"#;

/// Returns the page with the text of each marked file in place of its element. `find` returns the file at a served path.
pub fn insert<'f>(page: &str, find: impl Fn(&str) -> Option<&'f [u8]>) -> anyhow::Result<String> {
    let element = |found: &Captures| -> anyhow::Result<String> {
        let (name, path) = ["style", "script"]
            .into_iter()
            .find_map(|name| Some((name, found.name(name)?.as_str())))
            .context("an element without a file")?;
        let text = std::str::from_utf8(find(path).with_context(|| format!("{path} does not exist"))?)?;
        ensure!(!text.contains("</"), "{path} cannot be inlined: `</` could end its element");
        let data = found.name("data").map_or("", |data| data.as_str());
        Ok(format!("<{name}{data}>{text}</{name}>"))
    };
    let mut inlined = String::with_capacity(page.len());
    let mut end = 0;
    for found in Regex::new(ELEMENT)?.captures_iter(page) {
        let range = found.get(0).context("a match")?.range();
        inlined.push_str(&page[end..range.start]);
        inlined.push_str(&element(&found)?);
        end = range.end;
    }
    inlined.push_str(&page[end..]);
    Ok(inlined)
}
