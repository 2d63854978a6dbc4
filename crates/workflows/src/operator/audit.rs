//! Live statistics and the audit (G2, G4).
//!
//! The audit checks invariants I1 to I3 for every SKU, and compares Redis at one instant with the ledger.

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

/// Units of a SKU in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuStats {
    /// The SKU.
    pub sku: String,
    /// Units on sale; -1 if unlimited.
    pub total: i64,
    /// Units left; `None` if the stock is not loaded.
    pub left: Option<i64>,
    /// Units of orders that are queued or wait for payment.
    pub held: i64,
    /// Of those, units of orders that are not in the ledger yet.
    pub queued: i64,
    /// Of those, units of orders that wait for payment.
    pub pending: i64,
    /// Units sold.
    pub sold: i64,
}

/// Counters of an activity in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ActivityStats {
    /// Redis time of the read.
    pub server_time: Millis,
    /// Number of orders that have entered the queue.
    pub enqueued: i64,
    /// Number of orders that have left the queue.
    pub written: i64,
    /// Number of orders in the queue.
    pub queue: i64,
    /// Number of messages in the stream.
    pub stream: i64,
    /// Orders written to the ledger per second, as last measured.
    pub drain_rate: i64,
    /// Units per SKU.
    pub skus: Vec<SkuStats>,
    /// Number of refusals per code. Refusals that an instance decides from its cache are not counted.
    pub refusals: std::collections::BTreeMap<String, i64>,
}

/// Reads the counters of an activity; `None` if it has no gate.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused` if Redis gave no reply; `Malformed` if the reply cannot be parsed.
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

/// Reads the counters of every activity that has a gate.
///
/// # Errors
/// As [`stats`].
pub async fn all_stats<R: Redis>(redis: &R) -> Result<Vec<(ActivityId, ActivityStats)>, StoreError> {
    let activities = sweep::list_activities(redis).await?;
    let results = join_all(activities.iter().map(|activity| stats(redis, activity))).await;
    activities
        .into_iter()
        .zip(results)
        .filter_map(|(activity, result)| Some(result.transpose()?.map(|stats| (activity, stats))))
        .collect()
}

/// Units of a SKU in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuLedgerStats {
    /// The SKU.
    pub sku: String,
    /// Units on sale; -1 if unlimited.
    pub total: i64,
    /// Live units according to the SKU's row.
    pub live: i64,
    /// Units of live orders, summed over the orders.
    pub counted: i64,
    /// Of those, units of orders that wait for payment.
    pub pending: i64,
    /// The most live units that one user has.
    pub most_per_user: i64,
}

/// Audit of one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SkuAudit {
    /// Redis, at one instant.
    pub redis: SkuStats,
    /// The ledger, read just before.
    pub ledger: Option<SkuLedgerStats>,
    /// I1: `left + held + sold = total`, `left ≥ 0`.
    pub i1: bool,
    /// I2: the ledger has no more live units than the total, and the SKU's row agrees with its orders.
    pub i2: bool,
    /// I3: no user has more live units than `per_user`.
    pub i3: bool,
    /// Units by which Redis (pending and sold) exceeds the ledger. Transitions in progress show up here while the
    /// activity is running; without traffic it is 0.
    pub drift: i64,
}

/// Audit of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Redis time of the read.
    pub server_time: Millis,
    /// Whether all invariants hold for all SKUs.
    pub ok: bool,
    /// Number of orders in the queue.
    pub queue: i64,
    /// Sum of the absolute drifts.
    pub drift: i64,
    /// Audit per SKU.
    pub skus: Vec<SkuAudit>,
}

/// Checks the invariants of an activity; `None` if it has no gate.
///
/// # Errors
/// Any [`StoreError`] of either store; nothing is changed.
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

/// Number of orders per status in the ledger.
///
/// # Errors
/// `LedgerUnavailable`, `LedgerNotMigrated`, or `Malformed` if a row cannot be parsed.
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
