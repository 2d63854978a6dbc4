//! Reads one order from Redis (`lua/status.lua`).

use domain::{
    ids::{OrderNo, SkuId, UserId},
    order::{Order, OrderStatus},
    time::Millis,
};

use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    reply::{non_empty, non_zero_time},
    script::STATUS,
};

/// Returns the Redis time, and the order if Redis has a record of it.
///
/// # Errors
/// `RedisUnavailable` or `RedisRefused` if Redis gave no reply; `Malformed` if the record cannot be parsed.
pub async fn load_order<R: Redis>(redis: &R, order_no: &OrderNo) -> Result<(Millis, Option<Order>), StoreError> {
    let keys = Keys::of(order_no.activity());
    let script_keys = vec![keys.order(order_no.ulid()), keys.named("stats")];
    let mut reply = STATUS.run(redis, script_keys, Vec::new()).await?;
    let now = Millis(reply.int()?);
    if reply.remaining() == 0 {
        return Ok((now, None));
    }
    let malformed = |what: &str| StoreError::Malformed(format!("the {what} of {order_no} in Redis"));
    let status = OrderStatus::parse(&reply.text()?).ok_or_else(|| malformed("status"))?;
    let user = UserId::parse(&reply.text()?).map_err(|_| malformed("user"))?;
    let sku = SkuId::parse(&reply.text()?).map_err(|_| malformed("SKU"))?;
    let order = Order {
        order_no: order_no.clone(),
        user,
        status,
        sku,
        quantity: reply.int()?,
        money: reply.money()?,
        created_at: Millis(reply.int()?),
        pay_by: non_zero_time(reply.int()?),
        paid_at: non_zero_time(reply.int()?),
        reason: non_empty(reply.text()?),
        checkout_url: non_empty(reply.text()?),
        ahead: reply.int()?,
        estimated_wait_ms: reply.int()?,
    };
    Ok((now, Some(order)))
}
