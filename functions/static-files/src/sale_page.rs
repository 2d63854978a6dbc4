//! What the page of a sale has in its HTML: data for its first paint, and a preview for messages and timelines, whose robots
//! run no JavaScript.

use std::{cell::RefCell, convert::Infallible, rc::Rc, time::Duration};

use domain::{
    api::visitors::ActivityDocument,
    ids::ActivityId,
    language::{Language, Translations},
    money::decimals,
    time::Millis,
};
use maud::{Markup, html};
use platform::{activity_cache, clock, http::Request, lru_map::LruMap, single_flight::Cached, timeout::with_timeout};
use serde_json::json;

use crate::page_data::{PageData, json_element};

/// How long the page of a sale waits for its data: it needs no store.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Characters of a description that a preview shows, at most.
const MAX_DESCRIPTION_CHARS: usize = 300;

thread_local! {
    static DATA: RefCell<LruMap<ActivityId, Cached<Option<Rc<PageData>>>>> = RefCell::default();
}

/// Returns the data of the activity that the page is for, from its copy in key-value: `None` until a visitor has opened the
/// page, for an unknown activity, and if key-value does not answer in time.
pub async fn load(request: &Request, shop_url: &str) -> Option<Rc<PageData>> {
    let activity = ActivityId::parse(request.query_param("activity")?).ok()?;
    let fetch = async || {
        let cached = activity_cache::cached(&activity).await;
        Ok::<_, Infallible>(cached.map(|cached| Rc::new(page_data(&cached.document(None, clock::now()), shop_url))))
    };
    let data = DATA.with_borrow_mut(|data| data.get(&activity));
    with_timeout(TIMEOUT, data.get_or_fetch(fetch)).await?.ok()?
}

fn page_data(document: &ActivityDocument<'_>, shop_url: &str) -> PageData {
    let summary = &document.summary;
    let image =
        if summary.image.is_empty() { document.skus.first().map_or("", |sku| sku.image) } else { summary.image };
    let description: String = document.description.chars().take(MAX_DESCRIPTION_CHARS).collect();
    let is_path = image.starts_with('/') && !image.starts_with("//");
    let head = html! {
        @if !description.is_empty() { meta property="og:description" content=(description); }
        meta property="og:type" content="website";
        meta property="og:title" content=(summary.title);
        meta property="og:url" content={ (shop_url) "/sale?activity=" (summary.id) };
        @if !image.is_empty() {
            meta property="og:image" content={ @if is_path { (shop_url) } (image) };
            meta name="twitter:card" content="summary_large_image";
        }
        (json_element("first-data", &json!({ "activity": document })))
    };
    let lowest = document.skus.iter().min_by_key(|sku| sku.price);
    let contents = vec![
        ("title", translated(summary.title, summary.titles)),
        ("description", translated(document.description, document.descriptions)),
        ("picture", html! { @if !image.is_empty() { img class="picture large" src=(image) alt=""; } }),
        ("price", html! { @if let Some(sku) = lowest { (price(sku.price, sku.currency)) } }),
        ("when", html! { (time(summary.starts_at)) " – " (time(summary.ends_at)) }),
    ];
    let key = format!("{}.{}.{}", summary.id, document.version, json!(summary.phase));
    PageData { key, head, contents, shown: "sale" }
}

/// The text, with those of the page's languages for `first-paint.js`.
pub fn translated(text: &str, translations: &Translations) -> Markup {
    let [en, zh] = ["en", "zh-CN"].map(|tag| Language::try_from(tag.to_owned()).ok()?.translation(translations));
    html! { span data-en=[en] data-zh=[zh] { (text) } }
}

/// A price, as a number with the decimals of its currency: `first-paint.js` formats it.
pub fn price(amount: i64, currency: &str) -> Markup {
    let digits = decimals(currency).unwrap_or(2);
    let unit = 10_i64.pow(digits);
    let fraction =
        if digits == 0 { String::new() } else { format!(".{:0width$}", amount % unit, width = digits as usize) };
    let value = format!("{}{fraction}", amount / unit);
    html! { data value=(value) data-currency=(currency) { (value) " " (currency) } }
}

