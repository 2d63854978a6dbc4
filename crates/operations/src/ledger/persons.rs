//! What the ledger keeps about a user beside orders, and what of all that an operator erases (G12).

use domain::{
    api::operators::{Banned, Erased, UsedCode},
    ids::{ActivityId, UserId},
    time::Millis,
};
use stores::{
    ledger::row_reader::RowReader,
    ports::{Sql, StoreError},
};

/// Loads the ban of a user by an operator, also one that ended and is not erased yet.
pub async fn load_ban<S: Sql>(sql: &S, user: &UserId) -> Result<Option<Banned>, StoreError> {
    let statement = "SELECT until, reason FROM bans WHERE kind = 'user' AND name = ?1";
    let rows = sql.run(statement, vec![user.as_str().into()]).await?.into_iter().map(RowReader::new);
    let mut bans = rows.map(|mut row| Ok(Banned { until: Millis(row.int()?), reason: row.text()? }));
    bans.next().transpose()
}

/// Lists the presale codes with which a user got tickets.
pub async fn list_codes<S: Sql>(sql: &S, user: &UserId) -> Result<Vec<UsedCode>, StoreError> {
    let statement = "SELECT activity, code FROM presale_users \
         WHERE activity IN (SELECT id FROM activities) AND user_id = ?1 ORDER BY activity, code";
    let rows = sql.run(statement, vec![user.as_str().into()]).await?.into_iter().map(RowReader::new);
    rows.map(|mut row| Ok(UsedCode { activity: row.parse(ActivityId::parse)?, code: row.text()? })).collect()
}

/// Erases what no law obliges the shop to keep: addresses, but for orders that wait for payment or a refund; strikes; and which
/// codes the user had in sales that ended at `now` or before, which stay used.
pub async fn erase<S: Sql>(sql: &S, user: &UserId, now: Millis) -> Result<Erased, StoreError> {
    let delete = async |statement: &str, with_now: bool| {
        let mut params = vec![user.as_str().into()];
        params.extend(with_now.then(|| now.0.into()));
        sql.run(statement, params).await.map(|rows| rows.len())
    };
    Ok(Erased {
        addresses: delete(
            "DELETE FROM addresses WHERE order_no IN (SELECT order_no FROM orders WHERE user_id = ?1 \
             AND status NOT IN ('pending_payment', 'refunding')) RETURNING order_no",
            false,
        )
        .await?,
        codes: delete(
            "DELETE FROM presale_users WHERE activity IN (SELECT id FROM activities WHERE ends_at <= ?2) \
             AND user_id = ?1 RETURNING code",
            true,
        )
        .await?,
        strikes: delete("DELETE FROM strikes WHERE user_id = ?1 RETURNING user_id", false).await?,
    })
}
