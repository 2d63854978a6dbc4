//! The invariants that hold after a schedule and its recovery (I1 to I9).

use std::collections::BTreeMap;

use domain::{activity::ActivityState, ids::OrderNo, order::OrderStatus};
use operations::commands::audit::audit;
use orders::status::load_order;
use payments::callbacks;
use sale::ledger::activities;
use stores::{Redis, Sql, keys::Keys, ports::SqlValue, reply::Reply as RedisReply};

use crate::{
    fixture::{Fixture, NOW},
    sale::Start,
    scheduler::{Outcome, plan::Ending},
    workflow::{
        Cancel, DUE, Expire, LateSweep, Leave, Lower, Pause, Pay, PayTwice, PortsFixture, Rebuild, Refund, Replay,
        Reserve, ReserveAgain, Restock, Workflow, fail, rebuild_and_resume, sweep_until_done,
    },
};

/// Recovers as providers and sweepers do, and returns what is wrong then.
pub async fn check(
    fixture: &PortsFixture,
    workflows: &[Workflow],
    start: Start,
    ending: &Ending,
) -> Result<(), String> {
    let Fixture { redis, sql, activity, sku, .. } = fixture;
    let order_no = fixture.order_no(1);
    // An operator repeats a rebuild until it is done.
    if workflows.iter().zip(&ending.workflows).any(|(workflow, end)| *workflow == Rebuild && end.0 != Outcome::Done)
        && !rebuild_and_resume(fixture).await.map_err(fail)?
    {
        return Err("a rebuild alone is refused".to_owned());
    }
    // A provider delivers a callback until it is accepted.
    for (workflow, (outcome, _)) in workflows.iter().zip(&ending.workflows) {
        if matches!(workflow, Pay | PayTwice) && *outcome != Outcome::Done {
            callbacks::apply(redis, sql, &workflow.callback(&order_no), NOW).await.map_err(fail)?;
        }
    }
    let is_due = workflows.iter().any(|workflow| matches!(workflow, Expire | LateSweep));
    let end = if is_due { DUE } else { NOW };
    let now = sweep_until_done(fixture, end).await?;

    // I1 to I3, and both stores agree.
    let audit = audit(redis, sql, activity, fixture.per_user).await.map_err(fail)?.ok_or("no gate")?;
    if !audit.ok || audit.drift != 0 || audit.queue != 0 {
        return Err(format!("audit: {audit:?}"));
    }
    let rows = sql.run("SELECT order_no, status, live, user_id, payment FROM orders", vec![]).await.map_err(fail)?;
    let (mut held, mut sold, mut holders) = (0, 0, BTreeMap::new());
    let mut ledger_orders = BTreeMap::new();
    for row in rows {
        let [SqlValue::Text(number), SqlValue::Text(status), SqlValue::Int(live), SqlValue::Text(user), payment] =
            &row[..]
        else {
            return Err(format!("{row:?}"));
        };
        let number = OrderNo::parse(number).map_err(|_| number.clone())?;
        let status = OrderStatus::parse(status).ok_or(status.clone())?;
        let seen = load_order(redis, &number).await.map_err(fail)?.order.map(|order| order.status);
        if seen != Some(status) {
            return Err(format!("order {} is {status:?} in the ledger, {seen:?} in Redis", number.ulid()));
        }
        if *live == 1 {
            *if status == OrderStatus::PendingPayment { &mut held } else { &mut sold } += 1;
            *holders.entry(user.clone()).or_insert(0) += 1;
        }
        ledger_orders.insert(number, (status, payment.clone()));
    }
    let seen = &audit.skus[0].redis;
    if (seen.held, seen.sold) != (held, sold) {
        return Err(format!("Redis counts {} held and {} sold, the ledger {held} and {sold}", seen.held, seen.sold));
    }
    let reply = redis.command("HGETALL", vec![Keys::of(activity).named("holders").into()]).await.map_err(fail)?;
    let mut seen = BTreeMap::new();
    for entry in reply.chunks(2) {
        let mut entry = RedisReply::new(entry.to_vec());
        let holder = entry.text().map_err(fail)?;
        let user = holder.strip_prefix(&format!("{sku}:")).ok_or("a holder of another SKU")?.to_owned();
        seen.insert(user, entry.int().map_err(fail)?);
    }
    if seen != holders {
        return Err(format!("holders in Redis {seen:?}, in the ledger {holders:?}"));
    }

    // Both stores have the same gate.
    let stored = activities::load(sql, activity).await.map_err(fail)?.ok_or("no activity")?;
    let fields = ["state", "version", "total:phone"].map(|field| field.into());
    let gate = redis.command("HMGET", [vec![Keys::of(activity).named("gate").into()], fields.into()].concat()).await;
    let total = stored.spec.skus[0].total;
    let expected = [stored.state.as_str().to_owned(), stored.version.to_string(), total.to_string()];
    let mut gate = RedisReply::new(gate.map_err(fail)?);
    let gate = [gate.text().map_err(fail)?, gate.text().map_err(fail)?, gate.text().map_err(fail)?];
    if gate != expected {
        return Err(format!("state, version and total are {gate:?} in Redis, {expected:?} in the ledger"));
    }

    if start == Start::Line {
        check_line(fixture).await?;
        let [dan, eli] = [4, 5].map(|n| check_accepted(fixture, n));
        if !ending.lost {
            dan.await?;
            eli.await?;
        }
    } else {
        check_accepted(fixture, 3).await?;
    }
    if start == Start::Backlog {
        // Whenever a sweep died, the next ones apply eve's payment and send fay's refund.
        for (n, payment, expected) in [
            (4, "pay".to_owned(), OrderStatus::Paid),
            (5, format!("pay-{}", fixture.order_no(5)), OrderStatus::Refunded),
        ] {
            let order_no = fixture.order_no(n);
            check_payment(fixture, &order_no, &payment).await?;
            match ledger_orders.get(&order_no) {
                Some((status, _)) if *status == expected => {}
                other => return Err(format!("order {n} should be {expected:?}: {other:?}")),
            }
        }
    }
    let mut totals = vec![start.total()];
    for (workflow, (outcome, unknown)) in workflows.iter().zip(&ending.workflows) {
        let status = |n| ledger_orders.get(&fixture.order_no(n)).map(|(status, _)| *status);
        match workflow {
            // I4.
            Reserve | ReserveAgain if *outcome == Outcome::Done && !ending.lost => {
                check_accepted(fixture, if *workflow == Reserve { 7 } else { 8 }).await?;
            }
            Cancel | Refund if *outcome == Outcome::Done && status(1) == Some(OrderStatus::PendingPayment) => {
                return Err(format!("{workflow:?} was done, and order 1 waits for payment"));
            }
            Leave if *outcome == Outcome::Done && !ending.lost => {
                let left = "SELECT 1 FROM line_entries WHERE order_no = ?1 AND state = 'ended'";
                let found = sql.run(left, vec![fixture.order_no(4).to_string().into()]).await.map_err(fail)?;
                if found.is_empty() {
                    return Err("dan left, and still waits".to_owned());
                }
            }
            // I6.
            Pay | PayTwice => check_payment(fixture, &order_no, &workflow.callback(&order_no).payment_id).await?,
            // I4: the order was written, or its dead letter waits for an operator again.
            Replay if *outcome == Outcome::Done && status(3).is_none() => {
                let waiting = "SELECT 1 FROM dead_letters WHERE order_no = ?1 AND replayed_at < died_at";
                let found = sql.run(waiting, vec![fixture.order_no(3).to_string().into()]).await.map_err(fail)?;
                if found.is_empty() {
                    return Err("order 3 was requeued, and is gone".to_owned());
                }
            }
            Pause
                if !workflows.contains(&Rebuild)
                    && *outcome == Outcome::Done
                    && stored.state == ActivityState::Published =>
            {
                return Err("the pause was undone".to_owned());
            }
            Restock | Lower => {
                let by = if *workflow == Restock { 1 } else { -1 };
                // An attempt whose outcome is unknown may have changed the total.
                let mut next = Vec::new();
                for total in &totals {
                    let last = match outcome {
                        Outcome::Done => vec![by],
                        // A change beside a rebuild may be saved, and answered with "look again".
                        Outcome::Refused if !workflows.contains(&Rebuild) => vec![0],
                        _ => vec![0, by],
                    };
                    for last in last {
                        next.push(total + last);
                        if *unknown {
                            next.push(total + last + by);
                        }
                    }
                }
                totals = next;
            }
            _ => {}
        }
    }
    if !totals.contains(&total) {
        return Err(format!("the total is {total}, and should be one of {totals:?}"));
    }

    // The rest is checked after pairs only: it takes as many calls again.
    if workflows.len() > 2 || start == Start::Line {
        return Ok(());
    }

    // Orders that are due release their units; a paid one does not.
    sweep_until_done(fixture, now.max(DUE).plus(DUE.0 - NOW.0)).await?;
    let after = operations::commands::stats::stats(redis, activity).await.map_err(fail)?.ok_or("no gate")?;
    if (after.skus[0].held, after.skus[0].sold, after.skus[0].left) != (0, sold, Some(total - sold)) {
        return Err(format!("after the last order expired: {:?}", after.skus[0]));
    }

    // I7: the ticket of order 1 makes no second order.
    let _ = fixture.reserve(1, "ada", 1).await.map_err(fail)?;
    let again = operations::commands::stats::stats(redis, activity).await.map_err(fail)?.ok_or("no gate")?;
    if again.skus[0].left != after.skus[0].left {
        return Err("the ticket of order 1 took another unit".to_owned());
    }
    Ok(())
}

