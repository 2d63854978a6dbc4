//! The entries of lines in the ledger (H1). What happens to an entry may be written in any order, and twice, with the same result.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
};

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    order::Order,
    time::Millis,
};
use sale::{
    line::{WAITING, entry_as_order, status_of_entry},
    reserve::Position,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Dialect, Sql, SqlValue, StoreError},
};

/// An entry, with what a message says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The number that its order gets.
    pub order_no: OrderNo,
    /// Who waits.
    pub user: UserId,
    /// For which SKU.
    pub sku: SkuId,
    /// The price of the unit.
    pub money: Money,
    /// When they joined.
    pub created_at: Millis,
    /// The place in the line.
    pub place: Position,
    /// Why it has ended; empty while it waits.
    pub ended: String,
    /// Whether it waits again: its order had failed, and an operator replayed it.
    pub again: bool,
}

/// Writes entries of one activity. Returns whether the ledger knows the activity: otherwise it has none of them.
///
/// # Errors
/// See [`ledger`](super); writing them again finishes the work.
pub async fn write<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    entries: &[&Entry],
    now: Millis,
) -> Result<bool, StoreError> {
    // One row for each entry. Its end is final.
    let mut by_number: BTreeMap<String, &Entry> = BTreeMap::new();
    for &entry in entries {
        let known = by_number.entry(entry.order_no.to_string()).or_insert(entry);
        if !entry.ended.is_empty() || entry.again && known.ended.is_empty() {
            *known = entry;
        }
    }
    // Of a user's entries for a SKU only the latest waits: the others have left, or were offered, as their orders say.
    let mut latest: BTreeMap<(&str, &str), &Entry> = BTreeMap::new();
    for &entry in by_number.values().filter(|entry| entry.ended.is_empty()) {
        let known = latest.entry((entry.user.as_str(), entry.sku.as_str())).or_insert(entry);
        if (entry.place, &entry.order_no) > (known.place, &known.order_no) {
            *known = entry;
        }
    }
    let rows: Vec<_> = by_number
        .values()
        .map(|Entry { order_no, user, sku, money, created_at, place, ended, again }| {
            let waits = ended.is_empty()
                && latest.get(&(user.as_str(), sku.as_str())).is_some_and(|latest| latest.order_no == *order_no);
            let state = if waits { "waiting" } else { "ended" };
            let reason = match (waits, &**ended) {
                (true, _) if *again => "again",
                (false, "") => "left_line",
                (_, ended) => ended,
            };
            let Money { amount, currency } = money;
            json!([order_no, sku, user, amount, currency, created_at.0, place.epoch, place.sequence, state, reason])
        })
        .collect();
    let mut params: Vec<SqlValue> = vec![json!(rows).to_string().into(), activity.as_str().into()];
    let find = with_rows(sql.dialect(), include_str!("../../sql/line/find_earlier.sql"));
    let earlier = sql.run(&find, params.clone()).await?;
    if !earlier.is_empty() {
        leave_for_later(sql, earlier, now).await?;
    }
    params.push(now.0.into());
    sql.run(&with_rows(sql.dialect(), include_str!("../../sql/line/write.sql")), params).await?;
    // One statement wrote all of them, or none.
    let Some(number) = by_number.into_keys().next() else { return Ok(true) };
    let found = sql.run("SELECT 1 FROM line_entries WHERE order_no = ?1", vec![number.into()]).await?;
    Ok(!found.is_empty())
}

/// Ends entries whose users have joined again.
async fn leave_for_later<S: Sql>(sql: &S, earlier: Vec<Vec<SqlValue>>, now: Millis) -> Result<(), StoreError> {
    let numbers = earlier.into_iter().map(|row| RowReader::new(row).text()).collect::<Result<Vec<_>, _>>()?;
    let statement = format!(
        "UPDATE line_entries SET state = 'ended', reason = 'left_line', updated_at = CAST(?2 AS BIGINT) \
         WHERE state = 'waiting' AND order_no IN ({})",
        sql.dialect().json_values("?1")
    );
    sql.run(&statement, vec![json!(numbers).to_string().into(), now.0.into()]).await.map(|_| ())
}

