//! Tests of rebuilds in calls of bounded duration (G5; I1, I3, I5), each call with one batch of one or two orders.

use std::collections::HashSet;

use domain::{activity::ActivityState, order::OrderStatus};
use futures::future::join_all;
use operations::{
    commands::activities::{OperationOutcome, OperatorContext},
    upkeep::{
        budget::Budget,
        rebuild::{RebuildOutcome, Step, continue_interrupted},
    },
};
use sale::ledger::epochs;
use stores::{Redis, Sql, keys::Keys, ports::RedisValue};

use crate::{
    at_every_call::at_every_call,
    crash_points::{CrashingFixture, crash_at_every_call_and_recover},
    fixture::{LEDGERS, NOW, ONE_ORDER, TICKET_SECRET, WHOLE_REBUILD, new_fixture, rebuild_of},
    operations::epochs::{RealFixture, pause, resume},
};

/// One batch of two orders in each call.
const TWO_ORDERS: Budget = Budget { batch_size: 2, ..ONE_ORDER };

/// Calls until the rebuild is done. Returns the outcomes.
async fn rebuild_in_calls<R: Redis, S: Sql>(redis: &R, sql: &S, fixture: &RealFixture) -> Vec<RebuildOutcome> {
    let rebuild = rebuild_of(redis, sql, &fixture.activity, ONE_ORDER);
    let mut outcomes: Vec<RebuildOutcome> = Vec::new();
    for _ in 0..100 {
        let epoch = outcomes.last().and_then(|outcome| match outcome {
            RebuildOutcome::Running(progress) => Some(progress.epoch),
            _ => None,
        });
        outcomes.push(rebuild.run(epoch).await.unwrap());
        if !matches!(outcomes.last(), Some(RebuildOutcome::Running(_))) {
            return outcomes;
        }
    }
    panic!("a rebuild that never ends: {outcomes:?}");
}

/// Runs calls until the rebuild is done. Returns its orders and epoch.
async fn finish_rebuild(fixture: &RealFixture) -> (i64, i64) {
    match rebuild_in_calls(&fixture.redis, &fixture.sql, fixture).await.pop() {
        Some(RebuildOutcome::Done { orders, epoch }) => (orders, epoch),
        other => panic!("{other:?}"),
    }
}

/// Returns the buyers' units, as Redis counts them for the limit of each.
async fn holders(fixture: &RealFixture) -> Vec<i64> {
    join_all(["ada", "bob", "cyd"].map(|user| fixture.held_by(user))).await
}

/// Continues what was interrupted, as a sweep does `ms` milliseconds after [`NOW`].
async fn sweep_rebuilds(fixture: &RealFixture, ms: i64) -> Vec<RebuildOutcome> {
    let outcomes = continue_interrupted(&fixture.redis, &fixture.sql, TICKET_SECRET, NOW.plus(ms), ONE_ORDER).await;
    outcomes.unwrap().into_iter().map(|(_, outcome)| outcome.unwrap()).collect()
}

/// Runs a sweep every 11 s, more than those 10 s for which a request may continue its rebuild, until none has a rebuild to continue. Returns the outcomes.
async fn sweep_until_rebuilt(fixture: &RealFixture) -> Vec<RebuildOutcome> {
    let mut outcomes = Vec::new();
    for sweep in 1..100 {
        let continued = sweep_rebuilds(fixture, sweep * 11_000).await;
        if continued.is_empty() {
            return outcomes;
        }
        outcomes.extend(continued);
    }
    panic!("a rebuild that never ends: {outcomes:?}");
}

/// Ada holds a unit, bob has paid for one, and the order of cyd waits in the stream.
async fn sell_three(fixture: &RealFixture) {
    fixture.pending_order(1, "ada", 1).await;
    fixture.paid_order(2, "bob").await;
    fixture.reserve(4, "cyd", 1).await.unwrap();
    pause(fixture).await;
}

/// The same, and dee cancelled an order.
pub async fn set_up(fixture: &RealFixture) {
    let cancelled = fixture.pending_order(3, "dee", 1).await;
    fixture.cancel(&cancelled).await.unwrap();
    sell_three(fixture).await;
}

