//! Migrations: numbered, idempotent, run by whoever finds the ledger behind.

use super::row_reader::RowReader;
use crate::ports::{Dialect, Sql, StoreError};

/// The migrations of a dialect, oldest first.
fn migrations(dialect: Dialect) -> &'static [(i64, &'static str)] {
    match dialect {
        Dialect::Sqlite => &[
            (1, include_str!("../../sql/sqlite/0001_ledger.sql")),
            (2, include_str!("../../sql/sqlite/0002_money.sql")),
            (3, include_str!("../../sql/sqlite/0003_recovery.sql")),
            (4, include_str!("../../sql/sqlite/0004_sessions.sql")),
            (5, include_str!("../../sql/sqlite/0005_named.sql")),
            (6, include_str!("../../sql/sqlite/0006_money_back.sql")),
        ],
        Dialect::Postgres => &[
            (1, include_str!("../../sql/postgres/0001_ledger.sql")),
            (2, include_str!("../../sql/postgres/0002_money.sql")),
            (3, include_str!("../../sql/postgres/0003_recovery.sql")),
            (4, include_str!("../../sql/postgres/0004_sessions.sql")),
            (5, include_str!("../../sql/postgres/0005_batches.sql")),
            (6, include_str!("../../sql/postgres/0006_named.sql")),
            (7, include_str!("../../sql/postgres/0007_lock_order.sql")),
            (8, include_str!("../../sql/postgres/0008_money_back.sql")),
        ],
    }
}

/// The version that this code needs.
#[must_use]
pub fn required_version(dialect: Dialect) -> i64 {
    migrations(dialect).last().map_or(0, |(version, _)| *version)
}

/// The version up to which the ledger has every migration, or one that this code does not know; 0 for an empty ledger.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn current_version<S: Sql>(sql: &S) -> Result<i64, StoreError> {
    let applied = applied_migrations(sql).await?;
    let latest = applied.iter().copied().max().unwrap_or(0);
    if latest > required_version(sql.dialect()) {
        return Ok(latest);
    }
    let numbers = migrations(sql.dialect()).iter().map(|(number, _)| *number);
    Ok(numbers.take_while(|number| applied.contains(number)).last().unwrap_or(0))
}

/// The migrations that the ledger has. Each is looked at by itself: they may come in any order.
async fn applied_migrations<S: Sql>(sql: &S) -> Result<Vec<i64>, StoreError> {
    match sql.run("SELECT version FROM schema_versions", Vec::new()).await {
        Ok(rows) => rows.into_iter().map(|row| RowReader::new(row).int()).collect(),
        Err(StoreError::LedgerNotMigrated(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Brings the ledger to the wanted version. Every statement may be repeated, so a crash in the middle, or two at once,
/// do no harm; the last one of each migration notes that it is done.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn migrate<S: Sql>(sql: &S) -> Result<(), StoreError> {
    let applied = applied_migrations(sql).await?;
    for (_, text) in migrations(sql.dialect()).iter().filter(|(number, _)| !applied.contains(number)) {
        for statement in statements(text) {
            run_with_retries(sql, statement).await?;
        }
    }
    Ok(())
}

/// PostgreSQL can refuse `IF NOT EXISTS` when two create the same thing at the same instant: the second try finds it.
/// SQLite has no `IF NOT EXISTS` for a column: that it is there already is what was wanted.
async fn run_with_retries<S: Sql>(sql: &S, statement: &str) -> Result<(), StoreError> {
    let mut last = Ok(Vec::new());
    for _ in 0..5 {
        last = sql.run(statement, Vec::new()).await;
        match &last {
            Err(error) if error.to_string().contains("duplicate column name") => return Ok(()),
            Err(StoreError::LedgerRefused(_) | StoreError::LedgerUnavailable(_)) => {}
            _ => break,
        }
    }
    last.map(|_| ())
}

/// Statements are separated by blank lines; a block of comments alone is none.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").map(str::trim).filter(|block| block.lines().any(|line| !line.trim_start().starts_with("--")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_a_migration_is_one_statement() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            for (_, text) in migrations(dialect) {
                let last = statements(text).last().expect("a statement");
                assert!(last.starts_with("INSERT INTO schema_versions"), "{last}");
                for statement in statements(text) {
                    let starts = ["CREATE", "DROP", "INSERT", "PRAGMA", "ALTER"];
                    let first = statement.lines().find(|line| !line.starts_with("--")).expect("a line");
                    assert!(starts.iter().any(|word| first.starts_with(word)), "{first}");
                    let creates = statement.lines().filter(|line| line.starts_with("CREATE")).count();
                    assert!(creates <= 1, "two statements in one block:\n{statement}");
                }
            }
        }
    }
}
