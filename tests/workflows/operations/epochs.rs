//! Tests of epochs (G5): after a rebuild, messages and gates of the previous Redis are fenced (I1, I2, I4).
//!
//! Each fenced order is a dead letter that an operator can see.

use std::cell::Cell;

use domain::{activity::ActivityState, http::problem::Code, order::OrderStatus};
use operations::upkeep::{rebuild::RebuildOutcome, report::Report};
use orders::{
    dead_letters::{self, RequeueOutcome},
    message_batch, order_writer, stream,
};
use sale::{ledger::epochs, reserve::ReserveOutcome};
use stores::{
    Redis, Sql, StoreError,
    keys::Keys,
    ports::{Dialect, RedisValue, SqlValue},
};

use crate::{
    at_every_call::at_every_call,
    fixture::{LEDGERS, NOW, WHOLE_REBUILD, check_gates, new_fixture, rebuild_of},
    stores::RealLedger,
};

pub use crate::fixture::RealFixture;

pub async fn pause(fixture: &RealFixture) {
    fixture.operator().set_state(&fixture.activity, ActivityState::Paused).await.unwrap();
}

pub async fn resume(fixture: &RealFixture) {
    fixture.operator().set_state(&fixture.activity, ActivityState::Published).await.unwrap();
}

pub async fn rebuild_activity(fixture: &RealFixture) -> RebuildOutcome {
    fixture.rebuild(WHOLE_REBUILD).await.unwrap()
}

/// Deletes all keys of the activity, as after a loss of Redis.
pub async fn delete_redis_keys(fixture: &RealFixture) {
    let pattern = format!("{}*", Keys::of(&fixture.activity).prefix());
    let keys = fixture.redis.command("KEYS", vec![pattern.into()]).await.unwrap();
    for key in keys {
        let RedisValue::Bytes(key) = key else { panic!("{key:?}") };
        fixture.redis.command("DEL", vec![key]).await.unwrap();
    }
}

async fn dead_letter_reason(fixture: &RealFixture, n: u64) -> Option<String> {
    dead_letters::load(&fixture.sql, &fixture.order_no(n)).await.unwrap().map(|letter| letter.reason)
}

/// A ledger that runs `action` to its end just before the first insert of orders.
struct HookBeforeInsert<'a, F> {
    sql: &'a RealLedger,
    action: F,
    done: Cell<bool>,
}

impl<F: AsyncFn()> Sql for HookBeforeInsert<'_, F> {
    fn dialect(&self) -> Dialect {
        self.sql.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        if statement.contains("INSERT INTO orders") && !self.done.replace(true) {
            (self.action)().await;
        }
        self.sql.run(statement, params).await
    }
}

/// Runs one batch of an order writer that stalls between reading its messages and writing them, while `action` runs.
async fn write_batch_delayed_by(fixture: &RealFixture, action: impl AsyncFn()) -> message_batch::WriteReport {
    let hooked_ledger = HookBeforeInsert { sql: &fixture.sql, action, done: Cell::new(false) };
    order_writer::write_new(&fixture.redis, &hooked_ledger, &fixture.activity, NOW).await.unwrap()
}

