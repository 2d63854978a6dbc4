//! Figures and audit (G2, G4): the invariants, looked at in Redis at one instant and compared with the ledger.

use domain::{ids::ActivityId, time::Millis};
use futures::future::join_all;
use serde::Serialize;

use crate::{
    keys::Keys,
    ledger::row_reader::RowReader,
    ports::{Redis, Sql, StoreError},
    recovery::sweep,
    script::STATS,
};

/// A SKU's units in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuStats {
    /// The SKU.
    pub sku: String,
    /// Units on sale; -1 is unlimited.
    pub total: i64,
    /// Units left; `None` is not ready.
    pub left: Option<i64>,
    /// Units queued or waiting for money.
    pub held: i64,
    /// Of those, units whose order is not in the ledger yet.
    pub queued: i64,
    /// Of those, units waiting for money.
    pub pending: i64,
    /// Units sold.
    pub sold: i64,
}

/// A sale in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActivityStats {
    /// When.
    pub server_time: Millis,
    /// Orders that ever entered the queue.
    pub enqueued: i64,
    /// Orders that left it.
    pub written: i64,
    /// Orders in it now.
    pub queue: i64,
    /// Messages in the stream.
    pub stream: i64,
    /// Orders written per second, as last measured.
    pub drain_rate: i64,
    /// Units by SKU.
    pub skus: Vec<SkuStats>,
    /// Refusals by code, as far as Redis was asked.
    pub refusals: std::collections::BTreeMap<String, i64>,
}

/// Reads the figures; `None` where the sale has no gate.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn stats<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Option<ActivityStats>, StoreError> {
    let keys = Keys::of(activity);
    let script_keys = ["gate", "stats", "queue", "orders"].map(|name| keys.named(name)).into();
    let mut reply = STATS.run(redis, script_keys, vec![keys.prefix().into()]).await?;
    let server_time = Millis(reply.int()?);
    if reply.remaining() == 0 {
        return Ok(None);
    }
    let (enqueued, written, drain_rate, stream) = (reply.int()?, reply.int()?, reply.int()?, reply.int()?);
    let mut skus = Vec::new();
    for _ in 0..reply.int()? {
        let sku = reply.text()?;
        let left = reply.text()?.parse().ok();
        let (held, pending, sold) = (reply.int()?, reply.int()?, reply.int()?);
        skus.push(SkuStats { sku, left, held, queued: held - pending, pending, sold, total: reply.int()? });
    }
    let mut refusals = std::collections::BTreeMap::new();
    while reply.remaining() > 0 {
        refusals.insert(reply.text()?, reply.int()?);
    }
    let queue = (enqueued - written).max(0);
    Ok(Some(ActivityStats { server_time, enqueued, written, queue, stream, drain_rate, skus, refusals }))
}

/// Reads the figures of every sale that has a gate.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn all_stats<R: Redis>(redis: &R) -> Result<Vec<(ActivityId, ActivityStats)>, StoreError> {
    let activities = sweep::list_activities(redis).await?;
    let results = join_all(activities.iter().map(|activity| stats(redis, activity))).await;
    activities
        .into_iter()
        .zip(results)
        .filter_map(|(activity, result)| Some(result.transpose()?.map(|stats| (activity, stats))))
        .collect()
}

/// A SKU in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuLedgerStats {
    /// The SKU.
    pub sku: String,
    /// Units on sale.
    pub total: i64,
    /// Units that the SKU's row says are live.
    pub live: i64,
    /// Units of live orders, counted.
    pub counted: i64,
    /// Of those, waiting for money.
    pub pending: i64,
    /// The most that one user holds.
    pub most_per_user: i64,
}

