//! Redis, SQLite and PostgreSQL through native drivers, with replies and errors as Spin reports them.

use std::{cell::Cell, sync::Mutex, time::Duration};

use redis::{Value as DriverValue, aio::MultiplexedConnection};
use stores::{
    Redis, Sql, StoreError,
    counts::ADD_COUNTS,
    lease::LEASE,
    ports::{Dialect, RedisArg, RedisValue, SqlValue},
    script::Script,
};
use tokio_postgres::types::{ToSql, Type};

/// A Redis connection through its native driver.
#[derive(Clone)]
pub struct RealRedis(pub MultiplexedConnection);

impl Redis for RealRedis {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        redis_reply(redis_command(name, &args).query_async(&mut self.0.clone()).await)
    }
}

/// A Redis that does not answer.
pub struct NoRedis;

impl Redis for NoRedis {
    async fn command(&self, _: &str, _: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        Err(StoreError::RedisUnavailable("connection refused".to_owned()))
    }
}

/// Redis that counts its calls.
pub struct CountingRedis<'a>(pub &'a RealRedis, pub Cell<usize>);

impl Redis for CountingRedis<'_> {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        self.1.set(self.1.get() + 1);
        self.0.command(name, args).await
    }
}

/// A ledger that runs `before` before each statement, which fails as that does.
pub struct Hooked<'a, S, F> {
    /// The ledger.
    pub sql: &'a S,
    /// Gets the statement and its parameters.
    pub before: F,
}

impl<S: Sql, F: AsyncFn(&str, &[SqlValue]) -> Result<(), StoreError>> Sql for Hooked<'_, S, F> {
    fn dialect(&self) -> Dialect {
        self.sql.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        (self.before)(statement, &params).await?;
        self.sql.run(statement, params).await
    }
}

/// A ledger that is unavailable for the statements of which `fails` is true.
pub fn failing<'a, S: Sql>(sql: &'a S, fails: impl Fn(&str, &[SqlValue]) -> bool + 'a) -> impl Sql + 'a {
    let before = async move |statement: &str, params: &[SqlValue]| match fails(statement, params) {
        true => Err(StoreError::LedgerUnavailable("no answer".to_owned())),
        false => Ok(()),
    };
    Hooked { sql, before }
}

/// A ledger on which statements that contain `slow` take half a second.
pub fn slowed<'a, S: Sql>(sql: &'a S, slow: &'a str) -> impl Sql + 'a {
    let before = async move |statement: &str, _: &[SqlValue]| {
        if statement.contains(slow) {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    };
    Hooked { sql, before }
}

/// Name of the script that an `EVALSHA` or `EVAL` refers to.
pub fn script_name(sha_or_source: &[u8]) -> Option<&'static str> {
    let slices: [&[&Script]; 5] = [
        &sale::scripts::ALL,
        &orders::scripts::ALL,
        &payments::scripts::ALL,
        &operations::scripts::ALL,
        &[&LEASE, &ADD_COUNTS],
    ];
    slices.into_iter().flatten().find(|script| script.is_called_by(sha_or_source)).map(|script| script.name)
}

/// A command for the native driver.
pub fn redis_command(name: &str, args: &[RedisArg]) -> redis::Cmd {
    let mut command = redis::cmd(name);
    command.arg(args);
    command
}

/// A reply as Spin passes it on.
pub fn redis_reply(reply: redis::RedisResult<DriverValue>) -> Result<Vec<RedisValue>, StoreError> {
    let mut items = Vec::new();
    flatten(reply.map_err(|error| StoreError::from_redis_error(error.to_string()))?, &mut items);
    Ok(items)
}

fn flatten(value: DriverValue, items: &mut Vec<RedisValue>) {
    match value {
        DriverValue::Nil => items.push(RedisValue::Nil),
        DriverValue::Int(number) => items.push(RedisValue::Int(number)),
        DriverValue::BulkString(bytes) => items.push(RedisValue::Bytes(bytes)),
        DriverValue::SimpleString(text) => items.push(RedisValue::Bytes(text.into_bytes())),
        DriverValue::Okay => items.push(RedisValue::Bytes(b"OK".to_vec())),
        DriverValue::Array(values) => values.into_iter().for_each(|value| flatten(value, items)),
        other => panic!("Spin would refuse {other:?}"),
    }
}

/// A ledger connection through its native driver.
pub enum RealLedger {
    /// A SQLite database file.
    Sqlite(Mutex<rusqlite::Connection>),
    /// A connection to a PostgreSQL server.
    Postgres(tokio_postgres::Client),
}

impl RealLedger {
    /// Opens a new SQLite ledger at `path`.
    pub fn sqlite(path: &std::path::Path) -> Self {
        let connection = rusqlite::Connection::open(path).unwrap();
        // The tests simulate crashes of the caller only, never of the disk, so waiting for fsync would test nothing.
        connection.pragma_update(None, "synchronous", "off").unwrap();
        Self::Sqlite(Mutex::new(connection))
    }

