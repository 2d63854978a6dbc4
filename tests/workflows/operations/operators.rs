//! Tests of operators' changes that are concurrent, or made while Redis and the ledger disagree (C7, C9, B9).

use std::cell::Cell;

use domain::{
    activity::{ActivitySpec, ActivityState, Sku},
    http::problem::Code,
    ids::{ActivityId, SkuId, UserId},
    time::Millis,
};
use operations::{
    commands::activities::{OperationOutcome, OperatorContext},
    upkeep::report::Report,
};
use sale::{
    ledger::activities::{self, Activity},
    reserve::ReserveOutcome,
};
use stores::{
    Redis, Sql, StoreError,
    keys::Keys,
    ports::{RedisArg, RedisValue},
};

use crate::{
    at_every_call::{Interleaved, at_every_call},
    fixture::{LEDGERS, NOW, check_gates, new_fixture, operator},
    operations::epochs::{RealFixture, resume},
    stores::{CountingRedis, RealRedis, failing},
};

/// Ten seconds after [`NOW`]. The sweeper repairs a change only after a grace period, in which the operator's own
/// request may still complete it; for a change made at [`NOW`] that period is over.
const LATER: Millis = Millis(NOW.0 + 10_000);

/// Returns the activity's state and total in the ledger. Asserts that the gate has the same.
pub async fn agreed_state_and_total(fixture: &RealFixture, point: &str) -> (ActivityState, i64) {
    let stored = fixture.stored().await;
    let (state, total) = (stored.state, stored.spec.skus[0].total);
    let gate = fixture.run_redis(&["HMGET", &fixture.key("gate"), "state", "total:phone"]).await;
    let expected = [state.as_str().to_owned(), total.to_string()];
    assert_eq!(gate, expected.map(|word| RedisValue::Bytes(word.into_bytes())), "{point}: gate and ledger differ");
    (state, total)
}

/// A ledger that answers queries, and dies at the first change.
fn without_changes<S: Sql>(sql: &S) -> impl Sql {
    failing(sql, |statement, _| !statement.starts_with("SELECT"))
}

#[tokio::test]
async fn one_of_two_identical_concurrent_reductions_is_applied() {
    let done = Cell::new(0);
    at_every_call(
        async |ledger| {
            done.set(0);
            let fixture = new_fixture(ledger, 10, 5).await;
            fixture.delete_redis_keys().await;
            fixture
        },
        async |redis, sql, fixture| {
            let lowered = operator(redis, sql).restock(&fixture.activity, &fixture.sku, -4, Some(10)).await.unwrap();
            done.set(done.get() + i32::from(matches!(lowered, OperationOutcome::Done(_))));
        },
        async |fixture| {
            let lowered = fixture.operator().restock(&fixture.activity, &fixture.sku, -4, Some(10)).await.unwrap();
            done.set(done.get() + i32::from(matches!(lowered, OperationOutcome::Done(_))));
        },
        async |fixture, point| {
            let total = agreed_state_and_total(fixture, point).await.1;
            assert_eq!((done.get(), total), (1, 6), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_reduction_that_only_redis_has_is_undone_by_the_sweeper() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 5).await;
        let redis_only = without_changes(&fixture.sql);
        let died = operator(&fixture.redis, &redis_only).restock(&fixture.activity, &fixture.sku, -6, None).await;
        assert!(died.is_err(), "{ledger}: {died:?}");
        let gate = fixture.key("gate");
        let sweep = async || {
            let (mut report, all) = (Report::default(), std::slice::from_ref(&fixture.activity));
            check_gates(&fixture.redis, &fixture.sql, all, NOW, &mut report).await;
            report.warmed_up
        };
        assert_eq!(sweep().await, 0, "{ledger}: the operator's request may still be running");
        fixture.run_redis(&["HINCRBY", &gate, "changed_at", "-10000"]).await;
        assert_eq!(sweep().await, 1, "{ledger}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await, (ActivityState::Published, 10));
        assert_eq!(fixture.units().await, (10, 0, 0), "{ledger}");
        assert_eq!(sweep().await, 0, "{ledger}: once");
    }
}

#[tokio::test]
async fn an_activity_is_saved_with_all_its_skus_or_not_at_all() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        let old = fixture.stored().await;
        let mut new = Activity { version: old.version + 1, ..old.clone() };
        new.spec.skus.push(Sku { sku: SkuId::parse("case").unwrap(), ..new.spec.skus[0].clone() });
        new.spec.skus[0].total = 0;
        let refused = activities::save(&fixture.sql, &new, Some(&old), NOW).await;
        assert!(matches!(refused, Err(StoreError::LedgerRefused(_))), "{ledger}: {refused:?}");
        assert_eq!(fixture.stored().await, old, "{ledger}");
        new.spec.skus[0].total = 1;
        assert!(activities::save(&fixture.sql, &new, Some(&old), NOW).await.unwrap(), "{ledger}");
        assert!(!activities::save(&fixture.sql, &old, Some(&old), NOW).await.unwrap(), "{ledger}: an outdated version");
        let saved = fixture.stored().await;
        assert_eq!((saved.spec, saved.live_units.len()), (new.spec, 2), "{ledger}");
    }
}

