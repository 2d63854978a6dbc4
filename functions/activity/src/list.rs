//! All published sales.

use std::{cell::RefCell, rc::Rc};

use platform::{
    clock,
    http::{Answer, Failure},
    ledger::SpinLedger,
    ttl_cache::{self, MAX_AGE_MS, TtlCache},
};
use serde_json::json;
use workflows::ledger::activities::{self, Activity};

thread_local! {
    static SALES: TtlCache<(), Rc<Vec<Activity>>> = RefCell::default();
}

/// The list, newest start first.
pub async fn get() -> Result<Answer, Failure> {
    let sales = ttl_cache::get(&SALES, (), MAX_AGE_MS, async || {
        Ok::<_, Failure>(Rc::new(activities::list(&SpinLedger::open().await, false).await?))
    })
    .await?;
    let now = clock::now();
    let list: Vec<_> = sales
        .iter()
        .map(|sale| {
            let spec = &sale.spec;
            json!({
                "id": sale.id, "title": spec.title, "image": spec.image,
                "phase": sale.state.phase(now, spec.starts_at, spec.ends_at),
                "starts_at": spec.starts_at, "ends_at": spec.ends_at, "server_time": now,
            })
        })
        .collect();
    Ok(Answer::json(200, &list).header("cache-control", "public, max-age=0, s-maxage=1"))
}
