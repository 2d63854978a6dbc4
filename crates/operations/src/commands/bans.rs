//! Bans (B6) and strikes (B8) of users and addresses.
//!
//! The ledger stores both. Redis has a copy of the active bans for every activity with a gate. An address is banned in
//! the form that `platform::request_address` returns (IPv6: the /64 network).
//!
//! Errors: after any [`StoreError`] a change may have been made in part; repeating the call completes it.

use std::collections::HashMap;

use domain::{
    api::operators::{BanKind, ListedBan},
    ids::{ActivityId, UserId},
    time::Millis,
};
use futures::future::join_all;
use sale::ledger::activities;
use stores::{
    keys::Keys,
    ledger::{clock::Clock, deletion::delete_batch, row_reader::RowReader},
    ports::{Redis, Sql, StoreError},
    reply::Reply,
};

use crate::scripts::BAN;

/// Number of strikes (orders that expired unpaid, or were cancelled late or again) from which a user may not take part.
pub const STRIKE_LIMIT: i64 = 10;

/// Milliseconds after the last strike until a user's strikes no longer count. The trigger `strikes_count` has the same
/// number.
pub const STRIKE_TTL_MS: i64 = 30 * 24 * 3_600 * 1_000;

/// Milliseconds for which a ban is kept after its end: hosts' clocks differ, and the row of an active one must stay.
const BAN_RETENTION_MS: i64 = 24 * 3_600 * 1_000;

const MAX_USERS_AT_LIMIT: usize = 1_000;
const BATCH_SIZE: usize = 1_000;

/// The user or address that a ban applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BanSubject {
    /// A user.
    User(UserId),
    /// An IP address as `platform::request_address` returns it (IPv6: the /64 network).
    Ip(String),
}

impl BanSubject {
    fn kind_and_name(&self) -> (&'static str, &str) {
        match self {
            BanSubject::User(user) => (BanKind::User.as_str(), user.as_str()),
            BanSubject::Ip(ip) => (BanKind::Ip.as_str(), ip),
        }
    }

    fn key(&self, activity: &ActivityId) -> String {
        let keys = Keys::of(activity);
        match self {
            BanSubject::User(user) => keys.user("ban", user),
            BanSubject::Ip(ip) => keys.ip("ban", ip),
        }
    }
}

/// Bans a user or an address until `until`, in the ledger and then in every activity.
pub async fn ban<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    subject: &BanSubject,
    until: Millis,
    reason: &str,
) -> Result<(), StoreError> {
    let (kind, name) = subject.kind_and_name();
    let statement = "INSERT INTO bans (kind, name, until, reason) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (kind, name) DO UPDATE SET until = excluded.until, reason = excluded.reason";
    sql.run(statement, vec![kind.into(), name.into(), until.0.into(), reason.into()]).await?;
    let activities = activities::list_in_redis(sql, Clock::Ledger).await?;
    let updates = activities.iter().map(|activity| set_in_redis(redis, vec![subject.key(activity)], vec![until]));
    // A server that is away keeps the ban from no other's activities.
    join_all(updates).await.into_iter().collect()
}

/// Lifts a ban, also one for abuse. Returns whether there was one.
pub async fn lift<R: Redis, S: Sql>(redis: &R, sql: &S, subject: &BanSubject) -> Result<bool, StoreError> {
    let (kind, name) = subject.kind_and_name();
    let statement = "DELETE FROM bans WHERE kind = ?1 AND name = ?2 RETURNING kind";
    let was_listed = !sql.run(statement, vec![kind.into(), name.into()]).await?.is_empty();
    let activities = activities::list_in_redis(sql, Clock::Ledger).await?;
    let deletions = activities.iter().map(|activity| redis.command("DEL", vec![subject.key(activity).into()]));
    join_all(deletions).await.into_iter().try_fold(was_listed, |was_banned, deleted| {
        let deleted = Reply::new(deleted?).int()? > 0;
        Ok(was_banned || deleted)
    })
}

/// Lists up to `limit` bans by operators that are active at `now`, sorted by kind and name, after the kind and name
/// `after`.
pub async fn list<S: Sql>(sql: &S, after: (&str, &str), limit: i64, now: Millis) -> Result<Vec<ListedBan>, StoreError> {
    let statement = "SELECT kind, name, until, reason FROM bans WHERE until > ?1 AND (kind, name) > (?2, ?3) \
         ORDER BY kind, name LIMIT CAST(?4 AS BIGINT)";
    let rows = sql.run(statement, vec![now.0.into(), after.0.into(), after.1.into(), limit.into()]).await?;
    let parse_row = |row| {
        let mut row = RowReader::new(row);
        let kind = if row.text()? == BanKind::User.as_str() { BanKind::User } else { BanKind::Ip };
        Ok(ListedBan { kind, name: row.text()?, until: Millis(row.int()?), reason: row.text()? })
    };
    rows.into_iter().map(parse_row).collect()
}