#[tokio::test]
async fn a_writer_delayed_past_a_redis_loss_and_a_rebuild_leaves_dead_letters() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.pending_order(0, "zoe", 1).await;
        for n in 1..=2 {
            fixture.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let late = write_batch_delayed_by(&fixture, async || {
            pause(&fixture).await;
            delete_redis_keys(&fixture).await;
            assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 1, epoch: 2 });
            resume(&fixture).await;
            // The lost Redis answered 202 for order 1. Its buyer repeats the request and gets an order.
            let again = fixture.reserve(1, "user 1", 1).await.unwrap().outcome;
            assert!(matches!(again, ReserveOutcome::Queued(_)), "{again:?}");
        })
        .await;
        assert_eq!((late.written, late.failed), (0, 2), "{ledger}");
        for n in 1..=2 {
            assert_eq!(dead_letter_reason(&fixture, n).await.as_deref(), Some(stream::OLD_EPOCH), "{ledger}");
        }
        assert_eq!(
            fixture.write_batch().await.unwrap().written,
            1,
            "{ledger}: the order of the new epoch was not written"
        );
        assert_eq!(fixture.ledger_status(&fixture.order_no(1)).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert_eq!(fixture.units().await, (1, 2, 0), "{ledger}");
        // An operator can requeue the lost order into the current epoch.
        let requeued = dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(2)).await.unwrap();
        assert_eq!(requeued, RequeueOutcome::Queued, "{ledger}");
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.units().await, (0, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_writer_delayed_past_a_rebuild_finds_its_orders_written() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        for n in 1..=3 {
            fixture.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        let late = write_batch_delayed_by(&fixture, async || {
            pause(&fixture).await;
            assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 3, epoch: 2 });
            resume(&fixture).await;
        })
        .await;
        assert_eq!((late.messages, late.written, late.failed), (3, 0, 0), "{ledger}");
        assert_eq!(fixture.units().await, (2, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_old_redis_that_comes_back_is_fenced_by_its_first_message() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        // Another Redis was rebuilt meanwhile: the ledger's epoch is later.
        epochs::raise(&fixture.sql, &fixture.activity, 1, 0).await.unwrap();
        for n in 2..=3 {
            assert!(matches!(
                fixture.reserve(n, &format!("user {n}"), 1).await.unwrap().outcome,
                ReserveOutcome::Queued(_)
            ));
        }
        let written = fixture.write_batch().await.unwrap();
        assert_eq!((written.written, written.failed), (0, 2), "{ledger}");
        for n in 2..=3 {
            assert_eq!(dead_letter_reason(&fixture, n).await.as_deref(), Some(stream::OLD_EPOCH), "{ledger}");
            assert_eq!(fixture.redis_status(&fixture.order_no(n)).await, Some(OrderStatus::Failed), "{ledger}");
        }
        let refused = fixture.reserve(4, "user 4", 1).await.unwrap().outcome;
        assert_eq!(refused, ReserveOutcome::Refused(Code::NotReady, 0), "{ledger}");
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 1, epoch: 3 }, "{ledger}");
        assert_eq!(fixture.units().await, (4, 1, 0), "{ledger}");
        assert!(
            matches!(fixture.reserve(4, "user 4", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)),
            "{ledger}"
        );
    }
}

#[tokio::test]
async fn an_old_redis_that_comes_back_is_fenced_by_the_sweeper() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        let mut report = Report::default();
        let all = [fixture.activity.clone()];
        check_gates(&fixture.redis, &fixture.sql, &all, NOW, &mut report).await;
        assert_eq!(report.fenced, 0, "{ledger}: a gate of the current epoch was fenced");
        epochs::raise(&fixture.sql, &fixture.activity, 1, 0).await.unwrap();
        check_gates(&fixture.redis, &fixture.sql, &all, NOW, &mut report).await;
        assert_eq!(report.fenced, 1, "{ledger}");
        let refused = fixture.reserve(1, "ada", 1).await.unwrap().outcome;
        assert_eq!(refused, ReserveOutcome::Refused(Code::NotReady, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_stray_message_of_an_old_epoch_becomes_a_dead_letter_and_changes_nothing_else() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        pause(&fixture).await;
        assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 0, epoch: 2 }, "{ledger}");
        resume(&fixture).await;
        let stream = Keys::of(&fixture.activity).named("orders");
        let text = format!("{}\tada\tphone\t1\t100\tEUR\t{}\t1", fixture.order_no(1).ulid(), NOW.0);
        for _ in 0..2 {
            fixture
                .redis
                .command("XADD", vec![stream.clone().into(), "*".into(), "o".into(), text.clone().into()])
                .await
                .unwrap();
        }
        assert_eq!(fixture.write_batch().await.unwrap().failed, 2, "{ledger}");
        assert_eq!(dead_letter_reason(&fixture, 1).await.as_deref(), Some(stream::OLD_EPOCH), "{ledger}");
        assert_eq!(fixture.units().await, (3, 0, 0), "{ledger}");
        assert!(
            matches!(fixture.reserve(2, "bob", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)),
            "{ledger}: still open"
        );
    }
}

