//! Lists the published activities.

use std::{rc::Rc, time::Duration};

use domain::api::Page;
use platform::{
    clock,
    http::{ApiError, Request, Response},
    key_value::SpinKeyValue,
    ledger::SpinLedger,
    paging, readable_activities,
    redis::SpinRedis,
    single_flight::Cached,
    timeout::with_timeout,
};
use sale::{
    ledger::activities::{self, ListedActivity},
    visitors,
};
use stores::shared_value::SharedValue;

/// The list of all instances: one request a second reads it from the ledger, and from Redis what is left.
const SHARED: SharedValue<'_> = SharedValue {
    key: visitors::LIST_KEY,
    lease_key: "stampede:list",
    lease_ms: 5_000,
    fresh_ms: Some(1_000),
    max_age_ms: 15_000,
    max_wait_ms: 500,
};

/// How long the list waits for what is left: it can do without.
const STOCK_TIMEOUT: Duration = Duration::from_millis(300);

thread_local! {
    static ACTIVITIES: Rc<Cached<Rc<Vec<ListedActivity>>>> = Rc::default();
}

/// Maximum and default number of activities in a page: the whole list.
const MAX_PAGE: i64 = 200;

/// Handles `GET /api/activities?before=&limit=`: up to 200 activities, the latest start first: the 150 that end next, and
/// the 50 that ended last.
pub async fn get(request: &Request) -> Result<Response, ApiError> {
    let (before, limit) = (paging::before(request), paging::limit(request, MAX_PAGE)?);
    let published = ACTIVITIES.with(Rc::clone).get_or_fetch(load).await?;
    let list = visitors::list(&published, clock::now());
    let page = Page::of_all(list, before.as_deref(), limit, |activity| activity.summary.id.to_string())?;
    Ok(Response::json(200, &page))
}

async fn load() -> Result<Rc<Vec<ListedActivity>>, ApiError> {
    let fetch = async || {
        let now = clock::now();
        let mut listed = readable_activities::of(activities::list_published(&SpinLedger::open().await, now).await?);
        let _ = with_timeout(STOCK_TIMEOUT, visitors::load_units_left(&SpinRedis, &mut listed, now)).await;
        Ok(listed)
    };
    Ok(Rc::new(SHARED.get(&SpinRedis, &SpinKeyValue, |_| true, fetch).await?))
}