#[tokio::test]
async fn a_resume_that_recreates_the_gate_during_a_pause_leaves_the_stores_consistent() {
    let setup = async |ledger: &'static str| {
        let fixture = new_fixture(ledger, 10, 5).await;
        fixture.delete_redis_keys().await;
        fixture
    };
    let workflow = async |redis: &Interleaved<'_, _>, sql: &Interleaved<'_, _>, fixture: &RealFixture| {
        let paused = operator(redis, sql).set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
        assert!(matches!(paused, OperationOutcome::Done(_) | OperationOutcome::Conflict(_)), "{paused:?}");
    };
    at_every_call(setup, workflow, resume, async |fixture, point| {
        agreed_state_and_total(fixture, point).await;
    })
    .await;
}

#[tokio::test]
async fn a_change_that_the_ledger_refuses_leaves_the_activity_unchanged() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.pending_order(2, "bob", 1).await;
        // As if Redis lost its last second: it counts fewer held units than the ledger.
        fixture.run_redis(&["HINCRBY", &fixture.key("stats"), "held:phone", "-1"]).await;
        let old = fixture.stored().await.spec;
        let mut new = old.clone();
        "Another title".clone_into(&mut new.title);
        new.skus[0].total = 1;
        let refused = fixture.operator().put(&fixture.activity, new, None).await.unwrap();
        assert!(matches!(refused, OperationOutcome::Conflict(_)), "{ledger}: {refused:?}");
        assert_eq!(fixture.stored().await.spec, old, "{ledger}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await, (ActivityState::Published, 2));
    }
}

