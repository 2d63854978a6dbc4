//! What messages and timelines show of a link to a sale. Their robots run no JavaScript, so it is in the page itself.

use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

use domain::{activity::ActivitySpec, ids::ActivityId};
use maud::html;
use platform::{activity_cache, http::Request, lru_map::LruMap, single_flight::Cached, timeout::with_timeout};

/// How long the page of a sale waits for its preview: it needs no store.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Characters of a description that a preview shows, at most.
const MAX_DESCRIPTION_CHARS: usize = 300;

thread_local! {
    static PREVIEWS: RefCell<LruMap<ActivityId, Cached<Option<Rc<Preview>>>>> = RefCell::default();
}

/// The preview of one version of an activity.
#[derive(Debug, PartialEq, Eq)]
pub struct Preview {
    /// Names the activity and its version.
    pub key: String,
    title: String,
    description: String,
    image: String,
    path: String,
}

/// Returns the preview of the activity that the page of a sale is for, from its copy in key-value: `None` until a visitor
/// has opened the page, for an unknown activity, on other pages, and if key-value does not answer in time.
pub async fn load(request: &Request) -> Option<Rc<Preview>> {
    if request.path() != "/sale" {
        return None;
    }
    let activity = ActivityId::parse(request.query_param("activity")?).ok()?;
    let fetch = async || {
        let cached = activity_cache::cached(&activity).await;
        Ok::<_, Infallible>(cached.map(|cached| Rc::new(Preview::new(&activity, cached.version, &cached.spec))))
    };
    let preview = PREVIEWS.with_borrow_mut(|previews| previews.get(&activity));
    with_timeout(TIMEOUT, preview.get_or_fetch(fetch)).await?.ok()?
}

impl Preview {
    fn new(activity: &ActivityId, version: i64, spec: &ActivitySpec) -> Self {
        let image = if spec.image.is_empty() { spec.skus.first().map_or("", |sku| &sku.image) } else { &spec.image };
        Self {
            key: format!("{activity}.{version}"),
            title: spec.title.clone(),
            description: spec.description.chars().take(MAX_DESCRIPTION_CHARS).collect(),
            image: image.to_owned(),
            path: format!("/sale?activity={activity}"),
        }
    }

    /// Returns the page with the preview's elements in its head.
    pub fn render(&self, page: &str, shop_url: &str) -> String {
        let image = match self.image.as_str() {
            "" => None,
            path if path.starts_with('/') && !path.starts_with("//") => Some(format!("{shop_url}{path}")),
            url => Some(url.to_owned()),
        };
        let added = html! {
            @if !self.description.is_empty() { meta property="og:description" content=(self.description); }
            meta property="og:type" content="website";
            meta property="og:title" content=(self.title);
            meta property="og:url" content={ (shop_url) (self.path) };
            @if let Some(image) = image {
                meta property="og:image" content=(image);
                meta name="twitter:card" content="summary_large_image";
            }
        };
        page.replacen("</head>", &format!("{}</head>", added.into_string()), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preview(json: &str) -> Preview {
        let spec = domain::http::body::parse(json.as_bytes()).expect("a spec");
        Preview::new(&ActivityId::parse("lamps").expect("an id"), 3, &spec)
    }

    const REST: &str = r#""starts_at":"2026-01-01T00:00:00Z","ends_at":"2026-01-02T00:00:00Z",
        "skus":[{"sku":"a","name":"A","image":"/lamp.png","price":100,"currency":"EUR","total":10}]"#;

    #[test]
    fn a_preview_has_title_description_picture_and_address_as_text() {
        let found = preview(&format!(r#"{{"title":"<b>\"Lamps\"","description":"a\">&", {REST}}}"#));
        let page = found.render("<head></head>", "https://shop.example");
        for element in [
            r#"<meta property="og:description" content="a&quot;&gt;&amp;">"#,
            r#"<meta property="og:title" content="&lt;b&gt;&quot;Lamps&quot;">"#,
            r#"<meta property="og:url" content="https://shop.example/sale?activity=lamps">"#,
            r#"<meta property="og:image" content="https://shop.example/lamp.png">"#,
        ] {
            assert!(page.contains(element), "{page}");
        }
        assert!(page.ends_with("</head>"), "{page}");
    }

    #[test]
    fn a_long_description_is_cut_between_characters() {
        let long = "灯".repeat(1_000);
        let found = preview(&format!(
            r#"{{"title":"Lamps","description":"{long}","image":"https://a.example/b.png", {REST}}}"#
        ));
        assert_eq!(found.description.chars().count(), 300);
        assert!(found.render("</head>", "").contains(r#"content="https://a.example/b.png""#));
        assert_ne!(found, Preview { key: "lamps.4".to_owned(), ..preview(&format!(r#"{{"title":"Lamps", {REST}}}"#)) });
    }
}
