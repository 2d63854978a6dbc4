//! Requests for the floor that runs the script of a reservation.

use std::cell::RefCell;

use anyhow::{Context, Result};
use bytes::Bytes;
use domain::ids::{ActivityId, OrderNo, SkuId, UserId};
use domain::time::Millis;
use http::Method;
use workflows::hot::reserve::{ReserveRequest, reserve};
use workflows::ports::{RedisArg, RedisValue};
use workflows::{Redis, StoreError};

use super::growth::fill::random_ulid;
use super::prepare::OpenActivity;
use super::request_source::PreparedRequest;
use super::server::Server;

/// A Redis that keeps the arguments of the first command and runs none.
#[derive(Default)]
struct Recorder(RefCell<Vec<RedisArg>>);

impl Redis for Recorder {
    async fn command(&self, _name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        self.0.replace(args);
        Err(StoreError::RedisUnavailable("no command is run".to_owned()))
    }
}

/// Requests for `/script`, each with the arguments of the `EVALSHA` by which the app reserves a unit for another user.
pub async fn script_requests(server: &Server, opened: &OpenActivity, count: usize) -> Result<Vec<PreparedRequest>> {
    let activity = ActivityId::parse(&opened.activity.id).ok().context("an activity id")?;
    let sku = SkuId::parse(&opened.activity.skus[0]).ok().context("a SKU")?;
    let mut requests = Vec::with_capacity(count);
    for _ in 0..count {
        let ulid = random_ulid();
        let request = ReserveRequest {
            order_no: OrderNo::new(activity.clone(), ulid),
            user: UserId::parse(&format!("floor-{ulid}")).ok().context("a user id")?,
            sku: sku.clone(),
            quantity: 1,
            start_key: opened.start_key.clone(),
            ip: "127.0.0.1".to_owned(),
            decide_until: Millis(i64::MAX),
            counts: Vec::new(),
        };
        let recorder = Recorder::default();
        // The error is the recorder's own.
        let _ = reserve(&recorder, &request, false).await;
        let body = recorder.0.into_inner().join(&b'\n');
        requests.push(server.request(Method::POST, "/script", None, Bytes::from(body))?);
    }
    Ok(requests)
}
