//! Tests of `lua/reserve.lua`: each reservation is one atomic decision (C1, C2, C3, B3, B4; I1, I3, I7).

use domain::{activity::ActivityState, order::OrderStatus, problem::Code};
use workflows::{
    Redis,
    hot::{reserve::ReserveOutcome, winners::Winners},
    keys::Keys,
    ports::RedisValue,
    queue::dead_letters::{self, RequeueOutcome},
    recovery::rebuild::RebuildOutcome,
};

use crate::fixture::{LEDGERS, RealFixture, WHOLE_REBUILD, new_fixture};

#[tokio::test]
async fn the_last_unit_is_sold_once() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let attempts = (0..200).map(|n| fixture.reserve(n, ["a", "b", "c"][n as usize % 3], 1));
    let won = futures::future::join_all(attempts).await.into_iter();
    let won = won.filter(|reply| matches!(reply.as_ref().unwrap().outcome, ReserveOutcome::Queued(_))).count();
    assert_eq!(won, 1);
    assert_eq!(fixture.units().await, (0, 1, 0));
}

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
async fn the_ticket_of_a_released_order_stays_used() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let order_no = fixture.pending_order(1, "ada", 1).await;
    fixture.cancel(&order_no).await.unwrap();
    assert!(
        matches!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)),
        "the first answer again"
    );
    assert_eq!(fixture.units().await, (1, 0, 0), "and no second order");
}

#[tokio::test]
async fn a_refused_ticket_can_be_used_later() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let first = fixture.pending_order(1, "ada", 1).await;
    assert!(matches!(fixture.reserve(2, "bob", 1).await.unwrap().outcome, ReserveOutcome::SoldOut(_)));
    fixture.cancel(&first).await.unwrap();
    assert!(matches!(fixture.reserve(2, "bob", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)));
}

#[tokio::test]
async fn a_missing_stock_key_is_not_ready_and_never_created() {
    let fixture = new_fixture("sqlite", 5, 1).await;
    let stock = Keys::of(&fixture.activity).stock(&fixture.sku);
    fixture.redis.command("DEL", vec![stock.clone().into()]).await.unwrap();
    assert_eq!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Refused(Code::NotReady, 0));
    let exists = fixture.redis.command("EXISTS", vec![stock.into()]).await.unwrap();
    assert_eq!(exists, [workflows::ports::RedisValue::Int(0)]);
}

#[tokio::test]
async fn unlimited_stock_never_runs_out() {
    let fixture = new_fixture("sqlite", -1, 1_000).await;
    for n in 0..20 {
        assert!(matches!(fixture.reserve(n, "ada", 50).await.unwrap().outcome, ReserveOutcome::Queued(_)));
    }
    assert_eq!(fixture.units().await, (-1, 1_000, 0));
}

#[tokio::test]
async fn sold_out_tells_winners_from_others() {
    // The larger bitmap does not fit into the script's reply.
    for total in [300, 20_000] {
        let fixture = new_fixture("sqlite", total, 1).await;
        for n in 0..300 {
            assert!(is_queued(&fixture.reserve(n * 7, &format!("user-{n}"), 1).await.unwrap().outcome));
        }
        let winners = winners_after_sold_out(&fixture).await;
        assert_eq!(winners.bytes(), if total == 300 { 2 << 10 } else { 128 << 10 });
        assert!(
            (0..300).all(|n| winners.may_contain(fixture.order_no(n * 7).ulid())),
            "a winner of {total} is missing"
        );
        let others = (0..2_100).filter(|n| n % 7 != 0);
        assert_eq!(others.filter(|n| winners.may_contain(fixture.order_no(*n).ulid())).count(), 0);
    }
}

