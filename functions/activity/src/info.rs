//! One sale: its description, rules, and what is left.

use std::rc::Rc;

use domain::ids::ActivityId;
use platform::{
    activity_cache::{self, CachedActivity, Read},
    clock,
    http::{Answer, Failure, not_found},
};
use serde_json::json;
use workflows::StoreError;

/// The sale, and when its stock was read.
pub async fn get(activity: &str) -> Result<Answer, Failure> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let (sale, glance) = match both(&activity).await {
        Ok((sale, glance)) => (sale, Some(glance)),
        // While Redis is away the sale is shown as it was last described: what is left, nobody can tell.
        Err(failure @ Failure::Store(StoreError::RedisUnavailable(_))) => {
            (activity_cache::copy(&activity).await.ok_or(failure)?, None)
        }
        Err(failure) => return Err(failure),
    };
    let spec = &sale.spec;
    let now = glance.as_ref().map_or_else(clock::now, |glance| activity_cache::server_time(glance, clock::now()));
    let (state, starts_at, ends_at) = match &glance {
        Some(glance) => (glance.gate.state, glance.gate.starts_at, glance.gate.ends_at),
        None => (sale.state(), spec.starts_at, spec.ends_at),
    };
    let skus: Vec<_> = spec
        .skus
        .iter()
        .map(|sku| {
            let left = glance.as_ref().and_then(|glance| glance.skus.iter().find(|left| left.sku == sku.sku));
            json!({
                "sku": sku.sku, "name": sku.name, "image": sku.image, "price": sku.price, "currency": sku.currency,
                "total": left.map_or(sku.total, |left| left.total),
                "left": left.and_then(|left| left.left), "as_of": glance.as_ref().map(|glance| glance.now),
            })
        })
        .collect();
    // The allow list names people: what the public sees is only that there is one.
    let eligibility = json!({
        "members_only": spec.eligibility.members_only,
        "min_level": spec.eligibility.min_level,
        "invited_only": !spec.eligibility.allow.is_empty(),
    });
    let document = json!({
        "id": sale.id, "title": spec.title, "description": spec.description, "image": spec.image,
        "phase": state.phase(now, starts_at, ends_at), "starts_at": starts_at, "ends_at": ends_at,
        "server_time": now, "per_user": spec.per_user, "pay_timeout_seconds": spec.pay_timeout_seconds,
        "pay_extension_seconds": spec.pay_extension_seconds, "human_check": spec.human_check,
        "max_wait_seconds": spec.max_wait_seconds,
        "eligibility": eligibility, "skus": skus,
    });
    Ok(Answer::json(200, &document).header("cache-control", "public, max-age=0, s-maxage=1"))
}

async fn both(activity: &ActivityId) -> Result<(Rc<CachedActivity>, Rc<Read>), Failure> {
    let glance = activity_cache::glance(activity).await?;
    Ok((activity_cache::sale(activity).await?, glance))
}
