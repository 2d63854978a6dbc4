//! Serves one activity: the public part of its spec, and its stock.

use std::rc::Rc;

use domain::ids::ActivityId;
use platform::{
    activity_cache, clock,
    http::{ApiError, Response, not_found},
};
use sale::visitors::{CachedActivity, CachedGate};
use stores::StoreError;

/// Handles `GET /api/activities/:activity`. `as_of` in the response is Redis's time when the stock was read.
pub async fn get(activity: &str) -> Result<Response, ApiError> {
    let (cached, cached_gate) = load(activity).await?;
    Ok(Response::json(200, &cached.document(cached_gate.as_deref(), clock::now())))
}

/// Loads an activity with its gate. Without Redis it is the copy in key-value, without a gate.
pub async fn load(activity: &str) -> Result<(Rc<CachedActivity>, Option<Rc<CachedGate>>), ApiError> {
    let activity = ActivityId::parse(activity).map_err(|_| not_found("There is no such sale."))?;
    let load = async || {
        let cached_gate = activity_cache::gate(&activity).await?;
        Ok::<_, ApiError>((activity_cache::activity(&activity).await?, Some(cached_gate)))
    };
    match load().await {
        // While Redis is unavailable, the cached spec is served; `left` and `as_of` are null.
        Err(error @ ApiError::Store(StoreError::RedisUnavailable(_))) => {
            Ok((activity_cache::cached(&activity).await.ok_or(error)?, None))
        }
        loaded => loaded,
    }
}
