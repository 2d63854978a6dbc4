//! Sales and what is on sale, in the ledger.

use std::collections::{BTreeMap, HashMap};

use domain::{
    activity::{ActivitySpec, ActivityState, Sku},
    ids::{ActivityId, SkuId},
    time::Millis,
};

use super::row_reader::RowReader;
use crate::ports::{Dialect, Sql, SqlValue, StoreError};

/// A sale as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Its id.
    pub id: ActivityId,
    /// Its description; the totals are those of the SKU rows.
    pub spec: ActivitySpec,
    /// What operators decided.
    pub state: ActivityState,
    /// What the start key is made from.
    pub nonce: String,
    /// Grows with every change.
    pub version: i64,
    /// Grows with every rebuild of Redis; 0 before the first gate.
    pub epoch: i64,
    /// Units held and sold, by SKU, in the order of the description.
    pub live_units: Vec<LiveUnits>,
}

/// What the orders of a SKU hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUnits {
    /// The SKU.
    pub sku: SkuId,
    /// Units waiting for money.
    pub pending: i64,
    /// Units paid for.
    pub sold: i64,
}

const COLUMNS: &str = "id, spec, state, nonce, version, \
     COALESCE((SELECT p.epoch FROM epochs p WHERE p.activity = activities.id), 0)";

/// Loads a sale.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn load<S: Sql>(sql: &S, id: &ActivityId) -> Result<Option<Activity>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM activities WHERE id = ?1");
    let rows = sql.run(&statement, vec![id.as_str().into()]).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let mut activity = parse_row(row)?;
    let statement = "SELECT s.sku, s.total, \
        (SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT) FROM orders o \
           WHERE o.activity = s.activity AND o.sku = s.sku AND live = 1 AND status = 'pending_payment'), s.live \
        FROM skus s WHERE s.activity = ?1";
    for row in sql.run(statement, vec![id.as_str().into()]).await? {
        let mut row = RowReader::new(row);
        let sku = row.parse(SkuId::parse)?;
        let (total, pending, live) = (row.int()?, row.int()?, row.int()?);
        if let Some(spec_sku) = activity.spec.skus.iter_mut().find(|candidate| candidate.sku == sku) {
            spec_sku.total = total;
        }
        activity.live_units.push(LiveUnits { sku, pending, sold: live - pending });
    }
    Ok(Some(activity))
}

/// How the ledger stands to a sale's gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedGate {
    /// The sale.
    pub id: ActivityId,
    /// Its version.
    pub version: i64,
    /// Its epoch.
    pub epoch: i64,
    /// Whether it ought to have a gate: it is published or paused, and has not ended.
    pub required: bool,
    /// Units of a SKU that one buyer may hold.
    pub per_user: i64,
    /// When it was last changed.
    pub changed_at: Millis,
}

/// How the ledger stands to all gates.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn expected_gates<S: Sql>(sql: &S, now: Millis) -> Result<Vec<ExpectedGate>, StoreError> {
    let statement = "SELECT a.id, a.version, COALESCE(p.epoch, 0), \
        CASE WHEN a.state IN ('published', 'paused') AND a.ends_at > ?1 THEN 1 ELSE 0 END, a.per_user, a.updated_at \
        FROM activities a LEFT JOIN epochs p ON p.activity = a.id WHERE a.state <> 'draft' ORDER BY a.id";
    let rows = sql.run(statement, vec![now.0.into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = RowReader::new(row);
            let id = row.parse(ActivityId::parse)?;
            let (version, epoch, required) = (row.int()?, row.int()?, row.int()? == 1);
            let (per_user, changed_at) = (row.int()?, Millis(row.int()?));
            Ok(ExpectedGate { id, version, epoch, required, per_user, changed_at })
        })
        .collect()
}

/// Units that each SKU of a sale has room for.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn remaining_units<S: Sql>(sql: &S, id: &ActivityId) -> Result<HashMap<SkuId, i64>, StoreError> {
    let statement = "SELECT sku, CASE WHEN total < 0 THEN 9223372036854775807 ELSE total - live END FROM skus \
         WHERE activity = ?1";
    let rows = sql.run(statement, vec![id.as_str().into()]).await?;
    let mut rows = rows.into_iter().map(RowReader::new);
    rows.try_fold(HashMap::new(), |mut remaining, mut row| {
        remaining.insert(row.parse(SkuId::parse)?, row.int()?);
        Ok(remaining)
    })
}

/// Loads the description alone, with the totals: what readers need.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn list<S: Sql>(sql: &S, include_drafts: bool) -> Result<Vec<Activity>, StoreError> {
    let filter = if include_drafts { "" } else { "WHERE state <> 'draft'" };
    let statement = format!("SELECT {COLUMNS} FROM activities {filter} ORDER BY starts_at DESC, id LIMIT 200");
    sql.run(&statement, Vec::new()).await?.into_iter().map(parse_row).collect()
}

/// Every sale that was published, and when it ends; closed ones have ended in 1970.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn published_end_times<S: Sql>(sql: &S) -> Result<BTreeMap<ActivityId, Millis>, StoreError> {
    let statement =
        "SELECT id, CASE state WHEN 'closed' THEN 0 ELSE ends_at END FROM activities WHERE state <> 'draft'";
    let rows = sql.run(statement, Vec::new()).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok((row.parse(ActivityId::parse)?, Millis(row.int()?)))).collect()
}