/// I8, I9: both stores have the same line, in the same order, and nobody in it is before anybody who was offered a unit. That
/// no unit is free while somebody waits, the audit says.
async fn check_line(fixture: &PortsFixture) -> Result<(), String> {
    let Fixture { redis, sql, activity, sku, .. } = fixture;
    let range = vec![Keys::of(activity).line(sku).into(), "0".into(), "-1".into()];
    let mut reply = RedisReply::new(redis.command("ZRANGE", range).await.map_err(fail)?);
    let mut in_redis = Vec::new();
    while reply.remaining() > 0 {
        in_redis.push(reply.text().map_err(fail)?);
    }
    let statement = "SELECT user_id, state FROM line_entries WHERE state <> 'ended' ORDER BY epoch, sequence";
    let (mut in_ledger, mut is_passed_over) = (Vec::new(), false);
    for row in sql.run(statement, vec![]).await.map_err(fail)? {
        let [SqlValue::Text(user), SqlValue::Text(state)] = &row[..] else { return Err(format!("{row:?}")) };
        if state == "waiting" {
            in_ledger.push(user.clone());
        } else {
            is_passed_over |= !in_ledger.is_empty();
        }
    }
    if in_redis != in_ledger || is_passed_over {
        return Err(format!(
            "the line is {in_redis:?} in Redis, {in_ledger:?} in the ledger; passed over: {is_passed_over}"
        ));
    }
    Ok(())
}

