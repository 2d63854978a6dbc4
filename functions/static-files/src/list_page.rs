//! The list of sales in the HTML of its page, so that the page need not wait for it.

use std::{convert::Infallible, rc::Rc, time::Duration};

use platform::{clock, key_value::SpinKeyValue, single_flight::Cached, timeout::with_timeout};
use sale::{
    ledger::activities::ListedActivity,
    visitors::{LIST_KEY, list},
};
use sha2::{Digest, Sha256};
use stores::shared_value;

use crate::page_data::{PageData, json_element};

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
    let head = json_element("first-list", &list(&activities, now));
    PageData { key: hex::encode(&Sha256::digest(&head.0)[..12]), head, contents: vec![], shown: "" }
}