fn parse_row(row: Vec<SqlValue>) -> Result<Activity, StoreError> {
    let mut row = RowReader::new(row);
    Ok(Activity {
        id: row.parse(ActivityId::parse)?,
        spec: row.parse(|text| serde_json::from_str(text))?,
        state: row.parse(|text| ActivityState::parse(text).ok_or(()))?,
        nonce: row.text()?,
        version: row.int()?,
        epoch: row.int()?,
        live_units: Vec::new(),
    })
}

/// What came of writing a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveOutcome {
    /// It is written.
    Saved,
    /// Its totals are somebody else's by now, and stay; the rest is written.
    SavedExceptTotals,
    /// It is somebody else's by now: nothing was written.
    Conflict,
}

/// Writes a sale as it should be: `read` is what was read before, nothing for a new one. Its version alone does not tell
/// whether it is still that: whoever reads between our two statements sees the new version with old totals.
///
/// # Errors
/// [`StoreError::LedgerRefused`] where a total would be below what is held and sold.
pub async fn save<S: Sql>(
    sql: &S,
    activity: &Activity,
    previous: Option<&Activity>,
    now: Millis,
) -> Result<SaveOutcome, StoreError> {
    let spec = &activity.spec;
    let text = serde_json::to_string(spec).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let (previous_totals, new_totals) =
        (totals_json(previous.map_or(&[], |previous| &previous.spec.skus)), totals_json(&spec.skus));
    let params = vec![
        activity.id.as_str().into(),
        text.into(),
        spec.starts_at.0.into(),
        spec.ends_at.0.into(),
        (spec.pay_timeout_seconds * 1000).into(),
        (spec.pay_extension_seconds * 1000).into(),
        spec.per_user.into(),
        spec.refund_restocks.into(),
        activity.state.as_str().into(),
        activity.nonce.as_str().into(),
        activity.version.into(),
        now.0.into(),
        previous.map_or(0, |previous| previous.version).into(),
        previous_totals.as_str().into(),
    ];
    let (json_rows, sku_expr, total_expr) = match sql.dialect() {
        Dialect::Sqlite => ("json_each(?2) AS e", "e.value ->> 0", "e.value ->> 1"),
        Dialect::Postgres => ("jsonb_array_elements((?2::text)::jsonb) AS e", "e ->> 0", "(e ->> 1)::bigint"),
    };
    let totals_changed = |parameter: &str| {
        let json_rows = json_rows.replace("?2", parameter);
        format!(
            "EXISTS (SELECT 1 FROM skus s, {json_rows} WHERE s.activity = ?1 AND s.sku = {sku_expr} AND s.total <> {total_expr})"
        )
    };
    let rows = sql.run(&SAVE.replace("{totals_changed}", &totals_changed("?14")), params).await?;
    if rows.is_empty() {
        return Ok(SaveOutcome::Conflict);
    }
    // Only while this is the sale's version: whoever saved a later one meanwhile knows these SKUs, or others. On PostgreSQL
    // the lock keeps them waiting until the statement ends.
    let lock_clause = if sql.dialect() == Dialect::Sqlite { "" } else { "FOR SHARE" };
    let is_current_version =
        format!("EXISTS (SELECT 1 FROM activities WHERE id = ?1 AND version = CAST(?3 AS BIGINT) {lock_clause})");
    let params = || vec![activity.id.as_str().into(), new_totals.as_str().into(), activity.version.into()];
    // In the order of their names, as everybody who locks several of them.
    let upsert = format!(
        "INSERT INTO skus (activity, sku, total) SELECT CAST(?1 AS TEXT), {sku_expr}, {total_expr} FROM {json_rows} WHERE {is_current_version} \
         AND NOT {} ORDER BY {sku_expr} ON CONFLICT (activity, sku) DO UPDATE SET total = excluded.total RETURNING sku",
        totals_changed("?4")
    );
    if sql.run(&upsert, [params(), vec![previous_totals.as_str().into()]].concat()).await?.is_empty() {
        return Ok(SaveOutcome::SavedExceptTotals);
    }
    let prune = format!(
        "DELETE FROM skus WHERE activity = ?1 AND sku NOT IN (SELECT {sku_expr} FROM {json_rows}) AND live = 0 AND {is_current_version} \
         AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.activity = skus.activity AND o.sku = skus.sku)"
    );
    sql.run(&prune, params()).await?;
    Ok(SaveOutcome::Saved)
}

const SAVE: &str = "INSERT INTO activities (id, spec, starts_at, ends_at, pay_timeout_ms, pay_extension_ms, per_user, \
     refund_restocks, state, nonce, version, updated_at) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 \
     WHERE CAST(?13 AS BIGINT) = 0 OR EXISTS (SELECT 1 FROM activities WHERE id = ?1) \
     ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, starts_at = excluded.starts_at, ends_at = excluded.ends_at, \
     pay_timeout_ms = excluded.pay_timeout_ms, pay_extension_ms = excluded.pay_extension_ms, \
     per_user = excluded.per_user, refund_restocks = excluded.refund_restocks, state = excluded.state, \
     nonce = excluded.nonce, version = excluded.version, updated_at = excluded.updated_at \
     WHERE activities.version = ?13 AND NOT {totals_changed} RETURNING version";

/// SKUs with their totals, as the statements read them.
fn totals_json(skus: &[Sku]) -> String {
    let totals: Vec<_> = skus.iter().map(|sku| serde_json::json!([sku.sku.as_str(), sku.total])).collect();
    serde_json::Value::from(totals).to_string()
}
