//! Operators who change a sale while others do, or while Redis and the ledger disagree (C7, C9, B9).

use std::cell::{Cell, RefCell};

use domain::{
    activity::State,
    ids::{ActivityId, UserId},
    time::Millis,
};
use workflows::{
    Redis, Sql, StoreError,
    cache::warm_up::{WarmUpOutcome, warm_up},
    hot::reserve::Outcome,
    keys::Keys,
    ledger::activities::{self, Activity, Saved},
    operator::activities::{OperationOutcome, OperatorContext},
    ports::{Arg, Item},
    recovery::sweep,
    reply::Reply,
};

use crate::{
    epochs::{Real, lose_redis, pause, resume},
    fixture::{LEDGERS, NOW, SECRET, world},
    interleaving::{Interrupted, at_every_moment},
    stores::RealRedis,
};

/// When a change that was made at [`NOW`] is no longer under way.
const LATER: Millis = Millis(NOW.0 + 10_000);

fn desk<'a, R, S>(redis: &'a R, sql: &'a S) -> OperatorContext<'a, R, S> {
    OperatorContext { redis, sql, ticket_secret: SECRET, now: NOW, nonce: "nonce".to_owned() }
}

impl Real {
    /// State and total of the ledger's sale, which the gate has too.
    async fn agreed(&self, moment: &str) -> (State, i64) {
        let sale = activities::load(&self.sql, &self.activity).await.unwrap().unwrap();
        let (state, total) = (sale.state, sale.spec.skus[0].total);
        let fields = vec![Keys::of(&self.activity).named("gate").into(), "state".into(), "total:phone".into()];
        let gate = self.redis.command("HMGET", fields).await.unwrap();
        let words = [state.as_str().to_owned(), total.to_string()];
        assert_eq!(gate, words.map(|word| Item::Bytes(word.into_bytes())), "{moment}: gate and ledger");
        (state, total)
    }
}

#[tokio::test]
async fn a_pause_at_any_moment_of_a_lowering_stays_and_is_never_undone() {
    at_every_moment(
        async |ledger| world(ledger, 10, 5).await,
        async |redis, sql, world| {
            desk(redis, sql).restock(&world.activity, &world.sku, -1, None).await.unwrap();
        },
        pause,
        async |world, moment| assert_eq!(world.agreed(moment).await.0, State::Paused, "{moment}"),
    )
    .await;
}

#[tokio::test]
async fn a_lowering_in_vain_undoes_no_pause_that_is_on_its_way_to_redis() {
    let (paused, times) = (Cell::new(false), Cell::new(0));
    at_every_moment(
        async |ledger| world(ledger, 10, 5).await,
        async |redis, sql, world| {
            desk(redis, sql).restock(&world.activity, &world.sku, -1, None).await.unwrap();
        },
        // The ledger's half of a pause: Redis has yet to hear of it.
        async |world| {
            let read = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
            let gate = vec![Keys::of(&world.activity).named("gate").into(), "version".into()];
            let gate = Reply::new(world.redis.command("HMGET", gate).await.unwrap()).int().unwrap();
            let version = read.version.max(gate) + 1;
            let pause = Activity { state: State::Paused, version, ..read.clone() };
            paused.set(activities::save(&world.sql, &pause, Some(&read), NOW).await.unwrap() == Saved::Whole);
            times.set(times.get() + i32::from(paused.get()));
        },
        async |world, moment| {
            let state = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().state;
            assert!(!paused.get() || state == State::Paused, "{moment}: {state:?}");
        },
    )
    .await;
    // Twice it came after all.
    assert!(times.get() > 2, "no pause came between");
}

#[tokio::test]
async fn two_lowerings_at_once_leave_what_the_ledger_says() {
    at_every_moment(
        async |ledger| world(ledger, 10, 5).await,
        async |redis, sql, world| {
            desk(redis, sql).restock(&world.activity, &world.sku, -1, None).await.unwrap();
        },
        async |world| {
            let lowered = world.desk().restock(&world.activity, &world.sku, -4, None).await.unwrap();
            assert!(matches!(lowered, OperationOutcome::Done(_)), "{lowered:?}");
        },
        async |world, moment| {
            let total = world.agreed(moment).await.1;
            assert!(total == 5 || total == 6, "{moment}: {total}");
            // Nobody takes the larger one of a change in vain over into the ledger.
            pause(world).await;
            assert_eq!(world.agreed(moment).await, (State::Paused, total), "{moment}");
        },
    )
    .await;
}

