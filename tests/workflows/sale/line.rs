//! Tests of the line (H1; I8, I9): what comes back goes to those who wait, in their order, whatever dies on the way.

use domain::{
    activity::{ActivityState, LineMode},
    http::problem::Code,
    ids::UserId,
    order::{Order, OrderStatus},
};
use operations::upkeep::rebuild::RebuildOutcome;
use orders::{ledger::line_entries, status::load_order_of};
use payments::callbacks::CallbackEffect;
use sale::{
    line::{self, LeaveOutcome, Leaver},
    reserve::ReserveOutcome,
};
use stores::Sql;
use support::fixture::WHOLE_REBUILD;

use crate::fixture::{LEDGERS, NOW, RealFixture, Services, completed, new_fixture, sweeper};

/// A sale of `total` units, all taken by orders that wait for payment (tickets from 1), and a line.
pub async fn sold_out(ledger: &str, total: u64) -> RealFixture {
    let fixture = new_fixture(ledger, total as i64, 1).await;
    let opened = fixture.change_spec(|spec| {
        (spec.line.mode, spec.line.max_units, spec.line.offer_seconds) = (LineMode::Waitlist, Some(5), Some(60));
    });
    opened.await;
    for n in 1..=total {
        fixture.pending_order(n, &format!("user {n}"), 1).await;
    }
    fixture
}

pub async fn join(fixture: &RealFixture, n: u64) -> Order {
    match fixture.reserve(n, &format!("user {n}"), 1).await.unwrap().outcome {
        ReserveOutcome::Queued(order) => *order,
        other => panic!("{n}: {other:?}"),
    }
}

pub async fn find(fixture: &RealFixture, n: u64) -> Order {
    let user = UserId::parse(&format!("user {n}")).unwrap();
    load_order_of(&fixture.redis, &fixture.order_no(n), &user).await.unwrap().order.unwrap()
}

async fn statuses(fixture: &RealFixture, tickets: std::ops::RangeInclusive<u64>) -> Vec<OrderStatus> {
    let mut found = Vec::new();
    for n in tickets {
        found.push(find(fixture, n).await.status);
    }
    found
}

pub async fn write_all(fixture: &RealFixture) {
    while fixture.write_batch().await.unwrap().messages > 0 {}
}

/// Runs a sweep, after which no unit may be free while anybody waits.
pub async fn sweep(fixture: &RealFixture) {
    let (services, clock) = (Services::accepting(), || NOW);
    completed(sweeper((&fixture.redis, &fixture.sql), &services, &clock).run(NOW).await);
    fixture.units().await;
}

use OrderStatus::{Cancelled, Expired, PendingPayment, Queued, Waiting};

#[tokio::test]
async fn what_comes_back_goes_to_those_who_wait_in_their_order() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 3).await;
        let joined = [join(&fixture, 4).await, join(&fixture, 5).await, join(&fixture, 6).await];
        assert_eq!(
            joined.each_ref().map(|order| (order.status, order.ahead)),
            [(Waiting, Some(0)), (Waiting, Some(1)), (Waiting, Some(2))]
        );
        write_all(&fixture).await;
        assert_eq!(find(&fixture, 6).await.ahead, Some(2), "{ledger}");
        fixture.cancel(&fixture.order_no(2)).await.unwrap();
        assert_eq!(statuses(&fixture, 4..=6).await, [Queued, Waiting, Waiting], "{ledger}: at once");
        assert_eq!(find(&fixture, 6).await.ahead, Some(1), "{ledger}");
        // A robot that comes now waits behind them.
        assert_eq!(join(&fixture, 7).await.ahead, Some(2), "{ledger}");
        write_all(&fixture).await;
        let offered = find(&fixture, 4).await;
        assert_eq!(
            (offered.status, offered.pay_by),
            (PendingPayment, Some(NOW.plus(60_000))),
            "{ledger}: its own time"
        );
        fixture.restock(2).await;
        assert_eq!(statuses(&fixture, 4..=7).await, [PendingPayment, Queued, Queued, Waiting], "{ledger}");
        write_all(&fixture).await;
        // Offers that are not paid in time go on, without a strike.
        fixture.expire_orders().await.unwrap();
        assert_eq!(statuses(&fixture, 4..=7).await, [Expired, Expired, Expired, Queued], "{ledger}");
        write_all(&fixture).await;
        assert_eq!(fixture.units().await.0, 4, "{ledger}: nobody waits any more");
        let strikes = fixture.sql.run("SELECT user_id FROM strikes ORDER BY user_id", vec![]).await.unwrap();
        assert_eq!(strikes.len(), 2, "{ledger}: of those who reserved: {strikes:?}");
    }
}