    /// Connects to a PostgreSQL ledger in its own schema, which is created if missing.
    pub async fn postgres(url: &str, schema: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let use_schema = format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}");
        client.batch_execute(&use_schema).await.unwrap();
        Self::Postgres(client)
    }

    /// Deletes all rows of a PostgreSQL ledger, and its copies of tables. Another schema would take some 100 times as long.
    pub async fn clear(&self) {
        let Self::Postgres(client) = self else { panic!("a SQLite ledger is a new file") };
        // Without triggers, since the schema forbids to delete orders.
        let clear = "SET session_replication_role = replica;
            DO $$ DECLARE name TEXT; BEGIN
              FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
                IF name LIKE 'backup_%' THEN EXECUTE 'DROP TABLE ' || name;
                ELSIF name <> 'schema_versions' THEN EXECUTE 'DELETE FROM ' || name; END IF;
              END LOOP;
            END $$;
            SET session_replication_role = origin";
        client.batch_execute(clear).await.unwrap();
    }
}

impl Sql for RealLedger {
    fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        match self {
            Self::Sqlite(connection) => run_sqlite(&connection.lock().unwrap(), statement, params),
            Self::Postgres(client) => run_postgres(client, statement, params).await,
        }
    }
}

/// Runs a statement on SQLite.
#[allow(clippy::missing_errors_doc, reason = "as the port")]
pub fn run_sqlite(
    connection: &rusqlite::Connection,
    statement: &str,
    params: Vec<SqlValue>,
) -> Result<Vec<Vec<SqlValue>>, StoreError> {
    use rusqlite::types::Value as SqliteValue;
    let params = params.into_iter().map(|param| match param {
        SqlValue::Null => SqliteValue::Null,
        SqlValue::Int(number) => SqliteValue::Integer(number),
        SqlValue::Text(text) => SqliteValue::Text(text),
    });
    let run = || {
        let mut statement = connection.prepare_cached(statement)?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let value = |column| {
                Ok(match row.get(column)? {
                    SqliteValue::Integer(number) => SqlValue::Int(number),
                    SqliteValue::Text(text) => SqlValue::Text(text),
                    _ => SqlValue::Null,
                })
            };
            all.push((0..columns).map(value).collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(all)
    };
    run().map_err(|error: rusqlite::Error| StoreError::from_sqlite_error(error.to_string()))
}

/// Runs a statement on PostgreSQL.
#[allow(clippy::missing_errors_doc, reason = "as the port")]
pub async fn run_postgres(
    client: &tokio_postgres::Client,
    statement: &str,
    params: Vec<SqlValue>,
) -> Result<Vec<Vec<SqlValue>>, StoreError> {
    let statement = statement.replace('?', "$");
    let params: Vec<Box<dyn ToSql + Sync>> = params
        .into_iter()
        .map(|param| -> Box<dyn ToSql + Sync> {
            match param {
                SqlValue::Null => Box::new(None::<String>),
                SqlValue::Int(number) => Box::new(number),
                SqlValue::Text(text) => Box::new(text),
            }
        })
        .collect();
    let params: Vec<_> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    let rows = client.query(&statement, &params).await.map_err(|error| {
        let text = format!("{error:?} in {statement}");
        StoreError::from_postgres_error(error.code().map(tokio_postgres::error::SqlState::code), text)
    })?;
    Ok(rows
        .iter()
        .map(|row| {
            (0..row.len())
                .map(|column| match *row.columns()[column].type_() {
                    Type::INT8 => row.get::<_, Option<i64>>(column).map_or(SqlValue::Null, SqlValue::Int),
                    Type::INT4 => row.get::<_, Option<i32>>(column).map_or(SqlValue::Null, |n| SqlValue::Int(n.into())),
                    Type::TEXT => row.get::<_, Option<String>>(column).map_or(SqlValue::Null, SqlValue::Text),
                    ref other => panic!("a column of type {other}"),
                })
                .collect()
        })
        .collect())
}

/// Summarises a statement: its verb, its table and, for an update, the first column that it sets.
pub fn summarize(statement: &str) -> String {
    let words: Vec<_> = statement.split_whitespace().collect();
    let depth = |at: usize| words[..at].concat().matches('(').count() - words[..at].concat().matches(')').count();
    let word_after = |word: &str| {
        let found = (0..words.len()).find(|at| words[*at] == word && depth(*at) == 0);
        found.and_then(|at| words.get(at + 1)).copied()
    };
    let table = match words[0] {
        "INSERT" => word_after("INTO"),
        "UPDATE" => Some(words[1]),
        // The functions that expand a JSON array are named differently by each ledger.
        _ => word_after("FROM").map(|table| if table.starts_with("json") { "json" } else { table }),
    };
    let set = (words[0] == "UPDATE").then(|| word_after("SET").unwrap_or_default());
    [Some(words[0]), table, set].into_iter().flatten().collect::<Vec<_>>().join(" ")
}