#[tokio::test]
async fn winners_are_kept_when_units_are_added_and_when_redis_is_rebuilt() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let cancelled = fixture.pending_order(1, "ada", 1).await;
        fixture.cancel(&cancelled).await.unwrap();
        fixture.paid_order(2, "bob").await;
        let size = async || winners_size(&fixture).await;
        assert_eq!(size().await, 1 << 10, "{ledger}");
        fixture.operator().restock(&fixture.activity, &fixture.sku, 1_000, None).await.unwrap();
        assert_eq!(size().await, 4 << 10, "{ledger}");
        // Ticket 9,003 has the same bit as ticket 811 in the first bitmap, and another one in the second.
        fixture.pending_order(9_003, "cyd", 1).await;
        let all_are_winners = async |state: &str| {
            let winners = winners_after_sold_out(&fixture).await;
            for n in [1, 2, 9_003] {
                assert!(winners.may_contain(fixture.order_no(n).ulid()), "{ledger}: {n} is missing {state}");
            }
            assert!(![3, 811].iter().any(|n| winners.may_contain(fixture.order_no(*n).ulid())), "{ledger} {state}");
        };
        all_are_winners("after the restock").await;
        fixture.operator().set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
        for lost in [&["winners"][..], &["gate", "winners"], &["gate"]] {
            for name in lost {
                fixture.redis.command("DEL", vec![Keys::of(&fixture.activity).named(name).into()]).await.unwrap();
            }
            let done = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
            assert!(matches!(done, RebuildOutcome::Done { .. }), "{ledger}: {done:?}");
            fixture.operator().set_state(&fixture.activity, ActivityState::Published).await.unwrap();
            all_are_winners(&format!("after {lost:?} were lost")).await;
            fixture.operator().set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
        }
        let ttl = fixture.redis.command("PTTL", vec![Keys::of(&fixture.activity).named("winners").into()]).await;
        assert!(matches!(ttl.unwrap()[..], [RedisValue::Int(1..)]), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_is_replayed_or_paid_late_is_a_winner_although_redis_lost_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let keys = Keys::of(&fixture.activity);
        // The ledger has room for one of two orders: the other one becomes a dead letter.
        fixture
            .redis
            .command("SET", vec![keys.stock(&fixture.sku).into(), "2".into(), "KEEPTTL".into()])
            .await
            .unwrap();
        fixture.reserve(1, "ada", 1).await.unwrap();
        fixture.reserve(2, "bob", 1).await.unwrap();
        assert_eq!(fixture.write_batch().await.unwrap().failed, 1, "{ledger}");
        let (cancelled, failed) = (fixture.order_no(1), fixture.order_no(2));
        fixture.cancel(&cancelled).await.unwrap();
        fixture.operator().restock(&fixture.activity, &fixture.sku, 5, None).await.unwrap();
        let empty = vec![keys.named("winners").into(), vec![0; 1 << 10], "KEEPTTL".into()];
        fixture.redis.command("SET", empty).await.unwrap();
        for order_no in [&cancelled, &failed] {
            fixture.redis.command("DEL", vec![keys.order(order_no.ulid()).into()]).await.unwrap();
        }
        fixture.payment_succeeded(&cancelled, "late").await.unwrap();
        assert_eq!(fixture.redis_status(&cancelled).await, Some(OrderStatus::Paid), "{ledger}");
        let requeued = dead_letters::requeue(&fixture.redis, &fixture.sql, &failed).await.unwrap();
        assert_eq!(requeued, RequeueOutcome::Queued, "{ledger}");
        let winners = winners_after_sold_out(&fixture).await;
        let are_winners = [1, 2, 3].map(|n| winners.may_contain(fixture.order_no(n).ulid()));
        assert_eq!(are_winners, [true, true, false], "{ledger}");
    }
}

#[tokio::test]
async fn without_the_bitmap_every_ticket_may_have_won_and_orders_are_accepted() {
    let fixture = new_fixture("sqlite", 2, 1).await;
    fixture.pending_order(1, "ada", 1).await;
    fixture.redis.command("DEL", vec![Keys::of(&fixture.activity).named("winners").into()]).await.unwrap();
    fixture.pending_order(2, "bob", 1).await;
    // A change by an operator must not make an empty bitmap that lacks both.
    fixture.operator().restock(&fixture.activity, &fixture.sku, 1, None).await.unwrap();
    fixture.pending_order(3, "cyd", 1).await;
    let winners = winners_after_sold_out(&fixture).await;
    assert!((1..=4).all(|n| winners.may_contain(fixture.order_no(n).ulid())));
}

#[tokio::test]
async fn only_a_request_for_the_gate_reads_the_winners() {
    let fixture = new_fixture("sqlite", 0, 1).await;
    let reservation = fixture.reservation(1, "ada", 1);
    let outcome = workflows::hot::reserve::reserve(&fixture.redis, &reservation, false).await.unwrap().outcome;
    assert_eq!(outcome, ReserveOutcome::SoldOut(None));
}

fn is_queued(outcome: &ReserveOutcome) -> bool {
    matches!(outcome, ReserveOutcome::Queued(_))
}

/// The bitmap that the refusal of more units than are left carries.
async fn winners_after_sold_out(fixture: &RealFixture) -> Winners {
    let stock = Keys::of(&fixture.activity).stock(&fixture.sku);
    let left = fixture
        .redis
        .command("SET", vec![stock.clone().into(), "0".into(), "KEEPTTL".into(), "GET".into()])
        .await
        .unwrap();
    let outcome = fixture.reserve(1_000_000, "zoe", 1).await.unwrap().outcome;
    let [RedisValue::Bytes(left)] = &left[..] else { panic!("{left:?}") };
    fixture.redis.command("SET", vec![stock.into(), left.clone(), "KEEPTTL".into()]).await.unwrap();
    let ReserveOutcome::SoldOut(Some(winners)) = outcome else { panic!("{outcome:?}") };
    winners
}

/// Size of the bitmap in bytes.
async fn winners_size(fixture: &RealFixture) -> i64 {
    let size =
        fixture.redis.command("STRLEN", vec![Keys::of(&fixture.activity).named("winners").into()]).await.unwrap();
    let [RedisValue::Int(size)] = size[..] else { panic!("{size:?}") };
    size
}
