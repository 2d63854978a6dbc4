//! Redis, SQLite and PostgreSQL through their own drivers, answering as Spin does.

use std::sync::Mutex;

use redis::{Value as RedisValue, aio::MultiplexedConnection};
use tokio_postgres::types::{ToSql, Type};
use workflows::{
    Redis, Sql, StoreError,
    ports::{Arg, Dialect, Item, Value},
};

/// Redis through its driver.
#[derive(Clone)]
pub struct RealRedis(pub MultiplexedConnection);

impl Redis for RealRedis {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        let mut command = redis::cmd(name);
        args.iter().for_each(|arg| {
            command.arg(arg);
        });
        match command.query_async::<RedisValue>(&mut self.0.clone()).await {
            Ok(value) => {
                let mut items = Vec::new();
                flatten(value, &mut items);
                Ok(items)
            }
            Err(error) => Err(StoreError::of_redis(error.to_string())),
        }
    }
}

fn flatten(value: RedisValue, items: &mut Vec<Item>) {
    match value {
        RedisValue::Nil => items.push(Item::Nil),
        RedisValue::Int(number) => items.push(Item::Int(number)),
        RedisValue::BulkString(bytes) => items.push(Item::Bytes(bytes)),
        RedisValue::SimpleString(text) => items.push(Item::Bytes(text.into_bytes())),
        RedisValue::Okay => items.push(Item::Bytes(b"OK".to_vec())),
        RedisValue::Array(values) => values.into_iter().for_each(|value| flatten(value, items)),
        other => panic!("Spin would refuse {other:?}"),
    }
}

/// A ledger through its driver.
pub enum RealLedger {
    /// A file.
    Sqlite(Mutex<rusqlite::Connection>),
    /// A server.
    Postgres(tokio_postgres::Client),
}

impl RealLedger {
    /// A new SQLite ledger at `path`.
    pub fn sqlite(path: &std::path::Path) -> Self {
        let connection = rusqlite::Connection::open(path).unwrap();
        // Here nothing dies but what calls it; waiting for the disk proves nothing.
        connection.pragma_update(None, "synchronous", "off").unwrap();
        Self::Sqlite(Mutex::new(connection))
    }

    /// A PostgreSQL ledger in a schema of its own.
    pub async fn postgres(url: &str, schema: &str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let own = format!("CREATE SCHEMA IF NOT EXISTS {schema}; SET search_path TO {schema}");
        client.batch_execute(&own).await.unwrap();
        Self::Postgres(client)
    }
}

impl Sql for RealLedger {
    fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        match self {
            Self::Sqlite(connection) => run_sqlite(&connection.lock().unwrap(), statement, params),
            Self::Postgres(client) => run_postgres(client, statement, params).await,
        }
    }
}

fn run_sqlite(
    connection: &rusqlite::Connection,
    statement: &str,
    params: Vec<Value>,
) -> Result<Vec<Vec<Value>>, StoreError> {
    use rusqlite::types::Value as Native;
    let params = params.into_iter().map(|param| match param {
        Value::Null => Native::Null,
        Value::Int(number) => Native::Integer(number),
        Value::Text(text) => Native::Text(text),
    });
    let run = || {
        let mut statement = connection.prepare(statement)?;
        let columns = statement.column_count();
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            let value = |at| {
                Ok(match row.get(at)? {
                    Native::Integer(number) => Value::Int(number),
                    Native::Text(text) => Value::Text(text),
                    _ => Value::Null,
                })
            };
            all.push((0..columns).map(value).collect::<rusqlite::Result<Vec<_>>>()?);
        }
        Ok(all)
    };
    run().map_err(|error: rusqlite::Error| {
        let text = error.to_string();
        if text.contains("no such table") {
            StoreError::LedgerEmpty(text)
        } else if text.contains("constraint") || text.contains("illegal move") || text.contains("never deleted") {
            StoreError::LedgerRefused(text)
        } else {
            StoreError::LedgerUnavailable(format!("{text} in {statement}"))
        }
    })
}

async fn run_postgres(
    client: &tokio_postgres::Client,
    statement: &str,
    params: Vec<Value>,
) -> Result<Vec<Vec<Value>>, StoreError> {
    let statement = statement.replace('?', "$");
    let params: Vec<Box<dyn ToSql + Sync>> = params
        .into_iter()
        .map(|param| -> Box<dyn ToSql + Sync> {
            match param {
                Value::Null => Box::new(None::<String>),
                Value::Int(number) => Box::new(number),
                Value::Text(text) => Box::new(text),
            }
        })
        .collect();
    let params: Vec<_> = params.iter().map(|param| &**param as &(dyn ToSql + Sync)).collect();
    let rows = client.query(&statement, &params).await.map_err(|error| {
        let text = format!("{error:?} in {statement}");
        match error.code().map(|code| code.code()) {
            Some("42P01") => StoreError::LedgerEmpty(text),
            Some("23505" | "23514" | "23503" | "P0001" | "42710" | "42P07") => StoreError::LedgerRefused(text),
            _ => StoreError::LedgerUnavailable(text),
        }
    })?;
    Ok(rows
        .iter()
        .map(|row| {
            (0..row.len())
                .map(|at| match *row.columns()[at].type_() {
                    Type::INT8 => row.get::<_, Option<i64>>(at).map_or(Value::Null, Value::Int),
                    Type::INT4 => row.get::<_, Option<i32>>(at).map_or(Value::Null, |n| Value::Int(n.into())),
                    Type::TEXT => row.get::<_, Option<String>>(at).map_or(Value::Null, Value::Text),
                    ref other => panic!("a column of type {other}"),
                })
                .collect()
        })
        .collect())
}