/// A reservation that was accepted is an order, a dead letter, or an entry of the line.
async fn check_accepted(fixture: &PortsFixture, n: u64) -> Result<(), String> {
    let statement = "SELECT order_no FROM orders WHERE order_no = ?1 \
         UNION ALL SELECT order_no FROM dead_letters WHERE order_no = ?1 \
         UNION ALL SELECT order_no FROM line_entries WHERE order_no = ?1";
    let found = fixture.sql.run(statement, vec![fixture.order_no(n).to_string().into()]).await;
    match found.map_err(|error| error.to_string())?.len() {
        0 => Err(format!("order {n} was accepted, and is gone")),
        _ => Ok(()),
    }
}

/// A confirmed payment pays its order, is refunded, or is parked for an operator.
async fn check_payment(fixture: &PortsFixture, order_no: &OrderNo, payment: &str) -> Result<(), String> {
    let statement = "SELECT 1 FROM orders WHERE order_no = ?1 AND payment = ?2 \
         AND status IN ('paid', 'refunding', 'refunded') \
         UNION ALL SELECT 1 FROM overpayments WHERE payment = ?2 \
         UNION ALL SELECT 1 FROM callbacks WHERE payment = ?2 AND outcome IN ('wrong_amount', 'unknown_order')";
    let found = fixture.sql.run(statement, vec![order_no.to_string().into(), payment.into()]).await;
    match found.map_err(|error| error.to_string())?.len() {
        1 => Ok(()),
        count => Err(format!("{payment} is accounted for {count} times")),
    }
}
