//! `lua/precheck.lua` and `lua/admit.lua`: who may ask, and whose human check counts (B4–B6).

use domain::{
    activity::{Limit, Limits, State},
    check::Proof,
    ids::UserId,
    problem::Code,
    time::Millis,
};
use workflows::{
    Redis,
    hot::{
        admission::{Check, SUSPICIOUS, Visitor, admit, precheck},
        reserve::{Outcome, Reservation, reserve},
    },
    ledger::activities,
    operator::{
        activities::OperationOutcome,
        bans::{self, Banned},
    },
};

use crate::{
    fixture::{NOW, World, world},
    stores::{RealLedger, RealRedis},
};

type RealWorld = World<RealRedis, RealLedger>;

fn visitor(world: &RealWorld, user: &str, ip: &str) -> Visitor {
    let user = UserId::parse(user).unwrap();
    Visitor { activity: world.activity.clone(), user, ip: ip.to_owned(), abused: Vec::new() }
}

fn proof(id: &str) -> Proof {
    Proof { id: id.to_owned(), expires_at: NOW.plus(60_000) }
}

/// A sale where a user may ask this often in a minute.
async fn limited(user: i64) -> RealWorld {
    let world = world("sqlite", 10, 1).await;
    let mut spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
    let limits = Limits { user: Some(Some(Limit { count: user, seconds: 60 })), ip: Some(None), all: Some(None) };
    spec.limits = limits;
    assert!(matches!(world.desk().put(&world.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
    world
}

#[tokio::test]
async fn too_many_wishes_are_limited_and_then_banned_for_a_while() {
    let world = limited(5).await;
    let eager = visitor(&world, "eager", "192.0.2.1");
    let mut seen = Vec::new();
    for _ in 0..5 + 60 + 1 {
        seen.push(precheck(&world.redis, &eager, "ticket").await.unwrap().outcome);
    }
    assert_eq!(seen[..5], [Ok(0); 5]);
    assert!(
        seen[5..65].iter().all(|outcome| matches!(outcome, Err((Code::RateLimited, wait)) if *wait > 0)),
        "{seen:?}"
    );
    assert_eq!(seen[65], Err((Code::Banned, 0)));
    // A ban holds for reservations too, and for nobody else.
    assert_eq!(world.reserve(1, "eager", 1).await.unwrap().outcome, Outcome::Refused(Code::Banned, 0));
    let neighbour = visitor(&world, "calm", "192.0.2.1");
    assert!(precheck(&world.redis, &neighbour, "ticket").await.unwrap().outcome.is_ok());
    // It ends by itself, or when an operator lifts it; what remains is a bad name.
    bans::lift(&world.redis, &world.sql, &Banned::User(eager.user.clone())).await.unwrap();
    let score =
        precheck(&world.redis, &Visitor { ip: "192.0.2.9".to_owned(), ..eager }, "challenge").await.unwrap().outcome;
    assert!(score.is_ok_and(|score| score >= SUSPICIOUS), "{score:?}");
}

#[tokio::test]
async fn challenges_tickets_and_reservations_have_buckets_of_their_own() {
    let world = limited(1).await;
    let ada = visitor(&world, "ada", "192.0.2.1");
    for desk in ["challenge", "ticket"] {
        assert!(precheck(&world.redis, &ada, desk).await.unwrap().outcome.is_ok(), "{desk}");
        let again = precheck(&world.redis, &ada, desk).await.unwrap();
        assert!(matches!(again.outcome, Err((Code::RateLimited, _))), "{desk}: {again:?}");
        assert_eq!((again.policies[0].name.as_str(), again.policies[0].left), ("user", 0));
    }
    assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)));
}

#[tokio::test]
async fn a_check_counts_once_for_all_who_use_it_at_once() {
    let world = world("sqlite", 10, 1).await;
    let ada = visitor(&world, "ada", "192.0.2.1");
    let passed = Check::Passed(proof("one"));
    let tries = futures::future::join_all((0..5).map(|_| admit(&world.redis, &ada, &passed, NOW))).await;
    assert_eq!(tries.into_iter().filter(|admitted| *admitted.as_ref().unwrap()).count(), 1);
    // A puzzle that was answered wrongly cannot be answered rightly afterwards.
    assert!(!admit(&world.redis, &ada, &Check::Failed(Some(proof("two"))), NOW).await.unwrap());
    assert!(!admit(&world.redis, &ada, &Check::Passed(proof("two")), NOW).await.unwrap());
}

#[tokio::test]
async fn guessing_leads_to_a_ban_after_six_guesses() {
    let world = world("sqlite", 10, 1).await;
    let robot = visitor(&world, "robot", "192.0.2.1");
    for guess in 0..6 {
        assert!(precheck(&world.redis, &robot, "ticket").await.unwrap().outcome.is_ok(), "guess {guess}");
        let wrong = Check::Failed(Some(proof(&guess.to_string())));
        assert!(!admit(&world.redis, &robot, &wrong, NOW).await.unwrap());
    }
    assert_eq!(precheck(&world.redis, &robot, "ticket").await.unwrap().outcome, Err((Code::Banned, 0)));
}

