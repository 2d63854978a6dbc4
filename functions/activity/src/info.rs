//! One sale: its description, rules, and what is left.

use serde_json::json;
use stampede_domain::ids::ActivityId;
use stampede_platform::{
    clock,
    http::{Answer, Failure, not_found},
    sales,
};

/// The sale, and when its stock was read.
pub async fn get(activity: &str) -> Result<Answer, Failure> {
    let unknown = || not_found("There is no such sale.");
    let activity = ActivityId::parse(activity).map_err(|_| unknown())?;
    let glance = sales::glance(&activity).await?.ok_or_else(unknown)?;
    let sale = sales::sale(&activity).await?.ok_or_else(unknown)?;
    let now = sales::server_time(&glance, clock::now());
    let spec = &sale.spec;
    let skus: Vec<_> = spec
        .skus
        .iter()
        .map(|sku| {
            let left = glance.skus.iter().find(|left| left.sku == sku.sku);
            json!({
                "sku": sku.sku, "name": sku.name, "image": sku.image, "price": sku.price, "currency": sku.currency,
                "total": left.map_or(sku.total, |left| left.total),
                "left": left.and_then(|left| left.left), "as_of": glance.now,
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
        "phase": glance.gate.phase(now), "starts_at": glance.gate.starts_at, "ends_at": glance.gate.ends_at,
        "server_time": now, "per_user": spec.per_user, "pay_timeout_seconds": spec.pay_timeout_seconds,
        "pay_extension_seconds": spec.pay_extension_seconds, "human_check": spec.human_check,
        "max_wait_seconds": spec.max_wait_seconds,
        "eligibility": eligibility, "skus": skus,
    });
    Ok(Answer::json(200, &document).header("cache-control", "public, max-age=0, s-maxage=1"))
}
