//! `GET /api/orders/:order_no`: one read of Redis while the order lives there, the ledger after that (D5).

use std::hash::{DefaultHasher, Hash, Hasher};

use domain::{
    ids::{OrderNo, UserId},
    order::{Order, Status},
    problem::{Code, Problem},
    time::{Millis, seconds_up},
};
use platform::{
    auth,
    http::{Answer, Call, Failure, not_found},
    ledger::SpinLedger,
    redis::SpinRedis,
};
use workflows::{hot::status::status, ledger::orders, queue::dead_letters};

/// Who may see the order: whoever holds its ticket, or its user.
enum Viewer {
    Ticket,
    User(UserId),
}

/// The order, to its owner; to anybody else it does not exist.
pub async fn get(call: &Call, order_no: &str) -> Result<Answer, Failure> {
    let unknown = || not_found("There is no such order, or it is not yours.");
    let viewer = |order_no: Option<&OrderNo>| viewer(call, order_no.cloned());
    let Ok(order_no) = OrderNo::parse(order_no) else {
        viewer(None).await?;
        return Err(unknown());
    };
    let viewer = viewer(Some(&order_no)).await?;
    let (now, order) = match status(&SpinRedis, &order_no).await? {
        (now, Some(order)) => (now, order),
        (now, None) => {
            let ledger = SpinLedger::open().await;
            let order = match orders::load(&ledger, &order_no).await? {
                Some(entry) => entry.order,
                // It failed so long ago that Redis forgot it: its dead letter remains (I4).
                None => dead_letters::order(&ledger, &order_no).await?.ok_or_else(unknown)?,
            };
            (now, order)
        }
    };
    if matches!(&viewer, Viewer::User(user) if *user != order.user) {
        return Err(unknown());
    }
    Ok(answer(call, &order.seen_at(now), now))
}

/// A ticket is checked with CPU alone: its ULID is its order's.
async fn viewer(call: &Call, order_no: Option<OrderNo>) -> Result<Viewer, Failure> {
    let bearer = call.bearer().unwrap_or_default();
    if !bearer.starts_with("1.") {
        return Ok(Viewer::User(auth::user(call).await?.sub));
    }
    let ticket = auth::tickets()
        .await?
        .identify(bearer)
        .map_err(|error| Problem::new(Code::TicketInvalid, error.to_string()))?;
    if order_no.is_some_and(|order_no| order_no != ticket.order_no()) {
        return Err(not_found("There is no such order, or it is not yours."));
    }
    Ok(Viewer::Ticket)
}

fn answer(call: &Call, order: &Order, now: Millis) -> Answer {
    let answer = Answer::json(200, order);
    let mut hasher = DefaultHasher::new();
    answer.body.hash(&mut hasher);
    let etag = format!("\"{:016x}\"", hasher.finish());
    let answer = if call.has(&etag) { Answer::empty(304) } else { answer };
    let mut answer = answer.header("etag", etag).header("cache-control", "private, no-cache");
    if let Some(seconds) = poll_after(order, now) {
        answer = answer.header("retry-after", seconds.to_string());
    }
    answer
}

/// When to look again, in seconds: soon while something is bound to happen, never once nothing is.
fn poll_after(order: &Order, now: Millis) -> Option<i64> {
    match order.status {
        Status::Queued => Some(seconds_up(order.estimated_wait_ms).clamp(1, 10)),
        Status::PendingPayment => Some(order.pay_by.map_or(5, |pay_by| now.seconds_until(pay_by, 1)).clamp(1, 5)),
        Status::Refunding => Some(10),
        _ => None,
    }
}
