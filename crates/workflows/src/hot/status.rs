//! One order as it stands, in one read (`lua/status.lua`).

use domain::{
    ids::{OrderNo, SkuId, UserId},
    order::{Order, Status},
    time::Millis,
};

use crate::{
    keys::Keys,
    ports::{Redis, StoreError},
    script::STATUS,
};

/// Redis's clock, and the order if Redis knows it.
///
/// # Errors
/// [`StoreError`] of Redis.
pub async fn status<R: Redis>(redis: &R, order_no: &OrderNo) -> Result<(Millis, Option<Order>), StoreError> {
    let keys = Keys::of(order_no.activity());
    let names = vec![keys.order(order_no.ulid()), keys.named("queue")];
    let mut reply = STATUS.run(redis, names, Vec::new()).await?;
    let now = Millis(reply.int()?);
    if reply.left() == 0 {
        return Ok((now, None));
    }
    let unreadable = |what: &str| StoreError::Unreadable(format!("the {what} of {order_no} in Redis"));
    let status = Status::parse(&reply.text()?).ok_or_else(|| unreadable("status"))?;
    let user = UserId::parse(&reply.text()?).map_err(|_| unreadable("user"))?;
    let sku = SkuId::parse(&reply.text()?).map_err(|_| unreadable("SKU"))?;
    let order = Order {
        order_no: order_no.clone(),
        user,
        status,
        sku,
        quantity: reply.int()?,
        money: reply.money()?,
        created_at: Millis(reply.int()?),
        pay_by: some_time(reply.int()?),
        paid_at: some_time(reply.int()?),
        reason: some_text(reply.text()?),
        checkout_url: some_text(reply.text()?),
        ahead: reply.int()?,
        estimated_wait_ms: reply.int()?,
    };
    Ok((now, Some(order)))
}

/// 0 is no time.
pub(crate) fn some_time(ms: i64) -> Option<Millis> {
    (ms > 0).then_some(Millis(ms))
}

/// An empty text is none.
pub(crate) fn some_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}