#[tokio::test]
async fn a_line_is_for_one_unit_once_and_has_an_end() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        assert_eq!(fixture.refusal(2, "user 2", 2).await, Some(Code::LimitReached), "{ledger}");
        join(&fixture, 2).await;
        let again = fixture.reserve(2, "user 2", 1).await.unwrap();
        assert!(again.is_repeat && matches!(again.outcome, ReserveOutcome::Queued(order) if order.status == Waiting));
        assert_eq!(fixture.refusal(2, "user 2", 2).await, Some(Code::TicketConflict), "{ledger}");
        let second = fixture.reserve(3, "user 2", 1).await.unwrap().outcome;
        assert_eq!(second, ReserveOutcome::WaitsAlready(fixture.order_no(2)), "{ledger}");
        assert_eq!(fixture.refusal(4, "user 1", 1).await, Some(Code::LimitReached), "{ledger}: who has one");
        for n in 5..=8 {
            join(&fixture, n).await;
        }
        assert_eq!(fixture.refusal(9, "user 9", 1).await, Some(Code::SoldOut), "{ledger}: the line is full");
        write_all(&fixture).await;
        sweep(&fixture).await;
        let off = fixture.change_spec(|spec| spec.line.mode = LineMode::None).await;
        assert!(format!("{off:?}").contains("cannot be switched off"), "{off:?}");
        fixture.set_state(ActivityState::Closed).await;
        let ended = find(&fixture, 8).await;
        assert_eq!((ended.status, ended.reason.as_deref()), (Expired, Some("sale_ended")), "{ledger}");
        fixture.delete_redis_keys().await;
        let ended = line_entries::load(&fixture.sql, &fixture.order_no(8), NOW).await.unwrap().unwrap();
        assert_eq!((ended.status, ended.reason.as_deref()), (Expired, Some("sale_ended")), "{ledger}: without Redis");
    }
}

#[tokio::test]
async fn who_leaves_or_may_not_buy_any_more_is_passed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.change_spec(|spec| spec.line.mode = LineMode::Waitlist).await;
        fixture.pending_order(1, "user 1", 1).await;
        fixture.pending_order(2, "user 2", 1).await;
        let entry = join(&fixture, 3).await;
        join(&fixture, 4).await;
        // At once, also before the writer has seen it.
        let left = LeaveOutcome::Left("left_line".to_owned());
        assert_eq!(line::leave(&fixture.redis, &entry, Leaver::Buyer).await.unwrap(), left);
        assert_eq!(line::leave(&fixture.redis, &entry, Leaver::Operator).await.unwrap(), left, "repeated");
        let left = find(&fixture, 3).await;
        assert_eq!((left.status, left.reason.as_deref()), (Cancelled, Some("left_line")), "{ledger}");
        // With another ticket the same user joins again, at the end.
        assert_eq!(
            match fixture.reserve(5, "user 3", 1).await.unwrap().outcome {
                ReserveOutcome::Queued(order) => order.ahead,
                other => panic!("{other:?}"),
            },
            Some(1)
        );
        write_all(&fixture).await;
        sweep(&fixture).await;
        let ban = format!("{{{}}}:ban:user:user 4", fixture.activity);
        fixture.run_redis(&["SET", &ban, "1"]).await;
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        let banned = find(&fixture, 4).await;
        assert_eq!((banned.status, banned.reason.as_deref()), (Cancelled, Some("banned")), "{ledger}");
        let user = UserId::parse("user 3").unwrap();
        let next = load_order_of(&fixture.redis, &fixture.order_no(5), &user).await.unwrap().order.unwrap();
        assert_eq!(next.status, Queued, "{ledger}");
        assert_eq!(line::leave(&fixture.redis, &next, Leaver::Buyer).await.unwrap(), LeaveOutcome::Offered);
        write_all(&fixture).await;
        sweep(&fixture).await;
        let states = fixture.sql.run("SELECT state FROM line_entries ORDER BY order_no", vec![]).await.unwrap();
        assert_eq!(format!("{states:?}").matches("ended").count(), 2, "{ledger}: {states:?}");
        assert_eq!(format!("{states:?}").matches("offered").count(), 1, "{ledger}: {states:?}");
    }
}