/// Names the columns of the rows that are the first parameter.
fn with_rows(dialect: Dialect, statement: &str) -> String {
    let (rows, value) = match dialect {
        Dialect::Sqlite => ("json_each(?1) AS e", "e.value"),
        Dialect::Postgres => ("jsonb_array_elements((?1::text)::jsonb) AS e", "e"),
    };
    let names =
        ["order_no", "sku", "user_id", "amount", "currency", "created_at", "epoch", "sequence", "state", "reason"];
    let mut text = statement.replace("{rows}", rows);
    for (index, name) in names.iter().enumerate() {
        let column = match *name {
            "amount" | "created_at" | "epoch" | "sequence" => format!("CAST({value} ->> {index} AS BIGINT)"),
            _ => format!("({value} ->> {index})"),
        };
        text = text.replace(&format!("{{{name}}}"), &column);
    }
    text
}

const COLUMNS: &str = "order_no, user_id, sku, amount, currency, created_at, epoch, sequence, \
     CASE state WHEN 'ended' THEN reason ELSE '' END";

fn parse_row(row: Vec<SqlValue>) -> Result<Entry, StoreError> {
    let mut row = RowReader::new(row);
    Ok(Entry {
        order_no: row.parse(OrderNo::parse)?,
        user: row.parse(UserId::parse)?,
        sku: row.parse(SkuId::parse)?,
        money: row.money()?,
        created_at: Millis(row.int()?),
        place: Position { epoch: row.int()?, sequence: row.int()? },
        ended: row.text()?,
        again: false,
    })
}

/// Loads an entry as the order that its number names; `None` if there is none, or it was offered: then there is an order.
/// `now` says whether the sale is over.
pub async fn load<S: Sql>(sql: &S, order_no: &OrderNo, now: Millis) -> Result<Option<Order>, StoreError> {
    Ok(find(sql, "order_no = ?1", order_no.to_string(), now).await?.pop())
}

/// Lists the latest 200 entries of a user that have no order, newest first.
pub async fn list_of_user<S: Sql>(sql: &S, user: &UserId, now: Millis) -> Result<Vec<Order>, StoreError> {
    find(sql, "user_id = ?1", user.as_str().to_owned(), now).await
}

async fn find<S: Sql>(sql: &S, condition: &str, value: String, now: Millis) -> Result<Vec<Order>, StoreError> {
    let statement = format!(
        "SELECT COALESCE((SELECT CASE WHEN a.state = 'closed' OR a.ends_at <= CAST(?2 AS BIGINT) THEN 1 ELSE 0 END \
         FROM activities a WHERE a.id = activity), 1), {COLUMNS} FROM line_entries \
         WHERE {condition} AND state <> 'offered' ORDER BY created_at DESC LIMIT 200"
    );
    let rows = sql.run(&statement, vec![value.into(), now.0.into()]).await?.into_iter();
    rows.map(|mut row| {
        let is_over = RowReader::new(row.drain(..1).collect()).int()? == 1;
        let Entry { order_no, user, sku, money, created_at, ended, .. } = parse_row(row)?;
        let state = if ended.is_empty() { WAITING } else { &ended };
        Ok(entry_as_order(&order_no, &user, (sku, money), created_at, status_of_entry(state, is_over)))
    })
    .collect()
}

/// The end of a page of a line. A Redis that lost its last second gives the places of that second again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor {
    place: Position,
    order_no: String,
}

impl Cursor {
    /// The end of a page whose last entry this is.
    #[must_use]
    pub fn after(entry: &Entry) -> Self {
        Self { place: entry.place, order_no: entry.order_no.to_string() }
    }

    /// Reads what [`Display`] wrote; the beginning if it is empty.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let parse = || {
            let [epoch, sequence, order_no] = *text.split(' ').collect::<Vec<_>>().first_chunk()?;
            let place = Position { epoch: epoch.parse().ok()?, sequence: sequence.parse().ok()? };
            Some(Self { place, order_no: order_no.to_owned() })
        };
        parse().unwrap_or_default()
    }
}

