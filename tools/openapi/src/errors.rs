//! The table of error codes in `docs/errors.md`, from the codes and the texts of the pages.

use std::fmt::Write as _;

use domain::http::problem::Code;

const WORDS: &str = include_str!("../../../clients/js/src/texts/en.js");
const INTRODUCTION: &str = "# Errors

Each error is a problem document (RFC 9457) with one of these codes, which are stable: new ones may come, none changes its meaning.
`title` and `detail` are for people and may change. A `503` and a `429` carry `Retry-After`.
The last column is what the pages say; texts of other languages are in `clients/js/src/texts`.

| code | status | when | try again? | what to tell the buyer |
|---|---|---|---|---|
";

/// The document.
pub fn text() -> String {
    let mut text = INTRODUCTION.to_owned();
    for code in Code::ALL {
        let (name, when, retry) = (code.as_str(), code.description().replace('\n', " "), code.retry());
        let _ = writeln!(text, "| `{name}` | {} | {when} | {retry} | {} |", code.status(), told(name));
    }
    text
}

/// What the pages say; a code that they have no text for is no buyer's.
fn told(code: &str) -> &'static str {
    let start = format!("\"problem.{code}\": \"");
    WORDS.split_once(&start).and_then(|(_, rest)| rest.split_once("\",\n")).map_or("", |(text, _)| text)
}