#[tokio::test]
async fn a_pause_stops_offers_and_a_late_payment_takes_nothing_from_the_line() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 2).await;
        join(&fixture, 3).await;
        write_all(&fixture).await;
        fixture.set_state(ActivityState::Paused).await;
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        sweep(&fixture).await;
        assert_eq!(find(&fixture, 3).await.status, Waiting, "{ledger}");
        let late = fixture.payment_succeeded(&fixture.order_no(1), "late").await.unwrap();
        assert_ne!(late, CallbackEffect::NoChange, "{ledger}: it is refunded");
        fixture.set_state(ActivityState::Published).await;
        assert_eq!(find(&fixture, 3).await.status, Queued, "{ledger}");
        write_all(&fixture).await;
        sweep(&fixture).await;
    }
}

#[tokio::test]
async fn a_rebuild_restores_the_line_in_its_order() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        for n in [4, 2, 3] {
            join(&fixture, n).await;
        }
        let entry = join(&fixture, 5).await;
        line::leave(&fixture.redis, &entry, Leaver::Buyer).await.unwrap();
        write_all(&fixture).await;
        fixture.delete_redis_keys().await;
        let waits = Order { order_no: fixture.order_no(4), ..entry };
        assert_eq!(
            line::leave(&fixture.redis, &waits, Leaver::Buyer).await.unwrap(),
            LeaveOutcome::Unknown,
            "{ledger}"
        );
        let rebuilt = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert!(matches!(rebuilt, RebuildOutcome::Done { .. }), "{rebuilt:?}");
        sweep(&fixture).await;
        for (n, ahead) in [(4, Some(0)), (2, Some(1)), (3, Some(2))] {
            assert_eq!(
                (find(&fixture, n).await.status, find(&fixture, n).await.ahead),
                (Waiting, ahead),
                "{ledger}: {n}"
            );
        }
        // Who left is not let in again by a repeat of the request.
        let repeated = join(&fixture, 5).await;
        assert_eq!((repeated.status, repeated.reason.as_deref()), (Cancelled, Some("left_line")), "{ledger}");
        assert_eq!(find(&fixture, 5).await.status, Cancelled, "{ledger}");
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        write_all(&fixture).await;
        assert_eq!(statuses(&fixture, 2..=4).await, [Waiting, Waiting, PendingPayment], "{ledger}");
    }
}

#[tokio::test]
async fn a_user_who_joins_again_before_the_writer_came_holds_up_no_batch() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 2).await;
        fixture.change_spec(|spec| (spec.line.mode, spec.line.max_units) = (LineMode::Waitlist, Some(5))).await;
        fixture.pending_order(1, "user 1", 1).await;
        join(&fixture, 2).await;
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        // Offered, and not written, they wait for a second unit.
        let again = fixture.reserve(3, "user 2", 1).await.unwrap().outcome;
        assert!(matches!(again, ReserveOutcome::Queued(order) if order.status == Waiting), "{ledger}");
        write_all(&fixture).await;
        sweep(&fixture).await;
        assert_eq!(find(&fixture, 2).await.status, PendingPayment, "{ledger}");
        let user = UserId::parse("user 2").unwrap();
        let second = load_order_of(&fixture.redis, &fixture.order_no(3), &user).await.unwrap().order.unwrap();
        assert_eq!(second.status, Waiting, "{ledger}");
    }
}

#[tokio::test]
async fn a_line_that_lost_its_head_is_rebuilt_before_anybody_is_served() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        for n in [2, 3] {
            join(&fixture, n).await;
        }
        write_all(&fixture).await;
        // Redis forgets the first in line, but for a ghost without an entry.
        fixture.run_redis(&["HDEL", &fixture.key("entries"), "user 2"]).await;
        fixture.run_redis(&["ZREM", &fixture.key("line:phone"), "user 2"]).await;
        fixture.run_redis(&["HSET", &fixture.key("stats"), "waiting:phone", "1"]).await;
        fixture.run_redis(&["ZADD", &fixture.key("line:phone"), "1", "a ghost"]).await;
        let (services, clock) = (Services::accepting(), || NOW);
        for _ in 0..2 {
            completed(sweeper((&fixture.redis, &fixture.sql), &services, &clock).run(NOW).await);
        }
        assert_eq!(statuses(&fixture, 2..=3).await, [Waiting, Waiting], "{ledger}");
        assert_eq!(find(&fixture, 3).await.ahead, Some(1), "{ledger}");
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        assert_eq!(statuses(&fixture, 2..=3).await, [Queued, Waiting], "{ledger}");
    }
}

#[tokio::test]
async fn a_ghost_at_the_head_holds_nobody_up() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        join(&fixture, 2).await;
        fixture.run_redis(&["ZADD", &fixture.key("line:phone"), "1", "a ghost"]).await;
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        assert_eq!(find(&fixture, 2).await.status, Queued, "{ledger}");
    }
}
