//! Live statistics of activities (G2).

use std::collections::BTreeMap;

use domain::{
    http::problem::Code,
    ids::{ActivityId, SkuId},
    time::Millis,
};
use futures::future::join_all;
use sale::ledger::activities::RETENTION_AFTER_END_MS;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use stores::{
    keys::{FOREIGN_CALLBACKS, Keys},
    ledger::row_reader::RowReader,
    ports::{Redis, Sql, StoreError},
    reply::Reply,
};

use crate::scripts::STATS;

/// Units of a SKU in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkuStats {
    /// The SKU.
    #[schemars(with = "SkuId")]
    pub sku: String,
    /// Units on sale; -1 if unlimited.
    #[schemars(range(min = -1))]
    pub total: i64,
    /// Units left; `None` if the stock is not loaded.
    pub left: Option<i64>,
    /// Units of orders that are queued or wait for payment.
    pub held: i64,
    /// Of `held`, units of queued orders: as they were found, or in a long queue as they are counted.
    pub queued: i64,
    /// Of `held`, units of orders that wait for payment.
    pub pending: i64,
    /// Units sold.
    pub sold: i64,
    /// How many wait in the line for a unit. While anybody does, `left` belongs to the line.
    #[schemars(range(min = 0))]
    pub waiting: i64,
    /// I8: of `left`, what is to be offered to them. For a moment there is some: the next sweep offers it.
    #[schemars(range(min = 0))]
    pub to_offer: i64,
}

/// Counters of an activity in Redis at one instant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActivityStats {
    /// Redis time of the read.
    pub server_time: Millis,
    /// Number of orders that have entered the queue.
    #[schemars(range(min = 0))]
    pub enqueued: i64,
    /// Number of orders that have left the queue.
    #[schemars(range(min = 0))]
    pub written: i64,
    /// Number of orders in the queue.
    #[schemars(range(min = 0))]
    pub queue: i64,
    /// Number of messages in the stream.
    #[schemars(range(min = 0))]
    pub stream: i64,
    /// Milliseconds for which the oldest of them has waited; 0 without any.
    #[schemars(range(min = 0))]
    pub oldest_ms: i64,
    /// Number of queued orders whose message is missing: the next sweep sends them again. 0 in a long queue.
    #[schemars(range(min = 0))]
    pub lost: i64,
    /// Orders written to the ledger per second, as last measured.
    #[schemars(range(min = 0))]
    pub drain_rate: i64,
    /// Units per SKU.
    pub skus: Vec<SkuStats>,
    /// Number of refused reservations, tickets and challenges per code. What an instance refuses without Redis is added
    /// when one of its next reservations or tickets of the activity reaches Redis; the counts of a call that fails, and
    /// the last ones of an instance that ends, are lost.
    #[schemars(transform = counts_by::<Code>)]
    pub refusals: BTreeMap<String, i64>,
    /// Number of sign-in tokens that tickets and challenges were refused for, per reason: `malformed`, `algorithm`,
    /// `signature`, `unknown_key`, a claim that is missing, unreadable or not ours (`iss`, `aud`, `exp`, `sub`), `nbf`,
    /// `expired` or `unnameable`.
    pub refused_sign_ins: BTreeMap<String, i64>,
}

/// Describes an object whose members are named by `K` and count something.
pub(super) fn counts_by<K: JsonSchema>(schema: &mut Schema) {
    let mut generator = SchemaGenerator::default();
    schema.insert("propertyNames".to_owned(), K::json_schema(&mut generator).to_value());
    schema.insert("additionalProperties".to_owned(), serde_json::json!({ "type": "integer", "minimum": 0 }));
}

/// Reads the counters of an activity; `None` if it has no gate.
pub async fn stats<R: Redis>(redis: &R, activity: &ActivityId) -> Result<Option<ActivityStats>, StoreError> {
    read(redis, activity, 0, LOOK_AT).await
}

/// The longest queue whose orders are looked at one by one, which takes some 2 µs each.
const LOOK_AT: usize = 5_000;