impl Display for Cursor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { place: Position { epoch, sequence }, order_no } = self;
        if order_no.is_empty() { Ok(()) } else { write!(f, "{epoch} {sequence} {order_no}") }
    }
}

/// Loads up to `limit` entries of an activity that wait or have ended since `ended_since`, with the time of their last change,
/// in their order, from `after` on.
pub async fn load_page<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    after: &Cursor,
    ended_since: Millis,
    limit: i64,
) -> Result<Vec<(Entry, Millis)>, StoreError> {
    let statement = format!(
        "SELECT {COLUMNS}, updated_at FROM line_entries WHERE activity = ?1 \
         AND (epoch, sequence, order_no) > (CAST(?2 AS BIGINT), CAST(?3 AS BIGINT), ?6) \
         AND (state = 'waiting' OR state = 'ended' AND updated_at > CAST(?5 AS BIGINT)) \
         ORDER BY epoch, sequence, order_no LIMIT CAST(?4 AS BIGINT)"
    );
    let Cursor { place: Position { epoch, sequence }, order_no } = after;
    let params = vec![
        activity.as_str().into(),
        (*epoch).into(),
        (*sequence).into(),
        limit.into(),
        ended_since.0.into(),
        order_no.as_str().into(),
    ];
    let rows = sql.run(&statement, params).await?.into_iter();
    rows.map(|mut row| {
        let updated_at = RowReader::new(row.split_off(row.len() - 1)).int()?;
        Ok((parse_row(row)?, Millis(updated_at)))
    })
    .collect()
}

/// Units that were offered to the line of an activity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Offers {
    /// How many, as far as their orders are written.
    #[schemars(range(min = 0))]
    pub made: i64,
    /// Of these, how many are paid.
    #[schemars(range(min = 0))]
    pub paid: i64,
}

/// Counts the offers of an activity.
pub async fn count_offers<S: Sql>(sql: &S, activity: &ActivityId) -> Result<Offers, StoreError> {
    let statement = "SELECT COUNT(*), COALESCE(SUM(CASE o.status WHEN 'paid' THEN 1 ELSE 0 END), 0) FROM line_entries e \
         JOIN orders o ON o.order_no = e.order_no WHERE e.activity = ?1 AND e.state = 'offered'";
    let row = sql.run(statement, vec![activity.as_str().into()]).await?.into_iter().next().unwrap_or_default();
    let mut row = RowReader::new(row);
    Ok(Offers { made: row.int()?, paid: row.int()? })
}

/// Marks the entries of an activity as offered that have an order: a restored ledger may have got it anew.
pub async fn mark_offered<S: Sql>(sql: &S, activity: &ActivityId) -> Result<(), StoreError> {
    let statement = "UPDATE line_entries SET state = 'offered' WHERE activity = ?1 AND state = 'waiting' \
         AND EXISTS (SELECT 1 FROM orders o WHERE o.order_no = line_entries.order_no)";
    sql.run(statement, vec![activity.as_str().into()]).await.map(|_| ())
}

/// How many wait for each SKU.
pub type Waiting = BTreeMap<String, i64>;

/// How many wait in the line of each activity in `listed` whose line has had entries.
pub async fn count_waiting<S: Sql>(
    sql: &S,
    listed: &[ActivityId],
) -> Result<BTreeMap<ActivityId, Waiting>, StoreError> {
    let statement = format!(
        "SELECT activity, sku, COUNT(*) FROM line_entries WHERE state = 'waiting' AND activity IN ({listed}) \
         GROUP BY activity, sku UNION ALL SELECT id, '', 0 FROM activities WHERE id IN ({listed}) \
         AND EXISTS (SELECT 1 FROM line_entries e WHERE e.activity = id)",
        listed = sql.dialect().json_values("?1")
    );
    let mut found: BTreeMap<_, Waiting> = BTreeMap::new();
    for mut row in sql.run(&statement, vec![json!(listed).to_string().into()]).await?.into_iter().map(RowReader::new) {
        found.entry(row.parse(ActivityId::parse)?).or_default().insert(row.text()?, row.int()?);
    }
    Ok(found)
}
