//! Activities and their SKUs in the ledger.

use std::collections::{BTreeMap, HashMap};

use domain::{
    activity::{ActivitySpec, ActivityState, Announcement, Phase},
    ids::{ActivityId, SkuId},
    language::Translations,
    money::Money,
    time::Millis,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stores::{
    ledger::{clock::Clock, row_reader::RowReader},
    ports::{Sql, SqlValue, StoreError},
};

use crate::reserve::Position;

/// An activity as the ledger has it. As JSON, it is what operators see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ActivityForOperators", description = "An activity as operators see it.")]
pub struct Activity {
    /// The id.
    pub id: ActivityId,
    /// The state that operators set.
    pub state: ActivityState,
    /// Increases with every change.
    #[schemars(range(min = 1))]
    pub version: i64,
    /// The spec. [`load`] takes the totals from the SKU rows.
    #[serde(flatten)]
    pub spec: ActivitySpec,
    /// A word from the shop to everybody who looks at it, by language.
    #[serde(skip_serializing_if = "Announcement::is_empty")]
    pub announcement: Announcement,
    /// Random text from which, with the ticket secret, the start key is derived.
    #[serde(skip)]
    pub nonce: String,
    /// Generation of the activity's Redis data: raised by every rebuild, 0 before the first gate.
    #[serde(skip)]
    pub epoch: i64,
    /// Units held and sold, one entry for each SKU. Empty in [`list`].
    #[serde(skip)]
    pub live_units: Vec<LiveUnits>,
}

/// Activities in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    /// Those that can be read.
    pub activities: Vec<T>,
    /// The ids of those that cannot, which hide no other one.
    pub unreadable: Vec<String>,
}

/// A published activity as the list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedActivity {
    /// Its id.
    pub id: ActivityId,
    /// Its title.
    pub title: String,
    /// The title in other languages.
    #[serde(default)]
    pub titles: Translations,
    /// URL of its picture, or else of the first SKU that has one; may be empty.
    pub image: String,
    /// The lowest price of its SKUs.
    pub price: Money,
    /// The state that operators set, in its text form.
    pub(crate) state: String,
    /// When reservations open.
    pub starts_at: Millis,
    /// When reservations end.
    pub ends_at: Millis,
    /// What was left when it was open, as far as Redis knew; `None` if a SKU is unlimited.
    pub stock: Option<UnitsLeft>,
}

impl ListedActivity {
    /// The phase at `now`; that of a draft if the state is unknown.
    #[must_use]
    pub fn phase(&self, now: Millis) -> Phase {
        let state = ActivityState::parse(&self.state).unwrap_or(ActivityState::Draft);
        state.phase(now, self.starts_at, self.ends_at)
    }
}

/// Units that the orders of a SKU hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveUnits {
    /// The SKU.
    pub sku: SkuId,
    /// Units of orders in `pending_payment`.
    pub pending: i64,
    /// Units of all other live orders.
    pub sold: i64,
}

const COLUMNS: &str = "id, spec, announcement, state, nonce, version, \
     COALESCE((SELECT p.epoch FROM epochs p WHERE p.activity = activities.id), 0)";

/// Loads an activity with its current totals and live units; `None` if there is none or it is being erased.
pub async fn load<S: Sql>(sql: &S, id: &ActivityId) -> Result<Option<Activity>, StoreError> {
    let statement = format!("SELECT {COLUMNS} FROM activities WHERE id = ?1 AND state <> 'erasing'");
    let rows = sql.run(&statement, vec![id.as_str().into()]).await?;
    let Some(row) = rows.into_iter().next() else { return Ok(None) };
    let mut activity = parse_row(row)?;
    let statement = include_str!("../../sql/activities/load_skus.sql");
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

/// What the ledger expects of an activity's gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedGate {
    /// The activity.
    pub id: ActivityId,
    /// The version of the activity.
    pub version: i64,
    /// The epoch of the activity, and the highest sequence of its orders of that epoch; 0 if it has none.
    pub last_order: Position,
    /// Whether the gate must exist: the activity is published or paused, and has not ended.
    pub required: bool,
    /// Units of a SKU that one buyer may hold.
    pub per_user: i64,
    /// When the activity was last changed.
    pub changed_at: Millis,
}

/// Loads what the ledger expects of the gate of each activity in `listed` that is no draft.
pub async fn expected_gates<S: Sql>(
    sql: &S,
    listed: &[ActivityId],
    now: Millis,
) -> Result<Vec<ExpectedGate>, StoreError> {
    let listed = serde_json::json!(listed).to_string();
    let statement =
        format!(include_str!("../../sql/activities/expected_gates.sql"), json_values = sql.dialect().json_values("?2"));
    let rows = sql.run(&statement, vec![now.0.into(), listed.into()]).await?;
    rows.into_iter()
        .map(|row| {
            let mut row = RowReader::new(row);
            let id = row.parse(ActivityId::parse)?;
            let (version, mut last_order) = (row.int()?, Position { epoch: row.int()?, sequence: row.int()? });
            let required = row.int()? == 1;
            let (per_user, changed_at) = (row.int()?, Millis(row.int()?));
            // An entry of the line has a sequence, too.
            last_order.sequence = last_order.sequence.max(row.int()?);
            Ok(ExpectedGate { id, version, last_order, required, per_user, changed_at })
        })
        .collect()
}