/// The invariants of one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuAudit {
    /// Redis at one instant.
    pub redis: SkuStats,
    /// The ledger just before or after it.
    pub ledger: Option<SkuLedgerStats>,
    /// I1: `left + held + sold = total`, `left ≥ 0`.
    pub i1: bool,
    /// I2: the ledger holds no more live units than the total, and its count is right.
    pub i2: bool,
    /// I3: nobody holds more than the limit.
    pub i3: bool,
    /// Units by which Redis (pending and sold) differs from the ledger. While the sale runs, moves on their way show
    /// here; at rest it is 0.
    pub drift: i64,
}

/// The whole audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Redis's clock.
    pub server_time: Millis,
    /// Whether every invariant holds.
    pub ok: bool,
    /// Orders in the queue.
    pub queue: i64,
    /// The sum of the drifts' sizes.
    pub drift: i64,
    /// SKU by SKU.
    pub skus: Vec<SkuAudit>,
}

/// Looks at every invariant; `None` where the sale has no gate.
///
/// # Errors
/// [`StoreError`].
pub async fn audit<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    per_user: i64,
) -> Result<Option<Audit>, StoreError> {
    let ledger_rows = ledger_stats(sql, activity).await?;
    let Some(redis_stats) = stats(redis, activity).await? else { return Ok(None) };
    let skus: Vec<_> = redis_stats
        .skus
        .into_iter()
        .map(|redis| {
            let ledger = ledger_rows.iter().find(|ledger| ledger.sku == redis.sku).cloned();
            let i1 = redis
                .left
                .is_some_and(|left| redis.total < 0 || (left >= 0 && left + redis.held + redis.sold == redis.total))
                && redis.held >= 0
                && redis.sold >= 0;
            let i2 = ledger.as_ref().is_none_or(|ledger| {
                ledger.live == ledger.counted && (ledger.total < 0 || ledger.counted <= ledger.total)
            });
            let i3 = ledger.as_ref().is_none_or(|ledger| ledger.most_per_user <= per_user);
            let drift = redis.pending + redis.sold - ledger.as_ref().map_or(0, |ledger| ledger.counted);
            SkuAudit { redis, ledger, i1, i2, i3, drift }
        })
        .collect();
    Ok(Some(Audit {
        server_time: redis_stats.server_time,
        ok: skus.iter().all(|sku| sku.i1 && sku.i2 && sku.i3),
        queue: redis_stats.queue,
        drift: skus.iter().map(|sku| sku.drift.abs()).sum(),
        skus,
    }))
}

async fn ledger_stats<S: Sql>(sql: &S, activity: &ActivityId) -> Result<Vec<SkuLedgerStats>, StoreError> {
    let statement = "SELECT s.sku, s.total, s.live, \
        (SELECT CAST(COALESCE(SUM(o.quantity), 0) AS BIGINT) FROM orders o \
           WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1), \
        (SELECT CAST(COALESCE(SUM(o.quantity), 0) AS BIGINT) FROM orders o \
           WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1 AND o.status = 'pending_payment'), \
        (SELECT CAST(COALESCE(MAX(h.units), 0) AS BIGINT) FROM (SELECT SUM(o.quantity) AS units FROM orders o \
           WHERE o.activity = s.activity AND o.sku = s.sku AND o.live = 1 GROUP BY o.user_id) h) \
        FROM skus s WHERE s.activity = ?1";
    let rows = sql.run(statement, vec![activity.as_str().into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = RowReader::new(row);
            Ok(SkuLedgerStats {
                sku: row.text()?,
                total: row.int()?,
                live: row.int()?,
                counted: row.int()?,
                pending: row.int()?,
                most_per_user: row.int()?,
            })
        })
        .collect()
}

/// Orders by status, in the ledger.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn orders_by_status<S: Sql>(
    sql: &S,
    activity: &ActivityId,
) -> Result<std::collections::BTreeMap<String, i64>, StoreError> {
    let statement = "SELECT status, COUNT(*) FROM orders WHERE activity = ?1 GROUP BY status";
    let rows = sql.run(statement, vec![activity.as_str().into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = RowReader::new(row);
            Ok((row.text()?, row.int()?))
        })
        .collect()
}
