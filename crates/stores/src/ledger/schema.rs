//! Migrations of the ledger: numbered, idempotent, run by any process that finds the ledger behind.

use super::row_reader::RowReader;
use crate::ports::{Dialect, Sql, StoreError};

fn migrations(dialect: Dialect) -> &'static [(i64, &'static str)] {
    match dialect {
        Dialect::Sqlite => &[
            (1, include_str!("../../sql/sqlite/0001_ledger.sql")),
            (2, include_str!("../../sql/sqlite/0002_revenue_and_history.sql")),
            (3, include_str!("../../sql/sqlite/0003_presale_codes.sql")),
            (4, include_str!("../../sql/sqlite/0004_run_a_sale.sql")),
            (5, include_str!("../../sql/sqlite/0005_line.sql")),
        ],
        Dialect::Postgres => &[
            (1, include_str!("../../sql/postgres/0001_ledger.sql")),
            (2, include_str!("../../sql/postgres/0002_revenue_and_history.sql")),
            (3, include_str!("../../sql/postgres/0003_presale_codes.sql")),
            (4, include_str!("../../sql/postgres/0004_run_a_sale.sql")),
            (5, include_str!("../../sql/postgres/0005_line.sql")),
        ],
    }
}

/// The schema version that this code needs.
#[must_use]
pub fn required_version(dialect: Dialect) -> i64 {
    migrations(dialect).last().map_or(0, |(version, _)| *version)
}

/// The version up to which every migration is applied; 0 for an empty ledger. If the ledger has a later migration than
/// this code knows, its version.
pub async fn current_version<S: Sql>(sql: &S) -> Result<i64, StoreError> {
    let applied = applied_migrations(sql).await?;
    let latest = applied.iter().copied().max().unwrap_or(0);
    if latest > required_version(sql.dialect()) {
        return Ok(latest);
    }
    let numbers = migrations(sql.dialect()).iter().map(|(number, _)| *number);
    Ok(numbers.take_while(|number| applied.contains(number)).last().unwrap_or(0))
}

/// Loads the versions of the applied migrations. They may have been applied in any order, so each is checked by itself.
async fn applied_migrations<S: Sql>(sql: &S) -> Result<Vec<i64>, StoreError> {
    match sql.run("SELECT version FROM schema_versions", Vec::new()).await {
        Ok(rows) => rows.into_iter().map(|row| RowReader::new(row).int()).collect(),
        Err(StoreError::LedgerNotMigrated(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Migrates the ledger to the required version. Every statement can be repeated, so a crash or a concurrent migration
/// does no harm; the last statement of each migration records it as applied.
pub async fn migrate<S: Sql>(sql: &S) -> Result<(), StoreError> {
    let applied = applied_migrations(sql).await?;
    for (_, text) in migrations(sql.dialect()).iter().filter(|(number, _)| !applied.contains(number)) {
        for statement in statements(text) {
            run_with_retries(sql, statement).await?;
        }
    }
    Ok(())
}

/// Runs a statement, up to five times. PostgreSQL can refuse `IF NOT EXISTS` when two connections create the same
/// object at the same instant; the next attempt finds it.
async fn run_with_retries<S: Sql>(sql: &S, statement: &str) -> Result<(), StoreError> {
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

/// Splits a migration at its blank lines. A block of comments alone is not a statement.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n\n").map(str::trim).filter(|block| block.lines().any(|line| !line.trim_start().starts_with("--")))
}

#[cfg(test)]
mod tests {
    use domain::order::OrderStatus;

    use super::*;

    /// The transitions that the trigger `orders_move` allows.
    fn allowed_transitions(schema: &str) -> Vec<(OrderStatus, OrderStatus)> {
        let table = schema.split("CASE OLD.status").nth(1).and_then(|rest| rest.split("ELSE").next()).expect("a table");
        let mut allowed = Vec::new();
        for line in table.lines().filter(|line| !line.trim().is_empty()) {
            let mut statuses =
                line.split('\'').skip(1).step_by(2).map(|word| OrderStatus::parse(word).expect("a status"));
            let from = statuses.next().expect("a status");
            allowed.extend(statuses.map(|to| (from, to)));
        }
        allowed
    }

    #[test]
    fn the_triggers_allow_the_transitions_of_the_table() {
        // An order of the ledger is never queued.
        let expected: Vec<_> =
            OrderStatus::TRANSITIONS.into_iter().filter(|(from, _)| *from != OrderStatus::Queued).collect();
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            let schema: String = migrations(dialect).iter().map(|(_, text)| *text).collect();
            assert_eq!(allowed_transitions(&schema), expected, "{dialect:?}");
        }
    }

    #[test]
    fn every_block_of_a_migration_is_one_statement() {
        for dialect in [Dialect::Sqlite, Dialect::Postgres] {
            for (_, text) in migrations(dialect) {
                let last = statements(text).last().expect("a statement");
                assert!(last.starts_with("INSERT INTO schema_versions"), "{last}");
                for statement in statements(text) {
                    let starts = ["CREATE", "INSERT", "PRAGMA", "DO", "DROP TRIGGER IF EXISTS"];
                    let first = statement.lines().find(|line| !line.starts_with("--")).expect("a line");
                    assert!(starts.iter().any(|word| first.starts_with(word)), "{first}");
                    let creates = statement.lines().filter(|line| line.starts_with("CREATE")).count();
                    assert!(creates <= 1, "two statements in one block:\n{statement}");
                }
            }
        }
    }
}
