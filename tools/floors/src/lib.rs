//! Does only what no request can avoid, with the SDK's own handler and types. `scripts/bench` compares routes with it.
//!
//! | path | does |
//! |---|---|
//! | `/hello` | answers |
//! | `/body` | reads the body, answers |
//! | `/ping` | reads the body, sends one `PING` over the instance's Redis connection, answers |
//! | `/write` | reads the body, inserts one row over the instance's connection to the ledger, answers |

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use spin_sdk::{
    http::{Error, FullBody, IntoResponse, Request, Result, body::IncomingBodyExt},
    http_service, pg,
    redis::Connection,
    sqlite, variables,
    wasip3::http::types::{ErrorCode, Response},
    wit_bindgen::yield_async,
};

thread_local! {
    /// The instance's connection. It is not opened again: the benchmark's Redis does not restart.
    static CONNECTION: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
    static LEDGER: RefCell<Option<Rc<Ledger>>> = const { RefCell::new(None) };
}

enum Ledger {
    Sqlite(sqlite::Connection),
    Postgres(pg::Connection),
}

#[http_service]
async fn handle(request: Request) -> Result<Response, ErrorCode> {
    let response = answer(request).await.into_response();
    // Spin sends a body that is not ready when the response is returned as a packet of its own, which the client
    // acknowledges 40 ms later.
    yield_async().await;
    response
}

async fn answer(request: Request) -> Result<impl IntoResponse> {
    let (head, body) = request.into_parts();
    let answer = match head.uri.path() {
        "/hello" => Bytes::from_static(b"Hello, world!"),
        "/body" => {
            let body = body.bytes().await?;
            Bytes::from(format!("{} bytes", body.len()))
        }
        "/ping" => {
            body.bytes().await?;
            ping().await?
        }
        "/write" => {
            body.bytes().await?;
            ledger().await?.run("INSERT INTO floor_writes VALUES (1)").await?;
            Bytes::from_static(b"written")
        }
        path => return Err(Error::other(format!("there is no floor {path}"))),
    };
    let response = http::Response::builder().header("content-length", answer.len());
    Ok(response.body(FullBody::new(answer))?)
}

/// Sends `PING` to Redis.
async fn ping() -> Result<Bytes> {
    let reply = connection().await?.execute("PING", Vec::new()).await;
    reply.map_err(other)?;
    Ok(Bytes::from_static(b"PONG"))
}

async fn connection() -> Result<Rc<Connection>> {
    if let Some(connection) = CONNECTION.with_borrow(Clone::clone) {
        return Ok(connection);
    }
    let url = variables::get("redis_url").await.map_err(other)?;
    let opened = Connection::open(url).await.map_err(other)?;
    // Requests that came meanwhile may have opened one each; the first is kept.
    Ok(CONNECTION.with_borrow_mut(|connection| connection.get_or_insert_with(|| Rc::new(opened)).clone()))
}

impl Ledger {
    async fn run(&self, statement: &str) -> Result<()> {
        match self {
            Self::Sqlite(connection) => {
                drop(connection.execute(statement, []).await.map_err(other)?.collect().await.map_err(other)?)
            }
            Self::Postgres(connection) => drop(connection.execute(statement, vec![]).await.map_err(other)?),
        }
        Ok(())
    }
}

/// The instance's connection to the ledger, which has the table.
async fn ledger() -> Result<Rc<Ledger>> {
    if let Some(ledger) = LEDGER.with_borrow(Clone::clone) {
        return Ok(ledger);
    }
    let url = variables::get("ledger").await.map_err(other)?;
    let opened = match url.as_str() {
        "sqlite" => Ledger::Sqlite(sqlite::Connection::open_default().await.map_err(other)?),
        _ => Ledger::Postgres(pg::Connection::open(url).await.map_err(other)?),
    };
    if matches!(opened, Ledger::Sqlite(_)) {
        opened.run("PRAGMA journal_mode = WAL").await?;
    }
    // PostgreSQL refuses it to one of two instances that create the table at the same time.
    let _ = opened.run("CREATE TABLE IF NOT EXISTS floor_writes (n INTEGER)").await;
    Ok(LEDGER.with_borrow_mut(|ledger| ledger.get_or_insert_with(|| Rc::new(opened)).clone()))
}

fn other(error: impl ToString) -> Error {
    Error::other(error.to_string())
}