#[tokio::test]
async fn whoever_reads_a_sale_while_it_is_restocked_adds_to_the_restock_or_changes_nothing() {
    let read = RefCell::new(None);
    at_every_moment(
        async |ledger| world(ledger, 10, 5).await,
        async |redis, sql, world| {
            desk(redis, sql).restock(&world.activity, &world.sku, 1, None).await.unwrap();
        },
        async |world| *read.borrow_mut() = activities::load(&world.sql, &world.activity).await.unwrap(),
        async |world, moment| {
            let read = read.take().unwrap();
            let mut more = Activity { version: read.version + 1, ..read.clone() };
            more.spec.skus[0].total += 4;
            let saved = activities::save(&world.sql, &more, Some(&read), NOW).await.unwrap() == Saved::Whole;
            let now = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
            assert_eq!(now.spec.skus[0].total, if saved { 15 } else { 11 }, "{moment}");
        },
    )
    .await;
}

#[tokio::test]
async fn of_two_who_lower_a_total_alike_at_once_one_is_not_undone_by_the_other() {
    let done = Cell::new(0);
    at_every_moment(
        async |ledger| {
            done.set(0);
            let world = world(ledger, 10, 5).await;
            lose_redis(&world).await;
            world
        },
        async |redis, sql, world| {
            let lowered = desk(redis, sql).restock(&world.activity, &world.sku, -4, Some(10)).await.unwrap();
            done.set(done.get() + i32::from(matches!(lowered, OperationOutcome::Done(_))));
        },
        async |world| {
            let lowered = world.desk().restock(&world.activity, &world.sku, -4, Some(10)).await.unwrap();
            done.set(done.get() + i32::from(matches!(lowered, OperationOutcome::Done(_))));
        },
        async |world, moment| {
            let total = world.agreed(moment).await.1;
            assert_eq!((done.get(), total), (1, 6), "{moment}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_lowering_in_vain_puts_back_no_total_that_somebody_else_has_changed() {
    at_every_moment(
        async |ledger| world(ledger, 10, 5).await,
        async |redis, sql, world| {
            desk(redis, sql).restock(&world.activity, &world.sku, -1, None).await.unwrap();
        },
        async |world| {
            world.sql.run("UPDATE skus SET total = 15", Vec::new()).await.unwrap();
        },
        async |world, moment| {
            let total = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec.skus[0].total;
            assert!(total == 15 || total == 14, "{moment}: {total}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweeper_that_read_half_a_change_leaves_the_whole_one() {
    at_every_moment(
        async |ledger| {
            let world = world(ledger, 2, 1).await;
            world.sql.run("UPDATE activities SET version = version + 1", Vec::new()).await.unwrap();
            world
        },
        async |redis, sql, world| {
            let all = std::slice::from_ref(&world.activity);
            sweep::fence(redis, sql, all, SECRET, LATER, &mut sweep::Report::default()).await.unwrap();
        },
        async |world| {
            world.sql.run("UPDATE skus SET total = 5", Vec::new()).await.unwrap();
            let whole = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
            assert_eq!(warm_up(&world.redis, &whole, SECRET).await.unwrap(), WarmUpOutcome::Done);
        },
        async |world, moment| assert_eq!(world.agreed(moment).await, (State::Published, 5)),
    )
    .await;
}

#[tokio::test]
async fn a_pause_while_others_make_the_gate_stays() {
    let lost = async |ledger: &'static str| {
        let world = world(ledger, 10, 5).await;
        lose_redis(&world).await;
        world
    };
    let pausing = async |redis: &Interrupted<'_, _>, sql: &Interrupted<'_, _>, world: &Real| {
        let paused = desk(redis, sql).set_state(&world.activity, State::Paused).await.unwrap();
        assert!(matches!(paused, OperationOutcome::Done(_) | OperationOutcome::Conflict(_)), "{paused:?}");
    };
    at_every_moment(lost, pausing, resume, async |world, moment| {
        world.agreed(moment).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_that_the_ledger_refuses_leaves_the_sale_as_it_was() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        world.order(1, "ada", 1).await;
        world.order(2, "bob", 1).await;
        // As after a lost second: Redis counts less than the ledger holds.
        let stats = vec![Keys::of(&world.activity).named("stats").into(), "held:phone".into(), "-1".into()];
        world.redis.command("HINCRBY", stats).await.unwrap();
        let old = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
        let mut new = old.clone();
        "Another title".clone_into(&mut new.title);
        new.skus[0].total = 1;
        let refused = world.desk().put(&world.activity, new, None).await.unwrap();
        assert!(matches!(refused, OperationOutcome::Conflict(_)), "{ledger}: {refused:?}");
        assert_eq!(activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec, old, "{ledger}");
        assert_eq!(world.agreed(ledger).await, (State::Published, 2));
    }
}

#[tokio::test]
async fn a_draft_is_published_and_never_resumed() {
    for ledger in LEDGERS {
        let world = world(ledger, 4, 1).await;
        let (desk, draft) = (world.desk(), ActivityId::parse("half-written").unwrap());
        let load = async |id| activities::load(&world.sql, id).await.unwrap().unwrap();
        desk.put(&draft, load(&world.activity).await.spec, None).await.unwrap();
        assert!(matches!(desk.resume(&draft).await.unwrap(), OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(load(&draft).await.state, State::Draft, "{ledger}");
        pause(&world).await;
        assert!(matches!(desk.resume(&world.activity).await.unwrap(), OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(world.agreed(ledger).await.0, State::Published);
    }
}

#[tokio::test]
async fn what_buyers_may_hold_is_not_lowered_once_they_may() {
    for ledger in LEDGERS {
        let world = world(ledger, 4, 2).await;
        world.reserve(1, "ada", 2).await.unwrap();
        let put = async |per_user| {
            let mut spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
            spec.per_user = per_user;
            world.desk().put(&world.activity, spec, None).await.unwrap()
        };
        assert!(matches!(put(1).await, OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(world.write().await.unwrap().failed, 0, "{ledger}");
        assert!(matches!(put(3).await, OperationOutcome::Done(_)), "{ledger}");
        assert!(matches!(world.reserve(2, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
    }
}

#[tokio::test]
async fn a_sale_that_counts_too_much_is_paused_and_restocked_all_the_same() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        world.order(1, "ada", 1).await;
        world.order(2, "bob", 1).await;
        // As after a lost second: a unit was sold again, and the ledger has not refused the second order yet.
        let stats = Keys::of(&world.activity).named("stats");
        let count = async |units: &str| {
            let args = vec![stats.clone().into(), "held:phone".into(), units.into()];
            world.redis.command("HINCRBY", args).await.unwrap();
        };
        count("1").await;
        let desk = world.desk();
        for state in [State::Paused, State::Published] {
            let became = desk.set_state(&world.activity, state).await.unwrap();
            assert!(matches!(became, OperationOutcome::Done(_)), "{ledger}: {became:?}");
        }
        let lowered = desk.restock(&world.activity, &world.sku, -1, None).await.unwrap();
        assert!(matches!(lowered, OperationOutcome::Conflict(_)), "{ledger}: {lowered:?}");
        let decision = world.reserve(3, "cyd", 1).await.unwrap();
        assert!(matches!(decision.outcome, Outcome::SoldOut(_)), "{ledger}: {decision:?}");
        assert!(
            matches!(desk.restock(&world.activity, &world.sku, 1, None).await.unwrap(), OperationOutcome::Done(_)),
            "{ledger}"
        );
        count("-1").await;
        assert!(
            matches!(desk.restock(&world.activity, &world.sku, 1, None).await.unwrap(), OperationOutcome::Done(_)),
            "{ledger}"
        );
        assert_eq!(world.units().await, (2, 2, 0), "{ledger}");
    }
}

/// A Redis that runs no script.
struct Scriptless<'a>(&'a RealRedis);

impl Redis for Scriptless<'_> {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        if name.starts_with("EVAL") {
            return Err(StoreError::RedisUnavailable("no script runs".to_owned()));
        }
        self.0.command(name, args).await
    }
}

#[tokio::test]
async fn a_change_that_did_not_get_to_redis_is_brought_there_by_the_sweeper() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let scriptless = Scriptless(&world.redis);
        let half = desk(&scriptless, &world.sql);
        // Added once, whatever Redis says: who is told that it failed asks again.
        let restocked = half.restock(&world.activity, &world.sku, 3, None).await.unwrap();
        assert!(matches!(restocked, OperationOutcome::Done(_)), "{ledger}: {restocked:?}");
        assert!(half.set_state(&world.activity, State::Paused).await.is_err(), "{ledger}");
        let mut report = sweep::Report::default();
        let all = std::slice::from_ref(&world.activity);
        let mut swept = async |now| {
            sweep::fence(&world.redis, &world.sql, all, SECRET, now, &mut report).await.unwrap();
            report.preheated
        };
        assert_eq!(swept(NOW).await, 0, "{ledger}: whoever makes a change may still be at it");
        assert_eq!(swept(LATER).await, 1, "{ledger}");
        assert_eq!(world.agreed(ledger).await, (State::Paused, 5));
        assert_eq!(swept(LATER).await, 1, "{ledger}: once");
        lose_redis(&world).await;
        swept(LATER).await;
        assert_eq!(report.without_gate, 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_restock_that_is_asked_for_twice_adds_once_where_it_says_from_what() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let restock = async |from| world.desk().restock(&world.activity, &world.sku, 3, Some(from)).await.unwrap();
        assert!(matches!(restock(2).await, OperationOutcome::Done(_)), "{ledger}");
        let OperationOutcome::Conflict(detail) = restock(2).await else { panic!("{ledger}: added twice") };
        assert!(detail.contains("is 5, not 2"), "{ledger}: {detail}");
        assert_eq!(world.agreed(ledger).await, (State::Published, 5));
        assert!(matches!(restock(5).await, OperationOutcome::Done(_)), "{ledger}");
    }
}

#[tokio::test]
async fn a_description_of_a_version_changes_no_later_one() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let Activity { spec, version, .. } = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
        world.desk().restock(&world.activity, &world.sku, 3, None).await.unwrap();
        let put = async |read| world.desk().put(&world.activity, spec.clone(), Some(read)).await.unwrap();
        assert!(matches!(put(version).await, OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(world.agreed(ledger).await, (State::Published, 5));
        assert!(matches!(put(version + 1).await, OperationOutcome::Done(_)), "{ledger}");
        let new = ActivityId::parse("another").unwrap();
        assert!(
            matches!(world.desk().put(&new, spec.clone(), Some(1)).await.unwrap(), OperationOutcome::Conflict(_)),
            "{ledger}"
        );
    }
}

/// A Redis that counts what it is asked.
struct Counting<'a>(&'a RealRedis, Cell<usize>);

impl Redis for Counting<'_> {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        self.1.set(self.1.get() + 1);
        self.0.command(name, args).await
    }
}

#[tokio::test]
async fn thousands_of_bans_reach_a_sale_in_few_calls() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let far = 4_000_000_000_000;
        let rows = (0..2_500).map(|n| format!("('user', 'robot-{n}', {far}, 'a robot')")).collect::<Vec<_>>().join(",");
        let statement = format!("INSERT INTO bans (kind, name, until, reason) VALUES {rows}");
        world.sql.run(&statement, Vec::new()).await.unwrap();
        let counting = Counting(&world.redis, Cell::new(0));
        let paused = desk(&counting, &world.sql).set_state(&world.activity, State::Paused).await.unwrap();
        assert!(matches!(paused, OperationOutcome::Done(_)), "{ledger}: {paused:?}");
        assert!(counting.1.get() < 20, "{ledger}: {} calls", counting.1.get());
        for robot in [0, 999, 1_000, 2_499] {
            let ban = Keys::of(&world.activity).ban_user(&UserId::parse(&format!("robot-{robot}")).unwrap());
            let until = world.redis.command("PEXPIRETIME", vec![ban.into()]).await.unwrap();
            assert_eq!(until, [Item::Int(far)], "{ledger}: {robot}");
        }
    }
}
