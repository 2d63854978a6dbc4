//! Leases with fencing (G3): one owner at a time, and a token that grows with each, so that a statement of one who lost
//! the lease without noticing changes nothing.

use domain::time::Millis;

use super::row_reader::RowReader;
use crate::ports::{Sql, SqlValue, StoreError};

/// A lease that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What it is for.
    pub name: &'static str,
    /// Grows each time the lease changes hands.
    pub token: i64,
    /// Where the last owner stopped: the next one goes on after it.
    pub resume_after: String,
}

impl Lease {
    /// SQL that is true while the lease is ours; its two parameters begin at `?first`.
    pub(crate) fn condition(first_param: usize) -> String {
        let second_param = first_param + 1;
        format!("EXISTS (SELECT 1 FROM leases l WHERE l.name = ?{first_param} AND l.token = ?{second_param})")
    }

    /// The parameters of [`Lease::condition`].
    pub(crate) fn params(&self) -> [SqlValue; 2] {
        [self.name.into(), self.token.into()]
    }
}

/// Takes a lease for `ms`, unless somebody else's holds at `now`. One that holds for longer than `ms` is from a clock
/// that has jumped, and counts for nothing.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn acquire<S: Sql>(
    sql: &S,
    name: &'static str,
    owner: &str,
    now: Millis,
    ttl_ms: i64,
) -> Result<Option<Lease>, StoreError> {
    let statement = "INSERT INTO leases (name, owner, token, until) VALUES (?1, ?2, 1, CAST(?4 AS BIGINT)) \
         ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, token = leases.token + 1, until = excluded.until \
         WHERE leases.until <= CAST(?3 AS BIGINT) OR leases.until > excluded.until RETURNING token, resume_after";
    let params = vec![name.into(), owner.into(), now.0.into(), now.plus(ttl_ms).0.into()];
    let Some(row) = sql.run(statement, params).await?.into_iter().next() else { return Ok(None) };
    let mut row = RowReader::new(row);
    Ok(Some(Lease { name, token: row.int()?, resume_after: row.text()? }))
}

/// Keeps a lease until `until` (the past gives it up), and notes where its owner is. Answers whether it was still ours.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn renew<S: Sql>(sql: &S, lease: &Lease, until: Millis) -> Result<bool, StoreError> {
    let statement = "UPDATE leases SET until = ?3, resume_after = ?4 WHERE name = ?1 AND token = ?2 RETURNING token";
    let [name, token] = lease.params();
    let params = vec![name, token, until.0.into(), lease.resume_after.as_str().into()];
    Ok(!sql.run(statement, params).await?.is_empty())
}
