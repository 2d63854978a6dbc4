//! Lists the published activities.

use std::{cell::RefCell, rc::Rc};

use platform::{
    clock,
    fetching_cache::{self, FetchingCache},
    http::{ApiError, Response},
    ledger::SpinLedger,
};
use workflows::{
    cache::visitors,
    ledger::activities::{self, Activity},
};

thread_local! {
    static ACTIVITIES: FetchingCache<(), Rc<Vec<Activity>>> = RefCell::default();
}

/// Handles `GET /api/activities`: up to 200 activities, the latest start first.
pub async fn get() -> Result<Response, ApiError> {
    let published = fetching_cache::get_or_fetch(&ACTIVITIES, (), async || {
        Ok::<_, ApiError>(Rc::new(activities::list(&SpinLedger::open().await, false).await?))
    })
    .await?;
    let list = visitors::list(&published, clock::now());
    Ok(Response::json(200, &list).header("cache-control", "public, max-age=0, s-maxage=1"))
}
