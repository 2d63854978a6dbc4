//! Sales and what is on sale, in the ledger.

use stampede_domain::{
    activity::{Spec, State},
    ids::{ActivityId, SkuId},
    time::Millis,
};

use super::rows::Row;
use crate::ports::{Dialect, Sql, StoreError, Value};

/// A sale as the ledger has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// Its id.
    pub id: ActivityId,
    /// Its description; the totals are those of the SKU rows.
    pub spec: Spec,
    /// What operators decided.
    pub state: State,
    /// What the start key is made from.
    pub nonce: String,
    /// Grows with every change.
    pub version: i64,
    /// Grows with every rebuild of Redis; 0 before the first gate.
    pub epoch: i64,
    /// Units held and sold, by SKU, in the order of the description.
    pub live: Vec<Live>,
}

/// What the orders of a SKU hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
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
    let mut activity = read(row)?;
    let statement = "SELECT s.sku, s.total, \
        (SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT) FROM orders o \
           WHERE o.activity = s.activity AND o.sku = s.sku AND live = 1 AND status = 'pending_payment'), s.live \
        FROM skus s WHERE s.activity = ?1";
    for row in sql.run(statement, vec![id.as_str().into()]).await? {
        let mut row = Row::new(row);
        let sku = row.parsed(SkuId::parse)?;
        let (total, pending, live) = (row.int()?, row.int()?, row.int()?);
        if let Some(known) = activity.spec.skus.iter_mut().find(|known| known.sku == sku) {
            known.total = total;
        }
        activity.live.push(Live { sku, pending, sold: live - pending });
    }
    Ok(Some(activity))
}

/// Loads the description alone, with the totals: what readers need.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn list<S: Sql>(sql: &S, drafts: bool) -> Result<Vec<Activity>, StoreError> {
    let filter = if drafts { "" } else { "WHERE state <> 'draft'" };
    let statement = format!("SELECT {COLUMNS} FROM activities {filter} ORDER BY starts_at DESC, id LIMIT 200");
    sql.run(&statement, Vec::new()).await?.into_iter().map(read).collect()
}

fn read(row: Vec<Value>) -> Result<Activity, StoreError> {
    let mut row = Row::new(row);
    Ok(Activity {
        id: row.parsed(ActivityId::parse)?,
        spec: row.parsed(|text| serde_json::from_str(text))?,
        state: row.parsed(|text| State::parse(text).ok_or(()))?,
        nonce: row.text()?,
        version: row.int()?,
        epoch: row.int()?,
        live: Vec::new(),
    })
}

/// Writes a sale as it should be: `expected` is the version that was read, 0 for a new one. Answers whether it was
/// still that version.
///
/// # Errors
/// [`StoreError::LedgerRefused`] where a total would be below what is held and sold.
pub async fn save<S: Sql>(sql: &S, activity: &Activity, expected: i64, now: Millis) -> Result<bool, StoreError> {
    let spec = &activity.spec;
    let text = serde_json::to_string(spec).map_err(|error| StoreError::Unreadable(error.to_string()))?;
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
        expected.into(),
    ];
    let rows = sql.run(SAVE, params).await?;
    if rows.is_empty() {
        return Ok(false);
    }
    let skus: Vec<_> = spec.skus.iter().map(|sku| serde_json::json!([sku.sku.as_str(), sku.total])).collect();
    let skus = serde_json::Value::from(skus).to_string();
    let (each, sku, total) = match sql.dialect() {
        Dialect::Sqlite => ("json_each(?2) AS e", "e.value ->> 0", "e.value ->> 1"),
        Dialect::Postgres => ("jsonb_array_elements((?2::text)::jsonb) AS e", "e ->> 0", "(e ->> 1)::bigint"),
    };
    // In the order of their names, as everybody who locks several of them.
    let upsert = format!(
        "INSERT INTO skus (activity, sku, total) SELECT CAST(?1 AS TEXT), {sku}, {total} FROM {each} WHERE 1 = 1 \
         ORDER BY {sku} ON CONFLICT (activity, sku) DO UPDATE SET total = excluded.total"
    );
    sql.run(&upsert, vec![activity.id.as_str().into(), skus.as_str().into()]).await?;
    let prune = format!(
        "DELETE FROM skus WHERE activity = ?1 AND sku NOT IN (SELECT {sku} FROM {each}) AND live = 0 \
         AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.activity = skus.activity AND o.sku = skus.sku)"
    );
    sql.run(&prune, vec![activity.id.as_str().into(), skus.into()]).await?;
    Ok(true)
}

const SAVE: &str = "INSERT INTO activities (id, spec, starts_at, ends_at, pay_timeout_ms, pay_extension_ms, per_user, \
     refund_restocks, state, nonce, version, updated_at) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12 \
     WHERE CAST(?13 AS BIGINT) = 0 OR EXISTS (SELECT 1 FROM activities WHERE id = ?1) \
     ON CONFLICT (id) DO UPDATE SET spec = excluded.spec, starts_at = excluded.starts_at, ends_at = excluded.ends_at, \
     pay_timeout_ms = excluded.pay_timeout_ms, pay_extension_ms = excluded.pay_extension_ms, \
     per_user = excluded.per_user, refund_restocks = excluded.refund_restocks, state = excluded.state, \
     nonce = excluded.nonce, version = excluded.version, updated_at = excluded.updated_at \
     WHERE activities.version = ?13 RETURNING version";
