//! The activities that were given a gate and that sweeps still visit. The gate itself may be gone.

use domain::ids::ActivityId;
use stores::{
    keys::ACTIVITIES,
    ports::{Redis, RedisValue, StoreError},
};

/// Lists the activities that were given a gate. `operations::upkeep::gates::unlist_ended` removes those
/// that are over.
pub async fn list<R: Redis>(redis: &R) -> Result<Vec<ActivityId>, StoreError> {
    let items = redis.command("SMEMBERS", vec![ACTIVITIES.into()]).await?;
    Ok(items
        .into_iter()
        .filter_map(|item| match item {
            RedisValue::Bytes(bytes) => ActivityId::parse(std::str::from_utf8(&bytes).ok()?).ok(),
            _ => None,
        })
        .collect())
}