#[tokio::test]
async fn a_price_or_a_longer_time_for_refunds_on_sale_is_set_only_by_who_may() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 4, 1).await;
        let clerk = OperatorContext { may_change_money: false, ..fixture.operator() };
        let mut old = fixture.stored().await.spec;
        old.refund_window_seconds = Some(10);
        fixture.operator().put(&fixture.activity, old.clone(), None).await.unwrap();
        let later = ActivitySpec { refund_window_seconds: Some(11), ..old.clone() };
        let for_ever = ActivitySpec { refund_window_seconds: None, ..old.clone() };
        let sooner = ActivitySpec { refund_window_seconds: Some(9), ..old.clone() };
        let (mut cheaper, mut foreign, mut renamed) = (old.clone(), old.clone(), sooner);
        cheaper.skus[0].price = 1;
        "JPY".clone_into(&mut foreign.skus[0].currency);
        "Another title".clone_into(&mut renamed.title);
        for state in [ActivityState::Published, ActivityState::Paused] {
            fixture.set_state(state).await;
            for spec in [&cheaper, &foreign, &later, &for_ever] {
                let refused = clerk.put(&fixture.activity, spec.clone(), None).await.unwrap();
                assert_eq!(refused, OperationOutcome::MayNotChangeMoney, "{ledger}, {state:?}");
            }
            assert_eq!(fixture.stored().await.spec.skus, old.skus);
            let changed = clerk.put(&fixture.activity, renamed.clone(), None).await.unwrap();
            assert!(
                matches!(changed, OperationOutcome::Done(_) | OperationOutcome::Unchanged(_)),
                "{ledger}: {changed:?}"
            );
        }
        let changed = fixture.operator().put(&fixture.activity, cheaper.clone(), None).await.unwrap();
        assert!(matches!(changed, OperationOutcome::Done(_)), "{ledger}: {changed:?}");

        // Refunds are asked for when the sale is closed: their time, and nothing else, is changed then.
        fixture.set_state(ActivityState::Closed).await;
        let with_window = |seconds| ActivitySpec { refund_window_seconds: seconds, ..cheaper.clone() };
        let put = async |operator: &OperatorContext<'_, _, _>, spec| {
            operator.put(&fixture.activity, spec, None).await.unwrap()
        };
        assert_eq!(put(&clerk, with_window(Some(20))).await, OperationOutcome::MayNotChangeMoney, "{ledger}");
        assert!(matches!(put(&clerk, with_window(Some(0))).await, OperationOutcome::Done(_)), "{ledger}");
        assert!(matches!(put(&fixture.operator(), with_window(None)).await, OperationOutcome::Done(_)), "{ledger}");
        assert!(matches!(put(&fixture.operator(), renamed).await, OperationOutcome::Conflict(_)), "{ledger}");
    }
}

#[tokio::test]
async fn the_limit_per_user_cannot_be_lowered_after_publishing() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 4, 2).await;
        fixture.reserve(1, "ada", 2).await.unwrap();
        let put = async |per_user| fixture.change_spec(|spec| spec.per_user = per_user).await;
        assert!(matches!(put(1).await, OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(fixture.write_batch().await.unwrap().failed, 0, "{ledger}");
        assert!(matches!(put(3).await, OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(fixture.refusal(2, "ada", 1).await, None, "{ledger}");
    }
}

#[tokio::test]
async fn an_activity_that_counts_too_many_held_units_can_be_paused_and_restocked() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.pending_order(2, "bob", 1).await;
        // As if Redis lost its last second: a unit was sold twice, and the ledger has not refused the second order yet.
        let stats = fixture.key("stats");
        let add_held = async |units: &str| {
            fixture.run_redis(&["HINCRBY", &stats, "held:phone", units]).await;
        };
        add_held("1").await;
        for state in [ActivityState::Paused, ActivityState::Published] {
            let result = fixture.set_state(state).await;
            assert!(matches!(result, OperationOutcome::Done(_)), "{ledger}: {result:?}");
        }
        let lowered = fixture.restock(-1).await;
        assert!(matches!(lowered, OperationOutcome::Conflict(_)), "{ledger}: {lowered:?}");
        let reply = fixture.reserve(3, "cyd", 1).await.unwrap();
        assert!(matches!(reply.outcome, ReserveOutcome::Refused(Code::SoldOut, _)), "{ledger}: {reply:?}");
        assert!(matches!(fixture.restock(1).await, OperationOutcome::Done(_)), "{ledger}");
        add_held("-1").await;
        assert!(matches!(fixture.restock(1).await, OperationOutcome::Done(_)), "{ledger}");
        // The next sweep puts the unit that was counted twice on sale.
        fixture.check_gates().await;
        assert_eq!(fixture.units().await, (2, 2, 0), "{ledger}");
    }
}

/// Redis on which every script call fails.
struct RedisWithoutScripts<'a>(&'a RealRedis);

impl Redis for RedisWithoutScripts<'_> {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        if name.starts_with("EVAL") {
            return Err(StoreError::RedisUnavailable("no script runs".to_owned()));
        }
        self.0.command(name, args).await
    }
}

