//! `lua/reserve.lua`: one atomic decision (C1–C3, B3, B4; I1, I3, I7).

use domain::problem::Code;
use workflows::hot::reserve::Outcome;

use crate::fixture::world;

#[tokio::test]
async fn the_last_unit_is_sold_once() {
    let world = world("sqlite", 1, 1).await;
    let tries = (0..200).map(|n| world.reserve(n, ["a", "b", "c"][n as usize % 3], 1));
    let won = futures::future::join_all(tries).await.into_iter();
    let won = won.filter(|decision| matches!(decision.as_ref().unwrap().outcome, Outcome::Queued(_))).count();
    assert_eq!(won, 1);
    assert_eq!(world.units().await, (0, 1, 0));
}

#[tokio::test]
async fn nobody_holds_more_than_the_limit() {
    let world = world("sqlite", 100, 3).await;
    let tries = futures::future::join_all((0..50).map(|n| world.reserve(n, "ada", 2))).await;
    let outcomes: Vec<_> = tries.into_iter().map(|decision| decision.unwrap().outcome).collect();
    assert_eq!(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Queued(_))).count(), 1);
    let refused = Outcome::Refused(Code::LimitReached, 0);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == refused).count(), 49);
    assert_eq!(world.units().await, (98, 2, 0));
}

#[tokio::test]
async fn a_ticket_makes_one_order_and_replays_its_first_answer() {
    let world = world("sqlite", 10, 5).await;
    let answers = futures::future::join_all((0..50).map(|_| world.reserve(7, "ada", 2))).await;
    let answers: Vec<_> = answers.into_iter().map(|decision| decision.unwrap().outcome).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0] && matches!(answer, Outcome::Queued(_))));
    assert_eq!(world.reserve(7, "ada", 1).await.unwrap().outcome, Outcome::Refused(Code::TicketConflict, 0));
    assert_eq!(world.units().await, (8, 2, 0));
}

#[tokio::test]
async fn a_released_ticket_stays_used() {
    let world = world("sqlite", 1, 1).await;
    let order_no = world.order(1, "ada", 1).await;
    world.cancel(&order_no).await.unwrap();
    assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)), "the first answer again");
    assert_eq!(world.units().await, (1, 0, 0), "and no second order");
}

#[tokio::test]
async fn a_refused_ticket_can_be_used_later() {
    let world = world("sqlite", 1, 1).await;
    let first = world.order(1, "ada", 1).await;
    assert!(matches!(world.reserve(2, "bob", 1).await.unwrap().outcome, Outcome::SoldOut(_)));
    world.cancel(&first).await.unwrap();
    assert!(matches!(world.reserve(2, "bob", 1).await.unwrap().outcome, Outcome::Queued(_)));
}

#[tokio::test]
async fn a_missing_stock_key_is_not_ready_and_never_made_on_the_fly() {
    use workflows::{Redis, keys::Keys};
    let world = world("sqlite", 5, 1).await;
    let stock = Keys::of(&world.activity).stock(&world.sku);
    world.redis.command("DEL", vec![stock.clone().into()]).await.unwrap();
    assert_eq!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Refused(Code::NotReady, 0));
    let exists = world.redis.command("EXISTS", vec![stock.into()]).await.unwrap();
    assert_eq!(exists, [workflows::ports::Item::Int(0)]);
}

#[tokio::test]
async fn unlimited_stock_never_runs_out() {
    let world = world("sqlite", -1, 1_000).await;
    for n in 0..20 {
        assert!(matches!(world.reserve(n, "ada", 50).await.unwrap().outcome, Outcome::Queued(_)));
    }
    assert_eq!(world.units().await, (-1, 1_000, 0));
}

#[tokio::test]
async fn sold_out_names_the_winners() {
    let world = world("sqlite", 2, 1).await;
    world.order(1, "ada", 1).await;
    world.order(2, "bob", 1).await;
    let Outcome::SoldOut(winners) = world.reserve(3, "cyd", 1).await.unwrap().outcome else { panic!("not sold out") };
    let print = |n| workflows::hot::reserve::fingerprint(world.order_no(n).ulid());
    assert_eq!(winners, [print(1), print(2)]);
}