/// Reads the counters of an activity; `None` if its gate does not exist, or not for `kept_ms` more. Looks at the orders of a
/// queue that is not longer than `look_at`.
async fn read<R: Redis>(
    redis: &R,
    activity: &ActivityId,
    kept_ms: i64,
    look_at: usize,
) -> Result<Option<ActivityStats>, StoreError> {
    let script_keys = Keys::of(activity).all(["gate", "stats", "orders", "queued"]);
    let args = vec![kept_ms.to_string().into(), look_at.to_string().into()];
    let mut reply = STATS.run(redis, script_keys, args).await?;
    if !reply.is("found", "no_gate")? {
        return Ok(None);
    }
    let server_time = Millis(reply.int()?);
    let (enqueued, written, drain_rate) = (reply.int()?, reply.int()?, reply.int()?);
    let (stream, oldest_ms, lost) = (reply.int()?, reply.int()?, reply.int()?);
    let mut skus = Vec::new();
    for _ in 0..reply.int()? {
        let sku = reply.text()?;
        let left = reply.text()?.parse().ok();
        let (held, pending, sold) = (reply.int()?, reply.int()?, reply.int()?);
        let (total, queued) = (reply.int()?, reply.int()?);
        let (waiting, to_offer) = (reply.int()?, reply.int()?);
        skus.push(SkuStats { sku, left, held, queued, pending, sold, total, waiting, to_offer });
    }
    let (mut refusals, mut refused_sign_ins) = (BTreeMap::new(), BTreeMap::new());
    while reply.remaining() > 0 {
        let (name, count) = (reply.text()?, reply.int()?);
        match name.strip_prefix("sign_in:") {
            Some(reason) => refused_sign_ins.insert(reason.to_owned(), count),
            None => refusals.insert(name, count),
        };
    }
    let queue = (enqueued - written).max(0);
    Ok(Some(ActivityStats {
        server_time,
        enqueued,
        written,
        queue,
        stream,
        oldest_ms,
        lost,
        drain_rate,
        skus,
        refusals,
        refused_sign_ins,
    }))
}

/// How long after its end an activity's counters are among [`recent_stats`], in milliseconds.
const RECENT_MS: i64 = 24 * 3_600 * 1_000;

/// The counters of the activities that have not ended, or ended lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecentStats {
    /// Those that could be read.
    pub activities: Vec<(ActivityId, ActivityStats)>,
    /// Why the others could not: the errors of [`stats`].
    pub failures: Vec<(ActivityId, StoreError)>,
    /// How many callbacks named orders that this app never made; `None` if Redis does not say.
    pub foreign_callbacks: Option<i64>,
}

/// Reads the counters of each activity in `listed` that has a gate and has not ended, or ended within the last day; an
/// operator's change after the end counts as the end.
pub async fn recent_stats<R: Redis>(redis: &R, listed: Vec<ActivityId>) -> RecentStats {
    // A gate is kept that much longer than its activity lasts.
    let kept_ms = RETENTION_AFTER_END_MS - RECENT_MS;
    let results = join_all(listed.iter().map(|activity| read(redis, activity, kept_ms, 0))).await;
    let counted = redis.command("GET", vec![FOREIGN_CALLBACKS.into()]).await.and_then(|items| Reply::new(items).int());
    let mut all = RecentStats { foreign_callbacks: counted.ok(), ..RecentStats::default() };
    for (activity, result) in listed.into_iter().zip(results) {
        match result {
            Ok(Some(stats)) => all.activities.push((activity, stats)),
            Ok(None) => {}
            Err(error) => all.failures.push((activity, error)),
        }
    }
    all
}

/// Number of orders per status in the ledger, from its counters.
pub async fn orders_by_status<S: Sql>(sql: &S, activity: &ActivityId) -> Result<BTreeMap<String, i64>, StoreError> {
    let statement = "SELECT status, CAST(SUM(orders) AS BIGINT) FROM order_counts WHERE activity = ?1 \
         GROUP BY status HAVING SUM(orders) <> 0";
    let rows = sql.run(statement, vec![activity.as_str().into()]).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok((row.text()?, row.int()?))).collect()
}