/// Milliseconds for which Redis keeps an activity's keys after its end or its last warm-up, whichever is later. Refunds
/// still move units in that time.
pub const RETENTION_AFTER_END_MS: i64 = 7 * 24 * 3_600 * 1_000;

/// How long Redis may have keys of an activity after its end or last change, in milliseconds: as long as it keeps them,
/// and a day for a warm-up that came late.
pub const IN_REDIS_MS: i64 = RETENTION_AFTER_END_MS + 24 * 3_600 * 1_000;

/// Lists the activities that may have keys in Redis at `now`: all but drafts and those that are over for [`IN_REDIS_MS`].
pub async fn list_in_redis<S: Sql>(sql: &S, now: impl Into<Clock>) -> Result<Vec<ActivityId>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let statement = format!(include_str!("../../sql/activities/list_in_redis.sql"), now = now);
    let rows = sql.run(&statement, vec![IN_REDIS_MS.into()]).await?;
    rows.into_iter().map(|row| RowReader::new(row).parse(ActivityId::parse)).collect()
}

/// Lists the activities with orders whose time to pay is over at `now`, or whose last change happened until `before` and
/// is not confirmed by Redis.
pub async fn list_with_due_orders<S: Sql>(sql: &S, now: Millis, before: Millis) -> Result<Vec<ActivityId>, StoreError> {
    // It asks for the first entry of each index: with statistics from a rush, in which no order is synced, PostgreSQL would
    // look for any other condition in the table.
    let statement = include_str!("../../sql/activities/list_with_due_orders.sql");
    let rows = sql.run(statement, vec![now.0.into(), before.0.into()]).await?;
    rows.into_iter().map(|row| RowReader::new(row).parse(ActivityId::parse)).collect()
}

/// Loads the units of each SKU that the ledger can still accept; `i64::MAX` for an unlimited SKU.
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

/// Lists up to 200 activities, the latest start first: the 150 that end next at `now`, and the 50 that ended last. Drafts
/// are included; the totals are those of the specs, and there are no live units.
pub async fn list<S: Sql>(sql: &S, now: Millis) -> Result<List<Activity>, StoreError> {
    let statement = format!(include_str!("../../sql/activities/list.sql"), columns = COLUMNS, states = "<> 'erasing'");
    let mut list = parse_rows(sql.run(&statement, vec![now.0.into()]).await?, parse_row);
    list.activities.sort_by(|a, b| (b.spec.starts_at, &a.id).cmp(&(a.spec.starts_at, &b.id)));
    Ok(list)
}

/// Units of all SKUs of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitsLeft {
    /// Units left.
    pub left: i64,
    /// Units on sale.
    pub total: i64,
}

/// The members of a spec that the list of published activities shows.
#[derive(Deserialize)]
struct ListedSpec {
    title: String,
    #[serde(default)]
    titles: Translations,
    #[serde(default)]
    image: String,
    skus: Vec<ListedSku>,
}

#[derive(Deserialize)]
struct ListedSku {
    #[serde(default)]
    image: String,
    price: i64,
    currency: String,
}

/// Lists activities as [`list`] does, without drafts and rehearsals.
pub async fn list_published<S: Sql>(sql: &S, now: Millis) -> Result<List<ListedActivity>, StoreError> {
    // The database does not read the specs: it would refuse the whole statement for one that it cannot read.
    let (columns, states) = (
        "id, spec, state, starts_at, ends_at",
        "NOT IN ('erasing', 'draft') AND id NOT IN (SELECT activity FROM rehearsals)",
    );
    let statement = format!(include_str!("../../sql/activities/list.sql"), columns = columns, states = states);
    let mut list = parse_rows(sql.run(&statement, vec![now.0.into()]).await?, |row| {
        let mut row = RowReader::new(row);
        let id = row.parse(ActivityId::parse)?;
        let ListedSpec { title, titles, image, skus } = row.parse(|text| serde_json::from_str(text))?;
        let pictures = std::iter::once(&image).chain(skus.iter().map(|sku| &sku.image));
        let image = pictures.into_iter().find(|image| !image.is_empty()).cloned().unwrap_or_default();
        let cheapest = skus.into_iter().min_by_key(|sku| sku.price);
        let price = cheapest.map(|sku| Money::new(sku.price, sku.currency)).unwrap_or_default();
        let (state, starts_at, ends_at) = (row.text()?, Millis(row.int()?), Millis(row.int()?));
        Ok(ListedActivity { id, title, titles, image, price, state, starts_at, ends_at, stock: None })
    });
    list.activities.sort_by(|a, b| (b.starts_at, &a.id).cmp(&(a.starts_at, &b.id)));
    Ok(list)
}