#[tokio::test]
async fn a_rebuild_continues_in_the_same_epoch_where_the_last_call_ended() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        set_up(&fixture).await;
        let outcomes = rebuild_in_calls(&fixture.redis, &fixture.sql, &fixture).await;
        assert_eq!(outcomes.last(), Some(&RebuildOutcome::Done { orders: 4, epoch: 2 }), "{ledger}: {outcomes:?}");
        let running: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                RebuildOutcome::Running(progress) => Some((progress.step, progress.orders, progress.total)),
                _ => None,
            })
            .collect();
        let restored: Vec<_> = running.iter().filter(|progress| progress.0 == Step::Restore).copied().collect();
        assert_eq!(restored, [1, 2, 3, 4].map(|orders| (Step::Restore, orders, 4)), "{ledger}");
        assert!(running.contains(&(Step::Backfill, 3, 4)), "{ledger}: {running:?}");
        assert_eq!(fixture.units().await, (7, 2, 1), "{ledger}");
        assert_eq!(holders(&fixture).await, [1, 1, 1], "{ledger}");
        resume(&fixture).await;
        fixture.pending_order(5, "eve", 1).await;
        assert_eq!(fixture.units().await, (6, 3, 1), "{ledger}");
    }
}

#[tokio::test]
async fn another_activity_sells_between_the_calls_of_a_rebuild() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 100, 2).await;
        set_up(&fixture).await;
        let first_key = fixture.start_key.clone();
        let first = fixture.publish_another(|_| {}).await;
        let rebuild = rebuild_of(&fixture.redis, &fixture.sql, &first, ONE_ORDER);
        let mut sold = 0;
        while matches!(rebuild.run(None).await.unwrap(), RebuildOutcome::Running(_)) {
            sold += 1;
            fixture.pending_order(sold, &format!("user {sold}"), 1).await;
        }
        assert!(sold >= 4, "{ledger}: {sold}");
        assert_eq!(fixture.units().await, (100 - sold as i64, sold as i64, 0), "{ledger}");
        (fixture.activity, fixture.start_key) = (first, first_key);
        assert_eq!(fixture.units().await, (97, 2, 1), "{ledger}");
    }
}

/// Crashes a rebuild in calls at each call of a store, and continues it.
async fn crash_in_calls_and_continue(prepare: impl AsyncFn(&RealFixture), check: impl AsyncFn(&RealFixture, &str)) {
    let rebuild = async |fixture: &CrashingFixture| {
        while matches!(fixture.rebuild(TWO_ORDERS).await?, RebuildOutcome::Running(_)) {}
        Ok(())
    };
    let continue_it = async |fixture: &RealFixture| {
        let outcome = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert!(matches!(outcome, RebuildOutcome::Done { .. }), "{outcome:?}");
    };
    crash_at_every_call_and_recover(10, prepare, rebuild, continue_it, check).await;
}

#[tokio::test]
async fn a_rebuild_in_calls_that_crashes_is_continued() {
    crash_in_calls_and_continue(
        async |fixture| sell_three(fixture).await,
        async |fixture, point| {
            assert_eq!(fixture.units().await, (7, 2, 1), "{point}");
            assert_eq!(holders(fixture).await, [1, 1, 1], "{point}");
            let rebuilds = fixture.sql.run("SELECT activity FROM rebuilds", vec![]).await.unwrap();
            assert_eq!(rebuilds.len(), 0, "{point}: the sweeper would continue");
        },
    )
    .await;
}

#[tokio::test]
async fn two_rebuilds_in_calls_at_once_count_every_unit_once() {
    let setup = async |ledger: &'static str| {
        let fixture = new_fixture(ledger, 10, 2).await;
        sell_three(&fixture).await;
        fixture
    };
    at_every_call(
        setup,
        async |redis, sql, fixture| {
            let outcomes = rebuild_in_calls(redis, sql, fixture).await;
            assert!(matches!(outcomes.last(), Some(RebuildOutcome::Done { orders: 3, .. })), "{outcomes:?}");
        },
        async |fixture| {
            let outcome = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
            assert!(matches!(outcome, RebuildOutcome::Done { orders: 3, .. }), "{outcome:?}");
        },
        async |fixture, point| {
            fixture.recover().await;
            assert_eq!(fixture.units().await, (7, 2, 1), "{point}");
            assert_eq!(holders(fixture).await, [1, 1, 1], "{point}");
            let index = fixture.key("index");
            let length = fixture.run_redis(&["STRLEN", &index]).await;
            assert_eq!(length, [RedisValue::Int(3 * 26)], "{point}: the index has each order once");
        },
    )
    .await;
}