/// The time in UTC: `first-paint.js` shows it in the browser's time zone.
pub fn time(time: Millis) -> Markup {
    let text = time.to_string();
    let (date, clock) = text.split_once('T').unwrap_or((&text, ""));
    html! { time datetime=(text) { (date) " " (clock.get(..5).unwrap_or_default()) " UTC" } }
}

#[cfg(test)]
mod tests {
    use domain::activity::ActivitySpec;
    use sale::visitors::CachedActivity;

    use super::*;

    fn data(members: &str) -> PageData {
        let spec: ActivitySpec = domain::http::body::parse(
            format!(
                r#"{{{members}, "starts_at":"2026-01-01T10:00:00Z","ends_at":"2026-01-02T00:00:00Z","skus":[
                    {{"sku":"a","name":"A","image":"/lamp.png","price":189900,"currency":"EUR","total":10}},
                    {{"sku":"b","name":"B","price":1905,"currency":"EUR","total":10}}]}}"#
            )
            .as_bytes(),
        )
        .expect("a spec");
        let cached: CachedActivity =
            serde_json::from_value(json!({ "id": "lamps", "spec": spec, "version": 3, "state": "published" }))
                .expect("a copy");
        page_data(&cached.document(None, Millis(0)), "https://shop.example")
    }

    #[test]
    fn a_preview_has_title_description_picture_and_address_as_text() {
        let head = data(r#""title":"<b>\"Lamps\"","description":"a\">&""#).head.0;
        for element in [
            r#"<meta property="og:description" content="a&quot;&gt;&amp;">"#,
            r#"<meta property="og:title" content="&lt;b&gt;&quot;Lamps&quot;">"#,
            r#"<meta property="og:url" content="https://shop.example/sale?activity=lamps">"#,
            r#"<meta property="og:image" content="https://shop.example/lamp.png">"#,
        ] {
            assert!(head.contains(element), "{head}");
        }
    }

    #[test]
    fn a_long_description_is_cut_between_characters_in_the_preview_only() {
        let long = "灯".repeat(1_000);
        let data = data(&format!(r#""title":"Lamps","description":"{long}","image":"https://a.example/b.png""#));
        assert!(data.head.0.contains(&format!("content=\"{}\"", "灯".repeat(300))), "{}", data.head.0);
        assert!(data.head.0.contains(r#"content="https://a.example/b.png""#), "{}", data.head.0);
        assert!(data.contents[1].1.0.contains(&long));
    }

    #[test]
    fn the_elements_have_title_picture_lowest_price_and_times_in_all_of_the_pages_languages() {
        let data = data(r#""title":"Lamps","titles":{"de":"Lampen","zh-CN":"灯","en":"Fine lamps"}"#);
        let content = |id| &*data.contents.iter().find(|(known, _)| *known == id).expect(id).1.0;
        assert_eq!(content("title"), r#"<span data-en="Fine lamps" data-zh="灯">Lamps</span>"#);
        assert_eq!(content("picture"), r#"<img class="picture large" src="/lamp.png" alt="">"#);
        assert_eq!(content("price"), r#"<data value="19.05" data-currency="EUR">19.05 EUR</data>"#);
        let start = r#"<time datetime="2026-01-01T10:00:00.000Z">2026-01-01 10:00 UTC</time> – <time"#;
        assert!(content("when").starts_with(start), "{}", content("when"));
        assert_eq!(data.key, "lamps.3.\"scheduled\"");
    }

    #[test]
    fn a_text_for_the_script_of_the_page_is_in_the_pages_language() {
        let data = data(r#""title":"Lamps","titles":{"zh-Hans":"灯","zh-Hant":"燈","en-GB":"Fine lamps"}"#);
        assert_eq!(data.contents[0].1.0, r#"<span data-en="Fine lamps" data-zh="灯">Lamps</span>"#);
    }

    #[test]
    fn the_first_data_are_those_of_the_api_without_the_server_time() {
        let head = data(r#""title":"Lamps""#).head.0;
        let json = head.split_once("id=\"first-data\">").and_then(|(_, rest)| rest.split_once("</script>"));
        let data: serde_json::Value = serde_json::from_str(json.expect("data").0).expect("JSON");
        let activity = &data["activity"];
        assert_eq!((&activity["version"], &activity["skus"][0]["left"]), (&json!(3), &json!(null)), "{activity}");
        assert_eq!(activity.get("server_time"), None);
    }
}
