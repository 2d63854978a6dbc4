//! The list of sales in the HTML of its page, so that the page need not wait for it.

use std::{convert::Infallible, rc::Rc, time::Duration};

use domain::{activity::Phase, api::visitors::ListedActivity as Sale};
use maud::{Markup, html};
use platform::{clock, key_value::SpinKeyValue, single_flight::Cached, timeout::with_timeout};
use sale::{
    ledger::activities::ListedActivity,
    visitors::{LIST_KEY, list},
};
use sha2::{Digest, Sha256};
use stores::shared_value;

use crate::{
    page_data::{PageData, json_element},
    sale_page::{price, time, translated},
};

/// How long the page waits for the list: it needs none.
const TIMEOUT: Duration = Duration::from_millis(200);

thread_local! {
    static DATA: Rc<Cached<Option<Rc<PageData>>>> = Rc::default();
}

/// Returns the list from its copy in key-value, however old: `None` until a visitor has opened the page, and if key-value
/// does not answer in time.
pub async fn load() -> Option<Rc<PageData>> {
    let fetch = async || {
        let copy: Option<Vec<ListedActivity>> = shared_value::last(&SpinKeyValue, LIST_KEY).await;
        Ok::<_, Infallible>(copy.map(|activities| Rc::new(page_data(activities))))
    };
    with_timeout(TIMEOUT, DATA.with(Rc::clone).get_or_fetch(fetch)).await?.ok()?
}

fn page_data(mut activities: Vec<ListedActivity>) -> PageData {
    let now = clock::now();
    // An ended one may be erased since, and what was left then may be gone.
    activities.retain(|activity| now < activity.ends_at);
    activities.iter_mut().for_each(|activity| activity.stock = None);
    let sales = list(&activities, now);
    let head = json_element("first-list", &sales);
    let large = sales.iter().min_by_key(|sale| (sale.summary.phase != Phase::Scheduled, sale.summary.starts_at));
    let contents = large.map(|sale| ("next-drop", large_card(sale))).into_iter().collect();
    PageData { key: hex::encode(&Sha256::digest(&head.0)[..12]), head, contents, shown: "" }
}

/// The sale that the page shows first, as its `largeCard` does.
fn large_card(sale: &Sale<'_>) -> Markup {
    let summary = &sale.summary;
    html! {
        a class="card drop" href={ "/sale?activity=" (summary.id) } data-testid="sale-link" {
            @if !summary.image.is_empty() { img class="picture large" src=(summary.image) alt=""; }
            span class="drop-text" {
                span class="drop-phase" { "\u{a0}" }
                strong class="drop-title" { (translated(summary.title, summary.titles)) }
                span class="price" { (price(sale.price, sale.currency)) }
                span class="clock" { "--:--:--" }
                span class="quiet" { (time(summary.starts_at)) " – " (time(summary.ends_at)) }
                span class="button primary" { "\u{a0}" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    fn listed(id: &str, starts_at: &str) -> ListedActivity {
        from_value(json!({ "id": id, "state": "published", "title": "<b>Lamps", "titles": { "zh": "灯" }, "image": "/lamp.png",
            "starts_at": starts_at, "ends_at": "9000-01-02T00:00:00Z", "price": { "amount": 1905, "currency": "EUR" } }))
        .expect("an activity")
    }

    #[test]
    fn the_html_shows_the_next_sale_with_title_price_and_times() {
        let [running, next, later] = [("on", "2020"), ("next", "9000"), ("later", "9001")]
            .map(|(id, year)| listed(id, &format!("{year}-01-01T10:00:00Z")));
        let PageData { contents, .. } = page_data(vec![later, running, next]);
        let [(id, card)] = &contents[..] else { panic!("{}", contents.len()) };
        let card = &card.0;
        assert_eq!(*id, "next-drop");
        for part in [
            r#"href="/sale?activity=next""#,
            r#"<img class="picture large" src="/lamp.png" alt="">"#,
            r#"<span data-zh="灯">&lt;b&gt;Lamps</span>"#,
            r#"<data value="19.05" data-currency="EUR">"#,
            r#"<time datetime="9000-01-01T10:00:00.000Z">9000-01-01 10:00 UTC</time>"#,
        ] {
            assert!(card.contains(part), "{card}");
        }
    }
}