#[tokio::test]
async fn a_change_that_did_not_reach_redis_is_applied_by_the_sweeper() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let redis_without_scripts = RedisWithoutScripts(&fixture.redis);
        let operator = operator(&redis_without_scripts, &fixture.sql);
        // The restock is in the ledger and reported as done, although Redis failed: a retry would add the units twice.
        let restocked = operator.restock(&fixture.activity, &fixture.sku, 3, None).await.unwrap();
        assert!(matches!(restocked, OperationOutcome::Done(_)), "{ledger}: {restocked:?}");
        assert!(operator.set_state(&fixture.activity, ActivityState::Paused).await.is_err(), "{ledger}");
        let mut report = Report::default();
        let all = std::slice::from_ref(&fixture.activity);
        let mut swept = async |now| {
            check_gates(&fixture.redis, &fixture.sql, all, now, &mut report).await;
            report.warmed_up
        };
        assert_eq!(swept(NOW).await, 0, "{ledger}: the sweeper warmed up a gate while an operation may be running");
        assert_eq!(swept(LATER).await, 1, "{ledger}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await, (ActivityState::Paused, 5));
        assert_eq!(swept(LATER).await, 1, "{ledger}: a repeated sweep warmed up the gate again");
        fixture.delete_redis_keys().await;
        swept(LATER).await;
        assert_eq!(report.without_gate, 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_repeated_restock_with_an_expected_total_adds_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let restock =
            async |from| fixture.operator().restock(&fixture.activity, &fixture.sku, 3, Some(from)).await.unwrap();
        assert!(matches!(restock(2).await, OperationOutcome::Done(_)), "{ledger}");
        let OperationOutcome::Conflict(detail) = restock(2).await else {
            panic!("{ledger}: the second restock was not a conflict")
        };
        assert!(detail.contains("is 5, not 2"), "{ledger}: {detail}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await, (ActivityState::Published, 5));
        assert!(matches!(restock(5).await, OperationOutcome::Done(_)), "{ledger}");
    }
}

#[tokio::test]
async fn a_put_with_an_outdated_version_is_refused() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let Activity { spec, version, .. } = fixture.stored().await;
        fixture.restock(3).await;
        let put = async |read| fixture.operator().put(&fixture.activity, spec.clone(), Some(read)).await.unwrap();
        assert!(matches!(put(version).await, OperationOutcome::Conflict(_)), "{ledger}");
        assert_eq!(agreed_state_and_total(&fixture, ledger).await, (ActivityState::Published, 5));
        assert!(matches!(put(version + 1).await, OperationOutcome::Done(_)), "{ledger}");
        let new = ActivityId::parse("another").unwrap();
        let put_new = fixture.operator().put(&new, spec.clone(), Some(1)).await.unwrap();
        assert!(matches!(put_new, OperationOutcome::Conflict(_)), "{ledger}");
    }
}

#[tokio::test]
async fn thousands_of_bans_reach_redis_in_few_calls() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let far = 4_000_000_000_000;
        let rows = (0..2_500).map(|n| format!("('user', 'robot-{n}', {far}, 'a robot')")).collect::<Vec<_>>().join(",");
        let statement = format!("INSERT INTO bans (kind, name, until, reason) VALUES {rows}");
        fixture.sql.run(&statement, Vec::new()).await.unwrap();
        let redis = CountingRedis(&fixture.redis, Cell::new(0));
        let paused = operator(&redis, &fixture.sql).set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
        assert!(matches!(paused, OperationOutcome::Done(_)), "{ledger}: {paused:?}");
        assert!(redis.1.get() < 20, "{ledger}: {} calls", redis.1.get());
        for robot in [0, 999, 1_000, 2_499] {
            let until = fixture
                .run_redis(&[
                    "PEXPIRETIME",
                    &Keys::of(&fixture.activity).user("ban", &UserId::parse(&format!("robot-{robot}")).unwrap()),
                ])
                .await;
            assert_eq!(until, [RedisValue::Int(far)], "{ledger}: {robot}");
        }
    }
}
