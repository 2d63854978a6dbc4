//! Serves one activity: the public part of its spec, and its stock.

use std::rc::Rc;

use domain::{
    api::visitors::{ActivityDocument, ActivitySummary, PublicEligibility, SkuStock},
    ids::ActivityId,
};
use platform::{
    activity_cache::{self, CachedActivity, CachedGate},
    clock,
    http::{ApiError, Response, not_found},
};
use workflows::StoreError;

/// Handles `GET /api/activities/:activity`. `as_of` in the response is Redis's time when the stock was read.
pub async fn get(activity: &str) -> Result<Response, ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let (cached, cached_gate) = match load(&activity).await {
        Ok((cached, cached_gate)) => (cached, Some(cached_gate)),
        // While Redis is unavailable, the cached spec is served; `left` and `as_of` are null.
        Err(error @ ApiError::Store(StoreError::RedisUnavailable(_))) => {
            (activity_cache::cached(&activity).await.ok_or(error)?, None)
        }
        Err(error) => return Err(error),
    };
    let spec = &cached.spec;
    let now = cached_gate
        .as_ref()
        .map_or_else(clock::now, |cached_gate| activity_cache::redis_time(cached_gate, clock::now()));
    let (state, starts_at, ends_at) = match &cached_gate {
        Some(cached_gate) => (cached_gate.gate.state, cached_gate.gate.starts_at, cached_gate.gate.ends_at),
        None => (cached.state(), spec.starts_at, spec.ends_at),
    };
    let skus: Vec<_> = spec
        .skus
        .iter()
        .map(|sku| {
            let left =
                cached_gate.as_ref().and_then(|cached_gate| cached_gate.skus.iter().find(|left| left.sku == sku.sku));
            SkuStock {
                sku: &sku.sku,
                name: &sku.name,
                image: &sku.image,
                price: sku.price,
                currency: &sku.currency,
                total: left.map_or(sku.total, |left| left.total),
                left: left.and_then(|left| left.left),
                as_of: cached_gate.as_ref().map(|cached_gate| cached_gate.now),
            }
        })
        .collect();
    let document = ActivityDocument {
        summary: ActivitySummary {
            id: &cached.id,
            title: &spec.title,
            image: &spec.image,
            phase: state.phase(now, starts_at, ends_at),
            starts_at,
            ends_at,
            server_time: now,
        },
        description: &spec.description,
        per_user: spec.per_user,
        pay_timeout_seconds: spec.pay_timeout_seconds,
        pay_extension_seconds: spec.pay_extension_seconds,
        human_check: spec.human_check,
        max_wait_seconds: spec.max_wait_seconds,
        eligibility: PublicEligibility {
            members_only: spec.eligibility.members_only,
            min_level: spec.eligibility.min_level,
            invited_only: !spec.eligibility.allow.is_empty(),
        },
        skus,
    };
    Ok(Response::json(200, &document).header("cache-control", "public, max-age=0, s-maxage=1"))
}

async fn load(activity: &ActivityId) -> Result<(Rc<CachedActivity>, Rc<CachedGate>), ApiError> {
    let cached_gate = activity_cache::gate(activity).await?;
    Ok((activity_cache::activity(activity).await?, cached_gate))
}
