//! Tests of `lua/reserve.lua`: each reservation is one atomic decision (C1, C2, C3, B3, B4; I1, I3, I7).

use domain::{http::problem::Code, ids::OrderNo, money::Money, time::Millis};
use orders::status::load_order;
use sale::reserve::{ReserveOutcome, ReserveRequest, reserve};
use stores::{
    Redis,
    keys::Keys,
    ports::{RedisArg, RedisValue},
};
use ulid::Ulid;

use crate::fixture::new_fixture;

#[tokio::test]
async fn no_user_holds_more_than_the_limit() {
    let fixture = new_fixture("sqlite", 100, 3).await;
    let attempts = futures::future::join_all((0..50).map(|n| fixture.reserve(n, "ada", 2))).await;
    let outcomes: Vec<_> = attempts.into_iter().map(|reply| reply.unwrap().outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, ReserveOutcome::Queued(_))).count(), 1);
    let refused = ReserveOutcome::Refused(Code::LimitReached, 0);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == refused).count(), 49);
    assert_eq!(fixture.units().await, (98, 2, 0));
}

#[tokio::test]
async fn a_ticket_makes_one_order_and_repeats_its_first_response() {
    let fixture = new_fixture("sqlite", 10, 5).await;
    let outcomes = futures::future::join_all((0..50).map(|_| fixture.reserve(7, "ada", 2))).await;
    let outcomes: Vec<_> = outcomes.into_iter().map(|reply| reply.unwrap().outcome).collect();
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0] && matches!(outcome, ReserveOutcome::Queued(_))));
    assert_eq!(fixture.reserve(7, "ada", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::TicketConflict, 0));
    assert_eq!(fixture.units().await, (8, 2, 0));
}

#[tokio::test]
async fn a_reservation_of_more_than_is_left_is_told_what_is_left() {
    let fixture = new_fixture("sqlite", 3, 3).await;
    assert_eq!(fixture.refusal(1, "ada", 2).await, None);
    assert_eq!(fixture.reserve(2, "bob", 2).await.unwrap().outcome, ReserveOutcome::InsufficientStock(1));
    assert_eq!(fixture.refusal(2, "bob", 1).await, None, "the ticket was not used");
    for quantity in [1, 2] {
        assert_eq!(fixture.refusal(3, "cyd", quantity).await, Some(Code::SoldOut));
    }
    assert_eq!(fixture.refusal(1, "ada", 2).await, None, "a repeat");
    assert_eq!(fixture.units().await, (0, 3, 0));
}

#[tokio::test]
async fn no_order_has_another_amount_than_the_buyer_was_shown() {
    let fixture = new_fixture("sqlite", 3, 3).await;
    let outcome = async |amount| {
        let request = ReserveRequest { amount, ..fixture.reservation(1, "ada", 2) };
        reserve(&fixture.redis, &request, false).await.unwrap().outcome
    };
    assert_eq!(outcome(Some(100)).await, ReserveOutcome::PriceChanged(Money::new(200, "EUR")));
    assert_eq!(fixture.units().await, (3, 0, 0));
    for amount in [Some(200), None, Some(100)] {
        let ReserveOutcome::Queued(order) = outcome(amount).await else {
            panic!("{amount:?}: the ticket was not used, then its order is repeated")
        };
        assert_eq!(order.money, Money::new(200, "EUR"));
    }
    assert_eq!(fixture.units().await, (1, 2, 0));
}

#[tokio::test]
async fn missing_counters_are_not_ready_and_the_stock_is_never_created() {
    let fixture = new_fixture("sqlite", 5, 1).await;
    fixture.run_redis(&["DEL", &fixture.key("stats")]).await;
    assert_eq!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::NotReady, 0));
    let exists = fixture.run_redis(&["HEXISTS", &fixture.key("stats"), "left:phone"]).await;
    assert_eq!(exists, [stores::ports::RedisValue::Int(0)]);
}

#[tokio::test]
async fn unlimited_stock_never_runs_out() {
    let fixture = new_fixture("sqlite", -1, 1_000).await;
    for n in 0..20 {
        assert_eq!(fixture.refusal(n, "ada", 50).await, None);
    }
    assert_eq!(fixture.units().await, (-1, 1_000, 0));
}

#[tokio::test]
async fn a_reservation_that_reaches_redis_too_late_changes_nothing_and_can_be_repeated() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let keys = Keys::of(&fixture.activity);
    let now = fixture.reserve(1, "ada", 2).await.unwrap().now;
    let late = ReserveRequest { decide_until: now.plus(-1), ..fixture.reservation(2, "bob", 1) };
    let outcome = reserve(&fixture.redis, &late, true).await.unwrap().outcome;
    assert_eq!(outcome, ReserveOutcome::Refused(Code::Overloaded, 1_000));
    assert_eq!(fixture.units().await, (1, 0, 0));
    let written = [keys.named("queued"), keys.named("holders")].map(RedisArg::from);
    assert_eq!(fixture.redis.command("EXISTS", written.into()).await.unwrap(), [RedisValue::Int(0)]);
    assert_eq!(fixture.run_redis(&["XLEN", &keys.named("orders")]).await, [RedisValue::Int(0)]);
    let again = ReserveRequest { decide_until: now.plus(600_000), ..late };
    assert!(matches!(reserve(&fixture.redis, &again, true).await.unwrap().outcome, ReserveOutcome::Queued(_)));
    // The answer to a used ticket comes too late as well.
    let replay = ReserveRequest { decide_until: now.plus(-1), ..again };
    let outcome = reserve(&fixture.redis, &replay, true).await.unwrap().outcome;
    assert_eq!(outcome, ReserveOutcome::Refused(Code::Overloaded, 1_000));
}

#[tokio::test]
async fn redis_proves_that_a_young_order_does_not_exist_while_its_gate_is_complete() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let gate = fixture.key("gate");
    let now = fixture.reserve(1, "ada", 1).await.unwrap().now;
    let proves_absence = async |issued_at: Millis| {
        let ticket = Ulid::from_parts(issued_at.0.unsigned_abs(), 7);
        let order_no = OrderNo::new(fixture.activity.clone(), ticket);
        load_order(&fixture.redis, &order_no).await.unwrap().proves_absence(&order_no)
    };
    assert!(proves_absence(now.plus(-3_500_000)).await);
    assert!(!proves_absence(now.plus(-3_600_000)).await, "a record may have expired");
    assert!(!load_order(&fixture.redis, &fixture.order_no(1)).await.unwrap().proves_absence(&fixture.order_no(1)));
    fixture.run_redis(&["HSET", &gate, "restoring", "1"]).await;
    assert!(!proves_absence(now).await, "while Redis is restored");
    fixture.run_redis(&["DEL", &gate]).await;
    assert!(!proves_absence(now).await, "without a gate");
}
