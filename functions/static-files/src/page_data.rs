//! What a page has before any script runs: data for its modules, and contents of its elements.

use std::rc::Rc;

use maud::{Markup, PreEscaped, html};
use platform::http::Request;
use serde::Serialize;
use serde_json::Value;

use crate::{list_page, sale_page};

/// What one version of a page adds to the file that the build made.
pub struct PageData {
    /// Names the version among those of its page.
    pub key: String,
    /// Markup for the end of the head.
    pub head: Markup,
    /// Contents of empty elements, by id.
    pub contents: Vec<(&'static str, Markup)>,
    /// The id of a hidden element that is shown; may be empty.
    pub shown: &'static str,
}

/// Returns the data of the requested page; `None` if it has none, or they are not at hand.
pub async fn load(request: &Request, shop_url: &str) -> Option<Rc<PageData>> {
    match request.path() {
        "/" => list_page::load().await,
        "/sale" => sale_page::load(request, shop_url).await,
        _ => None,
    }
}

impl PageData {
    /// Returns the page with the data in it.
    pub fn render(&self, page: &str) -> String {
        let page = page.replacen("</head>", &format!("{}</head>", self.head.0), 1);
        let page = page.replacen(&format!(" id=\"{}\" hidden", self.shown), &format!(" id=\"{}\"", self.shown), 1);
        self.contents.iter().fold(page, |page, (id, content)| fill(&page, id, content))
    }
}

/// Puts the content into the element with this id.
fn fill(page: &str, id: &str, content: &Markup) -> String {
    let tag = page.find(&format!(" id=\"{id}\""));
    let content_start = tag.and_then(|tag| Some(tag + page[tag..].find('>')? + 1));
    match content_start {
        Some(start) => format!("{}{}{}", &page[..start], content.0, &page[start..]),
        None => page.to_owned(),
    }
}

/// Returns an element with a document that a page's modules read, without the server's time: a cached page is older.
pub fn json_element(id: &str, document: &impl Serialize) -> Markup {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    remove_server_time(&mut document);
    // `<`, which could end the element, stands in strings only.
    html! { script type="application/json" id=(id) { (PreEscaped(document.to_string().replace('<', "\\u003c"))) } }
}

fn remove_server_time(document: &mut Value) {
    match document {
        Value::Object(members) => {
            members.remove("server_time");
            members.values_mut().for_each(remove_server_time);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_server_time),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_shows_the_data_in_its_elements_and_documents_cannot_end_their_element() {
        let data = PageData {
            key: "1".to_owned(),
            head: json_element("first", &json!({ "a": "</script><!--", "b": [{ "server_time": 1, "c": 2 }] })),
            contents: vec![("title", html! { "Lamps & more" }), ("absent", html! { "x" })],
            shown: "sale",
        };
        let page = r#"<head></head><article id="sale" hidden><h1 id="title" data-testid="title"></h1></article>"#;
        assert_eq!(
            data.render(page),
            "<head><script type=\"application/json\" id=\"first\">{\"a\":\"\\u003c/script>\\u003c!--\",\"b\":[{\"c\":2}]}</script></head>\
             <article id=\"sale\"><h1 id=\"title\" data-testid=\"title\">Lamps &amp; more</h1></article>"
        );
    }
}
