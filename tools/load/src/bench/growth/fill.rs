//! Fills a sale with orders: reserves directly in Redis, and lets the app's order writer write them to the ledger.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use domain::ids::{ActivityId, OrderNo, SkuId, UserId};
use domain::problem::Code;
use domain::time::Millis;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::ProgressBar;
use redis::aio::MultiplexedConnection;
use redis::{Value, cmd};
use ulid::Ulid;
use workflows::hot::reserve::{ReserveOutcome, ReserveRequest, reserve};
use workflows::ports::{RedisArg, RedisValue};
use workflows::{Redis, StoreError};

use crate::bench::prepare::OpenActivity;

/// Reservations in flight.
const CONCURRENCY: usize = 200;
/// Pause after a refusal because the order writer is too far behind.
const OVERLOADED_PAUSE: Duration = Duration::from_millis(100);

struct RedisConnection(MultiplexedConnection);

impl Redis for RedisConnection {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        let mut command = cmd(name);
        for arg in &args {
            command.arg(arg);
        }
        let reply = command.query_async(&mut self.0.clone()).await;
        let mut items = Vec::new();
        flatten(reply.map_err(|error| StoreError::from_redis_error(error.to_string()))?, &mut items);
        Ok(items)
    }
}

/// Appends a reply as Spin does, without nesting. The scripts reply with integers, strings and arrays.
fn flatten(value: Value, items: &mut Vec<RedisValue>) {
    match value {
        Value::Int(number) => items.push(RedisValue::Int(number)),
        Value::BulkString(bytes) => items.push(RedisValue::Bytes(bytes)),
        Value::SimpleString(text) => items.push(RedisValue::Bytes(text.into_bytes())),
        Value::Array(values) => values.into_iter().for_each(|value| flatten(value, items)),
        _ => items.push(RedisValue::Nil),
    }
}

/// Adds `orders` orders of one unit, each of another user. Returns when Redis has all of them.
pub async fn add_orders(redis_url: &str, opened: &OpenActivity, orders: usize, bar: &ProgressBar) -> Result<()> {
    let connection = redis::Client::open(redis_url)?.get_multiplexed_async_connection().await?;
    let redis = RedisConnection(connection);
    let activity = ActivityId::parse(&opened.activity.id).ok().context("an activity id")?;
    let sku = SkuId::parse(&opened.activity.skus[0]).ok().context("a SKU")?;
    let (redis, activity, sku) = (&redis, &activity, &sku);
    stream::iter(0..orders)
        .map(async |number| {
            let request = ReserveRequest {
                order_no: OrderNo::new(activity.clone(), random_ulid()),
                user: UserId::parse(&format!("fill-{number}")).ok().context("a user id")?,
                sku: sku.clone(),
                quantity: 1,
                start_key: opened.start_key.clone(),
                ip: "127.0.0.1".to_owned(),
                decide_until: Millis(i64::MAX),
                counts: Vec::new(),
            };
            loop {
                match reserve(redis, &request, false).await?.outcome {
                    ReserveOutcome::Queued(_) => break,
                    ReserveOutcome::Refused(Code::Overloaded, _) => tokio::time::sleep(OVERLOADED_PAUSE).await,
                    other => bail!("filling the sale was refused: {other:?}"),
                }
            }
            bar.inc(1);
            Ok(())
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<()>()
        .await
}

/// A ULID of now.
pub fn random_ulid() -> Ulid {
    let now = time::OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    Ulid::from_parts(u64::try_from(now).unwrap_or_default(), fastrand::u128(..))
}
