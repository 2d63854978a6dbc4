//! Lists the published activities.

use std::{cell::RefCell, rc::Rc};

use domain::api::visitors::ActivitySummary;
use platform::{
    clock,
    fetching_cache::{self, FetchingCache},
    http::{ApiError, Response},
    ledger::SpinLedger,
};
use workflows::ledger::activities::{self, Activity};

thread_local! {
    static ACTIVITIES: FetchingCache<(), Rc<Vec<Activity>>> = RefCell::default();
}

/// Handles `GET /api/activities`: up to 200 activities, the latest start first.
pub async fn get() -> Result<Response, ApiError> {
    let published = fetching_cache::get_or_fetch(&ACTIVITIES, (), async || {
        Ok::<_, ApiError>(Rc::new(activities::list(&SpinLedger::open().await, false).await?))
    })
    .await?;
    let now = clock::now();
    let list: Vec<_> = published
        .iter()
        .map(|activity| {
            let spec = &activity.spec;
            ActivitySummary {
                id: &activity.id,
                title: &spec.title,
                image: &spec.image,
                phase: activity.state.phase(now, spec.starts_at, spec.ends_at),
                starts_at: spec.starts_at,
                ends_at: spec.ends_at,
                server_time: now,
            }
        })
        .collect();
    Ok(Response::json(200, &list).header("cache-control", "public, max-age=0, s-maxage=1"))
}
