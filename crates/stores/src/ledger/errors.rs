//! Classifies the ledger's errors: which of them are definite answers about a statement.
//!
//! An unrecognised error is [`StoreError::LedgerUnavailable`]: the statement may have run, or will run when it is
//! repeated (D8).

use crate::ports::StoreError;

impl StoreError {
    /// Classifies an error of PostgreSQL by its SQLSTATE; `None` if the server sent none.
    ///
    /// Definite answers are class 23 (constraints), P0001 (`RAISE EXCEPTION` in the ledger's triggers), and class 22
    /// (values that no retry can store). 42P01 and 42703 are an undefined table and column.
    #[must_use]
    pub fn from_postgres_error(sqlstate: Option<&str>, text: String) -> Self {
        match sqlstate.unwrap_or_default() {
            "42P01" | "42703" => Self::LedgerNotMigrated(text),
            "P0001" => Self::LedgerRefused(text),
            code if code.starts_with("23") => Self::LedgerRefused(text),
            code if code.starts_with("22") => Self::LedgerDataException(text),
            _ => Self::LedgerUnavailable(text),
        }
    }

    /// Classifies an error of SQLite by its text, which is all that Spin passes on.
    ///
    /// Only SQLite's own messages and those of the ledger's triggers are compared, each from its first character on: the
    /// rest may quote a statement.
    #[must_use]
    pub fn from_sqlite_error(text: String) -> Self {
        let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        let misses_column = text.starts_with("table ") && text.contains(" has no column named ");
        if starts_with(&["no such table: ", "no such column: "]) || misses_column {
            Self::LedgerNotMigrated(text)
        } else if starts_with(&[
            "CHECK constraint failed: ",
            "NOT NULL constraint failed: ",
            "UNIQUE constraint failed: ",
        ]) || matches!(&*text, "FOREIGN KEY constraint failed" | "illegal move" | "orders are never deleted")
        {
            Self::LedgerRefused(text)
        } else {
            Self::LedgerUnavailable(text)
        }
    }
}

/// Whether PostgreSQL refused a connection because of its `max_connections`, from the error's text: the error of opening
/// a connection has no SQLSTATE.
#[must_use]
pub fn has_too_many_clients(text: &str) -> bool {
    text.contains("too many clients already") || text.contains("remaining connection slots are reserved")
}

/// Describes an error of PostgreSQL without values of rows: its details quote rows, and a message quotes values after a
/// colon or in double quotes, where it also quotes names of constraints, which the description has anyway.
#[must_use]
pub fn describe_postgres_error(severity: &str, code: &str, message: &str, constraint: Option<&str>) -> String {
    let message = message.split([':', '"']).next().unwrap_or_default().trim_end();
    let constraint = constraint.map_or(String::new(), |name| format!(" ({name})"));
    format!("{severity} {code}: {message}{constraint}")
}

/// Removes URLs from an error's text: the ledger's contains a password.
#[must_use]
pub fn without_urls(text: &str) -> String {
    text.split_whitespace().filter(|word| !word.contains("://")).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_an_error_has_no_values() {
        for (message, constraint, expected) in [
            (
                "duplicate key value violates unique constraint \"bans_pkey\"",
                Some("bans_pkey"),
                "ERROR X: duplicate key value violates unique constraint (bans_pkey)",
            ),
            (
                "invalid input syntax for type bigint: \"ada@example.com\"",
                None,
                "ERROR X: invalid input syntax for type bigint",
            ),
            ("canceling statement due to lock timeout", None, "ERROR X: canceling statement due to lock timeout"),
        ] {
            assert_eq!(describe_postgres_error("ERROR", "X", message, constraint), expected);
        }
    }

    #[test]
    fn a_server_with_too_many_clients_is_recognised() {
        for text in [
            "ConnectionFailed(\"db error: FATAL: sorry, too many clients already\")",
            "FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute",
        ] {
            assert!(has_too_many_clients(text), "{text}");
        }
        assert!(!has_too_many_clients("connection refused"));
    }

    #[test]
    fn the_ledgers_url_is_removed_from_errors() {
        let text = "cannot connect to 'postgres://app:secret@db/shop': timeout (url=postgresql://app:secret@db)";
        assert_eq!(without_urls(text), "cannot connect to timeout");
    }

    /// As Spin passes it on: the debug form of the driver's error, which names every field.
    const DEBUG_TEXT: &str = "Error { kind: Db, cause: Some(DbError { severity: \"ERROR\", message: \"canceling statement \
         due to lock timeout\", table: None, column: None, datatype: None, constraint: None }) }";

    #[test]
    fn a_code_of_postgresql_decides_and_its_text_does_not() {
        let classify = |code| StoreError::from_postgres_error(code, DEBUG_TEXT.to_owned());
        let unavailable = [
            "08006", "25006", "40001", "40P01", "42501", "42710", "42P07", "53100", "53300", "55P03", "57014", "57P01",
            "57P02", "57P03", "P0002", "XX000", "",
        ];
        let text = || DEBUG_TEXT.to_owned();
        for (codes, error) in [
            (&["23502", "23503", "23505", "23514", "P0001"][..], StoreError::LedgerRefused(text())),
            (&["22003", "22P05", "22021"], StoreError::LedgerDataException(text())),
            (&["42P01", "42703"], StoreError::LedgerNotMigrated(text())),
            (&unavailable, StoreError::LedgerUnavailable(text())),
        ] {
            for code in codes {
                assert_eq!(classify(Some(code)), error, "{code}");
            }
        }
        assert_eq!(classify(None), StoreError::LedgerUnavailable(DEBUG_TEXT.to_owned()));
    }

    #[test]
    fn only_whole_messages_of_sqlite_and_of_the_triggers_are_definite() {
        let classify = |text: &str| StoreError::from_sqlite_error(text.to_owned());
        for text in [
            "UNIQUE constraint failed: orders.order_no",
            "CHECK constraint failed: total = -1 OR live <= total",
            "NOT NULL constraint failed: skus.total",
            "FOREIGN KEY constraint failed",
        ] {
            assert_eq!(classify(text), StoreError::LedgerRefused(text.to_owned()));
        }
        for text in [
            "no such table: orders in SELECT 1 FROM orders at offset 14",
            "no such column: live in UPDATE orders SET live = 0 at offset 18",
            "table orders has no column named live in INSERT INTO orders (live) at offset 20",
        ] {
            assert_eq!(classify(text), StoreError::LedgerNotMigrated(text.to_owned()));
        }
        for text in [
            "database is locked",
            "database or disk is full",
            "disk I/O error",
            "attempt to write a readonly database",
            "near \"no such table: \": syntax error",
            "unable to open database file: /data/illegal move/constraint failed.db",
            "",
        ] {
            assert_eq!(classify(text), StoreError::LedgerUnavailable(text.to_owned()));
        }
    }

    #[test]
    fn every_message_of_the_triggers_is_known() {
        let schema = include_str!("../../sql/sqlite/0001_ledger.sql");
        let messages: Vec<_> =
            schema.split("RAISE(ABORT, '").skip(1).filter_map(|rest| rest.split('\'').next()).collect();
        assert!(messages.contains(&"illegal move"));
        for message in messages {
            let error = StoreError::from_sqlite_error(message.to_owned());
            assert_eq!(error, StoreError::LedgerRefused(message.to_owned()));
        }
    }
}