#[tokio::test]
async fn publishing_again_after_a_redis_loss_counts_the_ledgers_orders() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 2).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.paid_order(2, "bob").await;
        delete_redis_keys(&fixture).await;
        resume(&fixture).await;
        assert_eq!(epochs::load(&fixture.sql, &fixture.activity).await.unwrap(), 2, "{ledger}: a new epoch");
        assert_eq!(fixture.units().await, (1, 1, 1), "{ledger}");
        assert!(
            matches!(fixture.reserve(1, "ada", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)),
            "{ledger}: a replay"
        );
        assert_eq!(fixture.units().await, (1, 1, 1), "{ledger}: takes nothing");
    }
}

/// Runs `action` before each call of a rebuild in turn. Asserts `expected` left, held and sold units afterwards.
async fn at_every_call_of_a_rebuild(action: impl AsyncFn(&RealFixture), expected: (i64, i64, i64)) {
    let setup = async |ledger: &'static str| {
        let fixture = new_fixture(ledger, 10, 5).await;
        for n in 1..=4 {
            fixture.pending_order(n, "ada", 1).await;
        }
        fixture.paid_order(5, "bob").await;
        pause(&fixture).await;
        fixture
    };
    at_every_call(
        setup,
        async |redis, sql, fixture| {
            rebuild_of(redis, sql, &fixture.activity, WHOLE_REBUILD).run(None).await.unwrap();
        },
        action,
        async |fixture, point| {
            // If `action` was another rebuild, this one may have been fenced.
            fixture.recover().await;
            assert_eq!(fixture.units().await, expected, "{point}");
            resume(fixture).await;
            let held = Keys::of(&fixture.activity).holders(&fixture.sku);
            let held = fixture.redis.command("HGET", vec![held.into(), "ada".into()]).await.unwrap();
            assert_eq!(held, [RedisValue::Bytes(expected.1.to_string().into_bytes())], "{point}: ada's units");
        },
    )
    .await;
}

/// Publishing rebuilds a gate that is missing. Afterwards the activity accepts orders, and they are written.
#[tokio::test]
async fn two_concurrent_rebuilds_of_a_lost_gate_leave_an_activity_that_sells() {
    let setup = async |ledger: &'static str| {
        let fixture = new_fixture(ledger, 10, 5).await;
        fixture.pending_order(1, "ada", 1).await;
        delete_redis_keys(&fixture).await;
        fixture
    };
    at_every_call(
        setup,
        async |redis, sql, fixture| {
            rebuild_of(redis, sql, &fixture.activity, WHOLE_REBUILD).run(None).await.unwrap();
        },
        async |fixture| {
            resume(fixture).await;
            fixture.pending_order(2, "bob", 1).await;
        },
        async |fixture, point| {
            assert!(
                matches!(fixture.reserve(3, "cyd", 1).await.unwrap().outcome, ReserveOutcome::Queued(_)),
                "{point}"
            );
            assert_eq!(fixture.write_batch().await.unwrap().failed, 0, "{point}");
            assert_eq!(fixture.units().await, (7, 3, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn an_order_cancelled_at_any_call_of_a_rebuild_returns_its_unit_once() {
    at_every_call_of_a_rebuild(
        async |fixture| {
            for n in [1, 3] {
                fixture.cancel(&fixture.order_no(n)).await.unwrap();
            }
        },
        (7, 2, 1),
    )
    .await;
}

#[tokio::test]
async fn concurrent_rebuilds_leave_consistent_counts() {
    at_every_call_of_a_rebuild(
        async |fixture| {
            let other = rebuild_activity(fixture).await;
            assert!(matches!(other, RebuildOutcome::Done { .. } | RebuildOutcome::Queued), "{other:?}");
        },
        (5, 4, 1),
    )
    .await;
}