#[tokio::test]
async fn a_caller_that_names_the_epoch_begins_no_second_rebuild() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        set_up(&fixture).await;
        let RebuildOutcome::Running(progress) = fixture.rebuild(ONE_ORDER).await.unwrap() else { panic!("{ledger}") };
        assert_eq!(progress.epoch, 2, "{ledger}");
        // Another request ends the rebuild, and the operator resumes the sale.
        assert_eq!(finish_rebuild(&fixture).await, (4, 2), "{ledger}");
        let repeat = async || {
            let rebuild = rebuild_of(&fixture.redis, &fixture.sql, &fixture.activity, ONE_ORDER);
            rebuild.run(Some(progress.epoch)).await.unwrap()
        };
        assert_eq!(repeat().await, RebuildOutcome::Done { orders: 4, epoch: 2 }, "{ledger}");
        resume(&fixture).await;
        assert_eq!(repeat().await, RebuildOutcome::Done { orders: 4, epoch: 2 }, "{ledger}");
        assert_eq!(epochs::load(&fixture.sql, &fixture.activity).await.unwrap(), 2, "{ledger}");
        assert_eq!(fixture.rebuild(ONE_ORDER).await.unwrap(), RebuildOutcome::Open, "{ledger}");
    }
}

#[tokio::test]
async fn the_sweeper_continues_an_interrupted_rebuild() {
    for ledger in LEDGERS {
        for calls_before in [1, 3, 5, 7] {
            let fixture = new_fixture(ledger, 10, 2).await;
            set_up(&fixture).await;
            for _ in 0..calls_before {
                assert!(matches!(fixture.rebuild(ONE_ORDER).await.unwrap(), RebuildOutcome::Running(_)), "{ledger}");
            }
            assert_eq!(sweep_rebuilds(&fixture, 9_000).await, [], "{ledger}: the request's rebuild");
            let outcomes = sweep_until_rebuilt(&fixture).await;
            let message = format!("{ledger}, {calls_before}: {outcomes:?}");
            assert_eq!(outcomes.last(), Some(&RebuildOutcome::Done { orders: 4, epoch: 2 }), "{message}");
            assert_eq!(fixture.units().await, (7, 2, 1), "{message}");
        }
    }
}

#[tokio::test]
async fn the_sweeper_leaves_a_rebuild_whose_activity_was_resumed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        set_up(&fixture).await;
        fixture.rebuild(ONE_ORDER).await.unwrap();
        resume(&fixture).await;
        assert_eq!(sweep_rebuilds(&fixture, 10_000).await, [RebuildOutcome::Open], "{ledger}");
        assert_eq!(sweep_rebuilds(&fixture, 20_000).await, [], "{ledger}");
        assert_eq!(fixture.units().await, (7, 2, 1), "{ledger}");
    }
}

/// Loses the Redis keys of an activity with written orders. Returns an operator whose calls rebuild one order each.
async fn lose_redis_keys(fixture: &RealFixture) -> OperatorContext<'_, impl Redis, impl Sql> {
    set_up(fixture).await;
    fixture.write_batch().await.unwrap();
    fixture.delete_redis_keys().await;
    OperatorContext { rebuild_budget: ONE_ORDER, ..fixture.operator() }
}