#[tokio::test]
async fn bad_tickets_are_told_with_a_good_one_and_ban_their_address_alone() {
    let world = world("sqlite", 10, 5).await;
    let told = |abused: i64, n: u64| Reservation {
        order_no: world.order_no(n),
        user: UserId::parse("ada").unwrap(),
        sku: world.sku.clone(),
        quantity: 1,
        start_key: world.start_key.clone(),
        ip: "192.0.2.1".to_owned(),
        abused: vec![("203.0.113.7".to_owned(), abused), ("203.0.113.8".to_owned(), 1)],
    };
    let robot = visitor(&world, "robot", "203.0.113.7");
    assert!(matches!(reserve(&world.redis, &told(599, 1), false).await.unwrap().outcome, Outcome::Queued(_)));
    assert!(precheck(&world.redis, &robot, "ticket").await.unwrap().outcome.is_ok());
    assert!(matches!(reserve(&world.redis, &told(1, 2), false).await.unwrap().outcome, Outcome::Queued(_)));
    assert_eq!(precheck(&world.redis, &robot, "ticket").await.unwrap().outcome, Err((Code::Banned, 0)));
    let neighbour = visitor(&world, "calm", "203.0.113.8");
    assert!(precheck(&world.redis, &neighbour, "ticket").await.unwrap().outcome.is_ok());
    // A visit tells as well.
    let teller = Visitor { abused: vec![("203.0.113.9".to_owned(), 600)], ..neighbour };
    assert!(precheck(&world.redis, &teller, "ticket").await.unwrap().outcome.is_ok());
    let other = visitor(&world, "x", "203.0.113.9");
    assert_eq!(precheck(&world.redis, &other, "ticket").await.unwrap().outcome, Err((Code::Banned, 0)));
}

#[tokio::test]
async fn an_operators_ban_is_not_cut_short_by_one_of_our_own() {
    let world = world("sqlite", 10, 5).await;
    // An address of its own: operators ban in every sale.
    let robot = visitor(&world, "robot", "198.51.100.77");
    let far = Millis(4_000_000_000_000);
    bans::ban(&world.redis, &world.sql, &Banned::Ip(robot.ip.clone()), far, "a robot").await.unwrap();
    let teller = Visitor { abused: vec![(robot.ip.clone(), 600)], ..visitor(&world, "calm", "192.0.2.1") };
    precheck(&world.redis, &teller, "ticket").await.unwrap();
    let key = workflows::keys::Keys::of(&world.activity).ban_ip(&robot.ip);
    let ends = world.redis.command("PEXPIRETIME", vec![key.into()]).await.unwrap();
    assert_eq!(ends, [workflows::ports::Item::Int(far.0)]);
}

#[tokio::test]
async fn a_backlog_longer_than_the_bound_lets_nobody_in_and_takes_nothing() {
    let world = world("sqlite", 10, 5).await;
    let queue = workflows::keys::Keys::of(&world.activity).named("queue");
    // Sixty seconds is the bound: ten orders a second are written, and 601 wait.
    let set = |waiting: &str| {
        let args = ["enqueued", waiting, "written", "0", "rate", "10"];
        world
            .redis
            .command("HSET", [queue.clone()].into_iter().chain(args.map(str::to_owned)).map(Into::into).collect())
    };
    set("601").await.unwrap();
    let refused = world.reserve(1, "ada", 1).await.unwrap().outcome;
    assert_eq!(refused, Outcome::Refused(Code::Overloaded, 100));
    set("600").await.unwrap();
    assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)));
    // Whoever is in line already is told their place again, however long it has grown.
    set("100000").await.unwrap();
    assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)));
    assert_eq!(world.units().await.0, 9);
}

#[tokio::test]
async fn a_new_start_key_ends_the_old_one_at_once() {
    let world = world("sqlite", 10, 5).await;
    let desk = workflows::operator::activities::OperatorContext { nonce: "another".to_owned(), ..world.desk() };
    assert!(matches!(desk.rotate_start_key(&world.activity).await.unwrap(), OperationOutcome::Done(_)));
    let old = world.reserve(1, "ada", 1).await.unwrap();
    assert_eq!(old.outcome, Outcome::Refused(Code::StartKeyInvalid, 0));
    let key = domain::gate::start_key(crate::fixture::SECRET, &world.activity, "another").unwrap();
    assert_eq!(old.gate.map(|gate| gate.start_key), Some(key));
    // It stays when the sale is paused, resumed and published again.
    for state in [State::Paused, State::Published] {
        world.desk().set_state(&world.activity, state).await.unwrap();
    }
    assert_eq!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Refused(Code::StartKeyInvalid, 0));
}
