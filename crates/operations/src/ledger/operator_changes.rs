//! Operator changes: what operators changed, kept in the ledger (G2).

use domain::{
    activity::{ActivitySpec, ActivityState, Announcement},
    ids::ActivityId,
    signer::Signer,
    time::Millis,
};
use sale::ledger::activities::Activity;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

/// Maximum length of a document before or after a change, in bytes. An activity is shorter, because the request that
/// sets it has at most 16 KiB.
const MAX_DOCUMENT_BYTES: usize = 64 * 1024;

/// Ends a document that was cut.
const CUT: &str = "… (cut)";

/// A change by an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OperatorChange {
    /// Its number; later changes have larger ones.
    pub id: i64,
    /// When.
    pub changed_at: Millis,
    /// Who.
    pub operator: String,
    /// What: method and route.
    pub action: String,
    /// Of what: the path's parameters, decoded, joined by slashes.
    pub subject: String,
    /// The activity before the change, as JSON; empty for other changes.
    pub before: String,
    /// The activity after the change, or what else was changed, as JSON. Of a call that failed after it may have changed
    /// something: its code, `null` if unknown, as `refused`, and the activity as it was then as
    /// `activity_after_the_call`.
    pub after: String,
    /// The request's id in the log.
    pub request_id: String,
}

/// An activity in a change, which is kept for ever: without the names of the users who may take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RecordedActivity {
    id: ActivityId,
    state: ActivityState,
    version: i64,
    /// Its `eligibility.allow` is empty.
    #[serde(flatten)]
    spec: ActivitySpec,
    #[serde(skip_serializing_if = "Announcement::is_empty")]
    announcement: Announcement,
    /// The number of users in `eligibility.allow`, and a keyed hash of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_users: Option<String>,
}

impl RecordedActivity {
    /// Replaces the users of an activity by their number and hash.
    #[must_use]
    pub fn new(activity: &Activity, secret: &str) -> Self {
        let Activity { id, state, version, mut spec, announcement, .. } = activity.clone();
        let users = std::mem::take(&mut spec.eligibility.allow);
        let hash = || keyed_hash(secret, &json!(users).to_string());
        let allowed_users = (!users.is_empty()).then(|| format!("{} users, {}", users.len(), hash()));
        Self { id, state, version, spec, announcement, allowed_users }
    }
}

/// The hash that stands for personal data in a change and in the log: hexadecimal digits, which no name of a user is taken
/// for.
#[must_use]
pub fn keyed_hash(secret: &str, text: &str) -> String {
    Signer::new(secret, "stampede log").map(|signer| format!("{:016x}", signer.hash_u64(text))).unwrap_or_default()
}

/// Records a change; its `id` is ignored.
pub async fn record<S: Sql>(sql: &S, change: &OperatorChange) -> Result<(), StoreError> {
    let OperatorChange { changed_at, operator, action, subject, before, after, request_id, .. } = change;
    let statement = "INSERT INTO operator_changes (changed_at, operator, action, subject, before, after, request_id) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let params = vec![
        changed_at.0.into(),
        operator.as_str().into(),
        action.as_str().into(),
        storable(subject).into(),
        storable(before).into(),
        storable(after).into(),
        request_id.as_str().into(),
    ];
    sql.run(statement, params).await.map(|_| ())
}

/// Cuts a text that is too long, and removes NUL, which PostgreSQL rejects.
fn storable(text: &str) -> String {
    let kept = &text[..text.floor_char_boundary(MAX_DOCUMENT_BYTES)];
    let end = if kept.len() < text.len() { CUT } else { "" };
    format!("{kept}{end}").replace('\0', "")
}

/// Lists up to `limit` changes, newest first; with `before`, those with a smaller number; of an activity, those of its SKUs
/// and orders, too.
pub async fn list<S: Sql>(
    sql: &S,
    activity: Option<&ActivityId>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<OperatorChange>, StoreError> {
    let mut params = vec![before.unwrap_or(i64::MAX).into(), limit.into()];
    // Of a SKU it is `activity/sku`, of an order `activity.ULID`: both are before `activity0`.
    let of_activity = "AND (subject = ?3 OR subject >= CAST(?3 AS TEXT) || '.' AND subject < CAST(?3 AS TEXT) || '0')";
    let of_activity = activity.map_or("", |activity| {
        params.push(activity.as_str().into());
        of_activity
    });
    query(sql, &format!("id < ?1 {of_activity} ORDER BY id DESC LIMIT CAST(?2 AS BIGINT)"), params).await
}

/// Lists the first 100 changes of some subjects, oldest first.
pub async fn list_of_subjects<S: Sql>(sql: &S, subjects: &[&str]) -> Result<Vec<OperatorChange>, StoreError> {
    let condition = format!("subject IN ({}) ORDER BY id LIMIT 100", sql.dialect().json_values("?1"));
    query(sql, &condition, vec![json!(subjects).to_string().into()]).await
}

async fn query<S: Sql>(sql: &S, condition: &str, params: Vec<SqlValue>) -> Result<Vec<OperatorChange>, StoreError> {
    let statement = format!(
        "SELECT id, changed_at, operator, action, subject, before, after, request_id FROM operator_changes WHERE {condition}"
    );
    let rows = sql.run(&statement, params).await?;
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        Ok(OperatorChange {
            id: row.int()?,
            changed_at: Millis(row.int()?),
            operator: row.text()?,
            action: row.text()?,
            subject: row.text()?,
            before: row.text()?,
            after: row.text()?,
            request_id: row.text()?,
        })
    };
    rows.into_iter().map(parse_row).collect()
}
