//! Presale codes in the ledger (B7). Triggers count their users.

use domain::{
    ids::{ActivityId, UserId},
    presale::{MAX_CODES, PresaleCode},
};
use serde_json::json;
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

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

/// Adds codes, each for up to `max_users` users. Those that are there stay as they are. Returns how many are new: none if
/// they are more than [`MAX_CODES`] together, or the activity is gone.
pub async fn add<S: Sql>(
    sql: &S,
    activity: &ActivityId,
    codes: &[PresaleCode],
    max_users: i64,
) -> Result<usize, StoreError> {
    let statement = format!(include_str!("../../sql/presale/add.sql"), json_values = sql.dialect().json_values("?2"));
    let texts: Vec<&str> = codes.iter().map(PresaleCode::as_str).collect();
    let params = vec![
        activity.as_str().into(),
        json!(texts).to_string().into(),
        max_users.into(),
        i64::try_from(codes.len()).unwrap_or(i64::MAX).into(),
        MAX_CODES.into(),
    ];
    Ok(sql.run(&statement, params).await?.len())
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