#[tokio::test]
async fn publishing_an_activity_whose_gate_is_gone_answers_while_it_is_rebuilt() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        let operator = lose_redis_keys(&fixture).await;
        let published = operator.set_state(&fixture.activity, ActivityState::Published).await.unwrap();
        let OperationOutcome::Rebuilding(activity, progress) = published else { panic!("{ledger}: {published:?}") };
        assert_eq!(activity.state, ActivityState::Published, "{ledger}");
        assert_eq!((progress.step, progress.orders, progress.total), (Step::Restore, 1, 4), "{ledger}");
        assert!(fixture.refusal(5, "eve", 1).await.is_some(), "{ledger}: sold before every order was counted");
        sweep_until_rebuilt(&fixture).await;
        fixture.pending_order(5, "eve", 1).await;
        assert_eq!(fixture.units().await, (6, 3, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_operators_change_during_a_rebuild_is_there_when_it_ends() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        let operator = lose_redis_keys(&fixture).await;
        operator.set_state(&fixture.activity, ActivityState::Published).await.unwrap();
        let restocked = operator.restock(&fixture.activity, &fixture.sku, 5, None).await.unwrap();
        assert!(matches!(restocked, OperationOutcome::Rebuilding(..)), "{ledger}: {restocked:?}");
        let paused = operator.set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
        assert!(matches!(paused, OperationOutcome::Rebuilding(..)), "{ledger}: {paused:?}");
        sweep_until_rebuilt(&fixture).await;
        assert!(fixture.refusal(5, "eve", 1).await.is_some(), "{ledger}: a paused sale sells");
        assert_eq!(fixture.units().await, (12, 2, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_cancelled_between_any_calls_of_a_rebuild_returns_its_unit_once() {
    for ledger in LEDGERS {
        for calls_before in 0..12 {
            let fixture = new_fixture(ledger, 10, 2).await;
            set_up(&fixture).await;
            for _ in 0..calls_before {
                fixture.rebuild(ONE_ORDER).await.unwrap();
            }
            fixture.cancel(&fixture.order_no(1)).await.unwrap();
            finish_rebuild(&fixture).await;
            fixture.recover().await;
            assert_eq!(fixture.units().await, (8, 1, 1), "{ledger}, {calls_before}");
        }
    }
}

#[tokio::test]
async fn a_rebuild_reads_no_keys_of_other_activities() {
    let fixture = new_fixture("sqlite", 10, 2).await;
    set_up(&fixture).await;
    finish_rebuild(&fixture).await;
    let info = fixture.run_redis(&["INFO", "commandstats"]).await;
    let [RedisValue::Bytes(info)] = &info[..] else { panic!("{info:?}") };
    let called: HashSet<_> = String::from_utf8_lossy(info)
        .lines()
        .filter_map(|line| Some(line.strip_prefix("cmdstat_")?.split_once(':')?.0.to_owned()))
        .collect();
    assert!(called.contains("getrange") && !called.contains("scan"), "{called:?}");
}

#[tokio::test]
async fn a_ledger_restored_during_a_backfill_gets_its_orders_back() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 2).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.back_up().await;
        fixture.paid_order(2, "bob").await;
        fixture.pending_order(3, "cyd", 1).await;
        pause(&fixture).await;
        for _ in 0..3 {
            let outcome = fixture.rebuild(ONE_ORDER).await.unwrap();
            let RebuildOutcome::Running(progress) = outcome else { panic!("{ledger}: {outcome:?}") };
            assert_eq!(progress.step, Step::Backfill, "{ledger}");
        }
        fixture.restore_backup().await;
        pause(&fixture).await;
        assert_eq!(finish_rebuild(&fixture).await.0, 3, "{ledger}");
        assert_eq!(fixture.ledger_status(&fixture.order_no(2)).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.ledger_status(&fixture.order_no(3)).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert_eq!(fixture.units().await, (7, 2, 1), "{ledger}");
    }
}

/// The record of a released order expires in Redis after an hour; a payment then makes a new one.
#[tokio::test]
async fn an_order_paid_late_is_backfilled_although_its_first_record_expired() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let late = fixture.pending_order(1, "ada", 1).await;
        // A rebuild makes the index anew, after the record has expired.
        fixture.cancel(&late).await.unwrap();
        let keys = Keys::of(&fixture.activity);
        for key in [keys.order(late.ulid()), keys.named("index")] {
            fixture.run_redis(&["DEL", &key]).await;
        }
        fixture.payment_succeeded(&late, "late").await.unwrap();
        fixture.restore_older_ledger(&[&late]).await;
        pause(&fixture).await;
        assert_eq!(finish_rebuild(&fixture).await.0, 1, "{ledger}");
        assert_eq!(fixture.ledger_status(&late).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.units().await, (1, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_crashed_backfill_in_calls_is_continued() {
    crash_in_calls_and_continue(
        async |fixture| {
            fixture.back_up().await;
            fixture.pending_order(1, "ada", 1).await;
            fixture.paid_order(2, "bob").await;
            fixture.restore_backup().await;
            pause(fixture).await;
        },
        async |fixture, point| {
            assert_eq!(fixture.units().await, (8, 1, 1), "{point}");
            assert_eq!(fixture.ledger_status(&fixture.order_no(2)).await, Some(OrderStatus::Paid), "{point}");
        },
    )
    .await;
}