/// Parses the rows of a list, whose first column is the id.
fn parse_rows<T>(rows: Vec<Vec<SqlValue>>, parse: impl Fn(Vec<SqlValue>) -> Result<T, StoreError>) -> List<T> {
    let mut list = List { activities: Vec::with_capacity(rows.len()), unreadable: Vec::new() };
    for row in rows {
        let id = if let Some(SqlValue::Text(id)) = row.first() { id.clone() } else { String::new() };
        match parse(row) {
            Ok(activity) => list.activities.push(activity),
            Err(_) => list.unreadable.push(id),
        }
    }
    list
}

/// Loads the end of every activity that is not a draft. A closed activity has ended at 0 (1970).
pub async fn published_end_times<S: Sql>(sql: &S) -> Result<BTreeMap<ActivityId, Millis>, StoreError> {
    let statement =
        "SELECT id, CASE state WHEN 'closed' THEN 0 ELSE ends_at END FROM activities WHERE state <> 'draft'";
    let rows = sql.run(statement, Vec::new()).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok((row.parse(ActivityId::parse)?, Millis(row.int()?)))).collect()
}

/// Deletes a draft of this version; a trigger deletes its SKUs and counters. Returns `false`, and changes nothing, if another
/// request changed it since. Records of an earlier sale with the same id stay.
///
/// # Errors
/// See [`ledger`](super). `LedgerRefused` if the ledger has orders of it.
pub async fn delete_draft<S: Sql>(sql: &S, id: &ActivityId, version: i64) -> Result<bool, StoreError> {
    let statement = "DELETE FROM activities WHERE id = ?1 AND state = 'draft' AND version = ?2 RETURNING id";
    Ok(!sql.run(statement, vec![id.as_str().into(), version.into()]).await?.is_empty())
}

/// How long after an activity's end its orders may be queued, in milliseconds.
const QUEUED_AFTER_END_MS: i64 = 3_600_000;

/// Milliseconds by which the ledger's clock may be late against Redis's, which opens activities.
const CLOCK_TOLERANCE_MS: i64 = 60_000;

/// Lists the activities whose orders may be queued now: those that started and have not ended an hour ago, the 100 that
/// started last.
pub async fn list_lately_on_sale<S: Sql>(sql: &S, now: impl Into<Clock>) -> Result<Vec<ActivityId>, StoreError> {
    let now = now.into().sql(sql.dialect());
    let statement = format!(include_str!("../../sql/activities/list_lately_on_sale.sql"), now = now);
    let rows = sql.run(&statement, vec![CLOCK_TOLERANCE_MS.into(), QUEUED_AFTER_END_MS.into()]).await?;
    rows.into_iter().map(|row| RowReader::new(row).parse(ActivityId::parse)).collect()
}

fn parse_row(row: Vec<SqlValue>) -> Result<Activity, StoreError> {
    let mut row = RowReader::new(row);
    Ok(Activity {
        id: row.parse(ActivityId::parse)?,
        spec: row.parse(|text| serde_json::from_str(text))?,
        announcement: row.parse(Announcement::from_text)?,
        state: row.parse(|text| ActivityState::parse(text).ok_or(()))?,
        nonce: row.text()?,
        version: row.int()?,
        epoch: row.int()?,
        live_units: Vec::new(),
    })
}

/// Writes an activity and its SKUs in one statement if the ledger still has the version of `previous`, or creates it if
/// that is `None`. Returns `false`, and writes nothing, if another request changed the activity since.
///
/// # Errors
/// `LedgerRefused` if a total would fall below the units held and sold. Otherwise see [`ledger`](super).
pub async fn save<S: Sql>(
    sql: &S,
    activity: &Activity,
    previous: Option<&Activity>,
    now: Millis,
) -> Result<bool, StoreError> {
    let spec = &activity.spec;
    let text = serde_json::to_string(spec).map_err(|error| StoreError::Malformed(error.to_string()))?;
    let totals: Vec<_> = spec.skus.iter().map(|sku| serde_json::json!([sku.sku.as_str(), sku.total])).collect();
    let mut params = vec![
        activity.id.as_str().into(),
        text.into(),
        serde_json::Value::from(totals).to_string().into(),
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
    ];
    let statement = match previous {
        None => include_str!("../../sql/activities/create.sql"),
        // Creates none: it may be a draft that another request deletes.
        Some(previous) => {
            params.extend([activity.announcement.to_text().into(), previous.version.into()]);
            include_str!("../../sql/activities/save.sql")
        }
    };
    Ok(!sql.run(statement, params).await?.is_empty())
}