/// Copies the bans that are active at `now` to an activity, so that they also apply to one that is published after the
/// ban.
pub async fn copy_to_redis<R: Redis, S: Sql>(
    redis: &R,
    sql: &S,
    activity: &ActivityId,
    now: Millis,
) -> Result<(), StoreError> {
    let rows = sql.run("SELECT kind, name, until FROM bans WHERE until > ?1", vec![now.0.into()]).await?;
    for rows in rows.chunks(BATCH_SIZE) {
        let (mut keys, mut expiries) = (Vec::new(), Vec::new());
        for row in rows {
            let mut row = RowReader::new(row.clone());
            let (kind, name) = (row.text()?, row.text()?);
            let subject = match (kind.as_str(), UserId::parse(&name)) {
                ("user", Ok(user)) => BanSubject::User(user),
                _ => BanSubject::Ip(name),
            };
            keys.push(subject.key(activity));
            expiries.push(Millis(row.int()?));
        }
        set_in_redis(redis, keys, expiries).await?;
    }
    Ok(())
}

async fn set_in_redis<R: Redis>(redis: &R, keys: Vec<String>, expiries: Vec<Millis>) -> Result<(), StoreError> {
    BAN.run(redis, keys, expiries.into_iter().map(|until| until.0.to_string().into()).collect()).await.map(|_| ())
}

/// Returns the number of a user's strikes and the time of the last one. A trigger counts them when orders expire or are
/// cancelled late.
pub async fn load_strikes<S: Sql>(sql: &S, user: &UserId) -> Result<(i64, Millis), StoreError> {
    let rows = sql.run("SELECT count, last_at FROM strikes WHERE user_id = ?1", vec![user.as_str().into()]).await?;
    let Some(mut row) = rows.into_iter().next().map(RowReader::new) else { return Ok((0, Millis(0))) };
    Ok((row.int()?, Millis(row.int()?)))
}

/// Returns the users with [`STRIKE_LIMIT`] strikes or more that count at `now`, and the time of the last one; `None` if
/// there are more than 1,000 of them.
pub async fn load_users_at_limit<S: Sql>(sql: &S, now: Millis) -> Result<Option<HashMap<UserId, Millis>>, StoreError> {
    // The index `strikes_at_limit` has the same condition, so the limit cannot be a parameter.
    let statement = format!(
        "SELECT user_id, last_at FROM strikes WHERE count >= {STRIKE_LIMIT} AND last_at > ?1 LIMIT {}",
        MAX_USERS_AT_LIMIT + 1
    );
    let rows = sql.run(&statement, vec![(now.0 - STRIKE_TTL_MS).into()]).await?;
    if rows.len() > MAX_USERS_AT_LIMIT {
        return Ok(None);
    }
    let users = rows.into_iter().map(|row| {
        let mut row = RowReader::new(row);
        let user = UserId::parse(&row.text()?).map_err(|error| StoreError::Malformed(error.to_string()))?;
        Ok((user, Millis(row.int()?)))
    });
    users.collect::<Result<_, _>>().map(Some)
}

/// Erases up to `limit` bans that ended a day ago or more, and up to `limit` strike counts that have lapsed. Returns how
/// many were erased.
pub async fn erase<S: Sql>(sql: &S, now: Millis, limit: i64) -> Result<usize, StoreError> {
    let mut erased = 0;
    for (table, key, condition, kept_ms) in [
        ("bans", "kind, name", "until <= ?1", BAN_RETENTION_MS),
        ("strikes", "user_id", "last_at <= ?1", STRIKE_TTL_MS),
    ] {
        let params = vec![now.plus(-kept_ms).0.into(), limit.into()];
        erased += delete_batch(sql, table, key, condition, params).await?;
    }
    Ok(erased)
}

/// Deletes a user's strikes. Returns whether there were any.
pub async fn clear_strikes<S: Sql>(sql: &S, user: &UserId) -> Result<bool, StoreError> {
    let statement = "DELETE FROM strikes WHERE user_id = ?1 RETURNING user_id";
    Ok(!sql.run(statement, vec![user.as_str().into()]).await?.is_empty())
}
