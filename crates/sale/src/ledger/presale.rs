//! Presale codes in the ledger (B7). Triggers count their users.

use domain::{
    ids::{ActivityId, UserId},
    presale::{MAX_CODES, PresaleCode},
};
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, SqlValue, StoreError},
};

/// Whether a user has a code of the activity.
pub async fn has_code<S: Sql>(sql: &S, activity: &ActivityId, user: &UserId) -> Result<bool, StoreError> {
    let statement = "SELECT code FROM presale_users WHERE activity = ?1 AND user_id = ?2 LIMIT 1";
    Ok(!sql.run(statement, vec![activity.as_str().into(), user.as_str().into()]).await?.is_empty())
}

/// Gives a code to a user, unless it is taken; returns whether the user has it. One that has it keeps it.
pub async fn claim<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    code: &PresaleCode,
    user: &UserId,
) -> Result<bool, StoreError> {
    let params = [activity.as_str(), code.as_str(), user.as_str()].map(Into::into).to_vec();
    Ok(!sql.run(include_str!("../../sql/presale/claim.sql"), params).await?.is_empty())
}

/// Adds codes, each for up to `max_users` users. Those that are there stay as they are. Returns how many are new; `None`
/// without any if they are more than [`MAX_CODES`] together, or the activity is gone.
pub async fn add<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    codes: &[PresaleCode],
    max_users: i64,
) -> Result<Option<usize>, StoreError> {
    let json_values = sql.dialect().json_values("?2");
    let texts: Vec<&str> = codes.iter().map(PresaleCode::as_str).collect();
    let texts = json!(texts).to_string();
    let params = vec![activity.as_str().into(), texts.as_str().into(), max_users.into(), MAX_CODES.into()];
    let statement = format!(include_str!("../../sql/presale/add.sql"), json_values = json_values);
    let added = sql.run(&statement, params).await?.len();
    if added > 0 {
        return Ok(Some(added));
    }
    let missing = format!(
        "WITH given (code) AS ({json_values}) SELECT g.code FROM given g WHERE NOT EXISTS \
         (SELECT 1 FROM presale_codes p WHERE p.activity = ?1 AND p.code = g.code) LIMIT 1"
    );
    let is_refused = !sql.run(&missing, vec![activity.as_str().into(), texts.into()]).await?.is_empty();
    Ok((!is_refused).then_some(0))
}

/// Takes a code back, also from its users: they get no further ticket with it. Returns whether it was there.
pub async fn remove<S: Sql>(sql: &S, activity: &ActivityId, code: &PresaleCode) -> Result<bool, StoreError> {
    let params: Vec<SqlValue> = vec![activity.as_str().into(), code.as_str().into()];
    // First the code: from then on the trigger gives it to no user.
    let removed = sql.run("DELETE FROM presale_codes WHERE activity = ?1 AND code = ?2 RETURNING code", params.clone());
    let removed = !removed.await?.is_empty();
    sql.run("DELETE FROM presale_users WHERE activity = ?1 AND code = ?2", params).await?;
    Ok(removed)
}

/// Returns how many codes an activity has.
pub async fn count<S: Sql>(sql: &S, activity: &ActivityId) -> Result<i64, StoreError> {
    let statement = "SELECT COUNT(*) FROM presale_codes WHERE activity = ?1";
    let rows = sql.run(statement, vec![activity.as_str().into()]).await?;
    RowReader::new(rows.into_iter().next().unwrap_or_default()).int()
}

/// Lists the codes of an activity as CSV: code, how many users it has room for, and how many it has.
pub async fn list_csv<S: Sql>(sql: &S, activity: &ActivityId) -> Result<String, StoreError> {
    let statement = "SELECT code, max_users, users FROM presale_codes WHERE activity = ?1 ORDER BY code";
    let mut csv = "code,max_users,users\r\n".to_owned();
    for row in sql.run(statement, vec![activity.as_str().into()]).await? {
        let mut row = RowReader::new(row);
        csv += &format!("{},{},{}\r\n", row.text()?, row.int()?, row.int()?);
    }
    Ok(csv)
}
