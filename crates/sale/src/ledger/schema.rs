//! Migrations: numbered, idempotent, run by whoever finds the ledger behind.

use crate::ports::{Dialect, Sql, StoreError, Value};

/// The migrations of a dialect, oldest first.
fn migrations(dialect: Dialect) -> &'static [(i64, &'static str)] {
    match dialect {
        Dialect::Sqlite => &[(1, include_str!("../../sql/sqlite/0001_ledger.sql"))],
        Dialect::Postgres => &[(1, include_str!("../../sql/postgres/0001_ledger.sql"))],
    }
}

/// The version that this code needs.
#[must_use]
pub fn wanted(dialect: Dialect) -> i64 {
    migrations(dialect).last().map_or(0, |(version, _)| *version)
}

/// The version that the ledger has; 0 for an empty one.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn version<S: Sql>(sql: &S) -> Result<i64, StoreError> {
    match sql.run("SELECT COALESCE(MAX(version), 0) FROM schema_versions", Vec::new()).await {
        Ok(rows) => match rows.first().and_then(|row| row.first()) {
            Some(Value::Int(version)) => Ok(*version),
            _ => Err(StoreError::Unreadable("the version of the ledger".to_owned())),
        },
        Err(StoreError::LedgerEmpty(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Brings the ledger to the wanted version. Every statement may be repeated, so a crash in the middle, or two at once,
/// do no harm.
///
/// # Errors
/// [`StoreError`] of the ledger.
pub async fn migrate<S: Sql>(sql: &S) -> Result<(), StoreError> {
    let have = version(sql).await?;
    for (number, text) in migrations(sql.dialect()).iter().filter(|(number, _)| *number > have) {
        for statement in statements(text) {
            run_through_races(sql, statement).await?;
        }
        debug_assert!(*number > 0);
    }
    Ok(())
}

/// PostgreSQL can refuse `IF NOT EXISTS` when two create the same thing at the same instant: the second try finds it.
async fn run_through_races<S: Sql>(sql: &S, statement: &str) -> Result<(), StoreError> {
    let mut last = Ok(Vec::new());
    for _ in 0..5 {
        last = sql.run(statement, Vec::new()).await;
        match &last {
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
                for statement in statements(text) {
                    let starts = ["CREATE", "INSERT", "PRAGMA", "ALTER"];
                    let first = statement.lines().find(|line| !line.starts_with("--")).expect("a line");
                    assert!(starts.iter().any(|word| first.starts_with(word)), "{first}");
                    let creates = statement.lines().filter(|line| line.starts_with("CREATE")).count();
                    assert!(creates <= 1, "two statements in one block:\n{statement}");
                }
            }
        }
    }
}
