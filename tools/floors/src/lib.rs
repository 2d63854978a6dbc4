//! Does only what no request can avoid, with the SDK's own handler and types. `scripts/bench` compares routes with it.
//!
//! | path | does |
//! |---|---|
//! | `/hello` | answers |
//! | `/body` | reads the body, answers |
//! | `/ping` | reads the body, sends one `PING` over the instance's Redis connection, answers |

use std::{cell::RefCell, rc::Rc};

use bytes::Bytes;
use spin_sdk::{
    http::{Error, FullBody, IntoResponse, Request, Result, body::IncomingBodyExt},
    http_service,
    redis::Connection,
    variables,
    wasip3::http::types::{ErrorCode, Response},
    wit_bindgen::yield_async,
};

thread_local! {
    /// The instance's connection. It is not opened again: the benchmark's Redis does not restart.
    static CONNECTION: RefCell<Option<Rc<Connection>>> = const { RefCell::new(None) };
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
        path => return Err(Error::other(format!("there is no floor {path}"))),
    };
    let response = http::Response::builder().header("content-length", answer.len());
    Ok(response.body(FullBody::new(answer))?)
}

/// Sends `PING` to Redis.
async fn ping() -> Result<Bytes> {
    let reply = connection().await?.execute("PING", Vec::new()).await;
    reply.map_err(|error| Error::other(error.to_string()))?;
    Ok(Bytes::from_static(b"PONG"))
}

async fn connection() -> Result<Rc<Connection>> {
    if let Some(connection) = CONNECTION.with_borrow(Clone::clone) {
        return Ok(connection);
    }
    let url = variables::get("redis_url").await.map_err(|error| Error::other(error.to_string()))?;
    let opened = Connection::open(url).await.map_err(|error| Error::other(error.to_string()))?;
    // Requests that came meanwhile may have opened one each; the first is kept.
    Ok(CONNECTION.with_borrow_mut(|connection| connection.get_or_insert_with(|| Rc::new(opened)).clone()))
}
