//! The audit (G4): checks invariants I1 to I3 for every SKU, and compares Redis at one instant with the ledger.

use std::collections::HashMap;

use domain::{
    ids::{ActivityId, SkuId},
    time::Millis,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Redis, Sql, StoreError},
};

use crate::commands::stats::{self, ActivityStats, SkuStats};

/// Units of a SKU in the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SkuLedgerStats {
    /// The SKU.
    #[schemars(with = "SkuId")]
    pub sku: String,
    /// Units on sale; -1 if unlimited.
    #[schemars(range(min = -1))]
    pub total: i64,
    /// Live units according to the SKU's row.
    pub live: i64,
    /// Units of live orders, summed over the orders, or over counters in the metrics.
    pub counted: i64,
    /// Of `counted`, units of orders that wait for payment.
    pub pending: i64,
    /// The most live units that one user has.
    pub most_per_user: i64,
    /// By how many orders and units the counters of orders by status differ from the orders; 0.
    #[schemars(range(min = 0))]
    pub miscounted: i64,
}

/// Audit of one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SkuAudit {
    /// Redis, at one instant.
    pub redis: SkuStats,
    /// The ledger, read just before.
    pub ledger: Option<SkuLedgerStats>,
    /// I1: `left + held + sold = total`, `left ≥ 0`, and every unit held is that of an order.
    pub i1: bool,
    /// I8: while the sale is open, no unit is left that somebody waits for. For a moment one may be: the next sweep offers it.
    pub i8: bool,
    /// I2: the ledger has no more live units than the total, and the SKU's row and the counters agree with its
    /// orders.
    pub i2: bool,
    /// I3: no user has more live units than `per_user`.
    pub i3: bool,
    /// Units that wait for payment in Redis minus those in the ledger. Transitions in progress make it differ from 0
    /// while the activity is running; without traffic it is 0.
    pub pending_drift: i64,
    /// The same for units sold.
    pub sold_drift: i64,
    /// Sum of the absolute values of both drifts. A payment that Redis lost counts twice: as pending and as not sold.
    #[schemars(range(min = 0))]
    pub drift: i64,
}

/// Audit of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Redis time of the read.
    pub server_time: Millis,
    /// Whether all invariants hold for all SKUs.
    pub ok: bool,
    /// Number of orders in the queue.
    #[schemars(range(min = 0))]
    pub queue: i64,
    /// I4: number of orders in the queue whose message is missing; 0.
    #[schemars(range(min = 0))]
    pub lost: i64,
    /// Sum of the drifts of all SKUs.
    #[schemars(range(min = 0))]
    pub drift: i64,
    /// Audit per SKU.
    pub skus: Vec<SkuAudit>,
}

/// Checks the invariants of an activity; `None` if it has no gate. Reads all orders of the activity.
pub async fn audit<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    per_user: i64,
) -> Result<Option<Audit>, StoreError> {
    let statement = include_str!("../../sql/audit/ledger_stats.sql");
    let rows = sql.run(statement, vec![activity.as_str().into()]).await?;
    let ledger = rows.into_iter().map(|row| parse_row(&mut RowReader::new(row))).collect::<Result<Vec<_>, _>>()?;
    Ok(stats::stats(redis, activity).await?.map(|redis| compare(redis, &ledger, per_user)))
}

/// Checks the invariants of activities by the ledger's counters, without reading orders: I3 and the counters themselves
/// are not checked. The ledger is read after Redis.
pub async fn audit_counters<S: Sql>(
    sql: &S,
    activities: &[(ActivityId, ActivityStats)],
) -> Result<Vec<(ActivityId, Audit)>, StoreError> {
    let ids: Vec<_> = activities.iter().map(|(activity, _)| activity).collect();
    let json_values = sql.dialect().json_values("?1");
    let statement = format!(include_str!("../../sql/audit/counters.sql"), json_values = json_values);
    let mut ledger: HashMap<_, Vec<_>> = HashMap::new();
    for row in sql.run(&statement, vec![json!(ids).to_string().into()]).await? {
        let mut row = RowReader::new(row);
        ledger.entry(row.parse(ActivityId::parse)?).or_default().push(parse_row(&mut row)?);
    }
    let audits = activities.iter().map(|(activity, redis)| {
        let rows = ledger.remove(activity).unwrap_or_default();
        (activity.clone(), compare(redis.clone(), &rows, i64::MAX))
    });
    Ok(audits.collect())
}

fn compare(redis: ActivityStats, ledger_rows: &[SkuLedgerStats], per_user: i64) -> Audit {
    let ActivityStats { server_time, queue, lost, .. } = redis;
    let skus: Vec<_> = redis
        .skus
        .into_iter()
        .map(|redis| {
            let ledger = ledger_rows.iter().find(|ledger| ledger.sku == redis.sku).cloned();
            let i1 = redis
                .left
                .is_some_and(|left| redis.total < 0 || (left >= 0 && left + redis.held + redis.sold == redis.total))
                && redis.held >= 0
                && redis.held == redis.pending + redis.queued
                && redis.sold >= 0;
            let i8 = redis.to_offer == 0;
            let i2 = ledger.as_ref().is_none_or(|ledger| {
                ledger.live == ledger.counted
                    && ledger.miscounted == 0
                    && (ledger.total < 0 || ledger.counted <= ledger.total)
            });
            let i3 = ledger.as_ref().is_none_or(|ledger| ledger.most_per_user <= per_user);
            let (pending, counted) = ledger.as_ref().map_or((0, 0), |ledger| (ledger.pending, ledger.counted));
            let (pending_drift, sold_drift) = (redis.pending - pending, redis.sold - (counted - pending));
            let drift = pending_drift.abs() + sold_drift.abs();
            SkuAudit { redis, ledger, i1, i8, i2, i3, pending_drift, sold_drift, drift }
        })
        .collect();
    Audit {
        server_time,
        ok: lost == 0 && skus.iter().all(|sku| sku.i1 && sku.i2 && sku.i3 && sku.i8),
        queue,
        lost,
        drift: skus.iter().map(|sku| sku.drift).sum(),
        skus,
    }
}

fn parse_row(row: &mut RowReader) -> Result<SkuLedgerStats, StoreError> {
    Ok(SkuLedgerStats {
        sku: row.text()?,
        total: row.int()?,
        live: row.int()?,
        counted: row.int()?,
        pending: row.int()?,
        most_per_user: row.int()?,
        miscounted: row.int()?,
    })
}
