//! Leases with fencing tokens (G3).
//!
//! A lease has one owner at a time. Its token grows with every owner, so that a statement of an owner that lost the
//! lease without noticing changes nothing.

use domain::time::Millis;

use super::row_reader::RowReader;
use crate::ports::{Sql, SqlValue, StoreError};

/// A lease that was acquired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What the lease is for.
    pub name: &'static str,
    /// Fencing token: grows each time the lease is acquired.
    pub token: i64,
    /// Where the last owner stopped; the next one continues after it.
    pub resume_after: String,
}

impl Lease {
    /// SQL condition that is true while this lease is valid. Its two parameters start at `?first_param`.
    pub fn condition(first_param: usize) -> String {
        let second_param = first_param + 1;
        format!("EXISTS (SELECT 1 FROM leases l WHERE l.name = ?{first_param} AND l.token = ?{second_param})")
    }

    /// The parameters of [`Lease::condition`].
    pub fn params(&self) -> [SqlValue; 2] {
        [self.name.into(), self.token.into()]
    }
}

/// Acquires a lease for `ttl_ms` milliseconds. Returns `None` if another owner has it at `now`.
pub async fn acquire<S: Sql>(
    sql: &S,
    name: &'static str,
    owner: &str,
    now: Millis,
    ttl_ms: i64,
) -> Result<Option<Lease>, StoreError> {
    let statement = include_str!("../../sql/leases/acquire.sql");
    let params = vec![name.into(), owner.into(), now.0.into(), now.plus(ttl_ms).0.into()];
    let Some(row) = sql.run(statement, params).await?.into_iter().next() else { return Ok(None) };
    let mut row = RowReader::new(row);
    Ok(Some(Lease { name, token: row.int()?, resume_after: row.text()? }))
}

/// Renews a lease until `until`, and saves [`Lease::resume_after`]. Returns `false` if the lease was lost.
pub async fn renew<S: Sql>(sql: &S, lease: &Lease, until: Millis) -> Result<bool, StoreError> {
    let statement = "UPDATE leases SET until = ?3, resume_after = ?4 WHERE name = ?1 AND token = ?2 RETURNING token";
    let [name, token] = lease.params();
    let params = vec![name, token, until.0.into(), lease.resume_after.as_str().into()];
    Ok(!sql.run(statement, params).await?.is_empty())
}

/// Releases a lease, and saves [`Lease::resume_after`]. Returns `false` if the lease was lost before.
pub async fn release<S: Sql>(sql: &S, lease: &Lease) -> Result<bool, StoreError> {
    renew(sql, lease, Millis(0)).await
}
