//! Tests of epochs (G5): after a rebuild, messages and gates of the previous Redis are fenced (I1, I2, I4).
//!
//! Each fenced order is a dead letter that an operator can see.

use std::cell::Cell;

use domain::{activity::ActivityState, http::problem::Code, order::OrderStatus, time::Millis};
use operations::upkeep::{rebuild::RebuildOutcome, report::Report};
use orders::{
    dead_letters::{self, RequeueOutcome},
    message_batch, order_writer, stream,
};
use sale::{ledger::epochs, reserve::ReserveOutcome};
use stores::ports::SqlValue;

use crate::{
    at_every_call::at_every_call,
    fixture::{LEDGERS, NOW, WHOLE_REBUILD, check_gates, new_fixture, rebuild_of},
    stores::Hooked,
};

pub use crate::fixture::RealFixture;

pub async fn pause(fixture: &RealFixture) {
    fixture.set_state(ActivityState::Paused).await;
}

pub async fn resume(fixture: &RealFixture) {
    fixture.set_state(ActivityState::Published).await;
}

pub async fn rebuild_activity(fixture: &RealFixture) -> RebuildOutcome {
    fixture.rebuild(WHOLE_REBUILD).await.unwrap()
}

/// Pauses an activity, rebuilds its gate, and resumes it.
pub async fn rebuild_and_resume(fixture: &RealFixture) -> RebuildOutcome {
    pause(fixture).await;
    let rebuilt = rebuild_activity(fixture).await;
    assert!(matches!(rebuilt, RebuildOutcome::Done { .. }), "{rebuilt:?}");
    resume(fixture).await;
    rebuilt
}

async fn dead_letter_reason(fixture: &RealFixture, n: u64) -> Option<String> {
    dead_letters::load(&fixture.sql, &fixture.order_no(n)).await.unwrap().map(|letter| letter.reason)
}

/// Runs one batch of an order writer that stalls before its first insert of orders, while `action` runs.
async fn write_batch_delayed_by(fixture: &RealFixture, action: impl AsyncFn()) -> message_batch::WriteReport {
    let done = Cell::new(false);
    let before = async |statement: &str, _: &[SqlValue]| {
        if statement.contains("INSERT INTO orders") && !done.replace(true) {
            action().await;
        }
        Ok(())
    };
    let hooked_ledger = Hooked { sql: &fixture.sql, before };
    order_writer::write_new(&fixture.redis, &hooked_ledger, &fixture.activity, NOW).await.unwrap()
}

#[tokio::test]
async fn a_writer_delayed_past_a_redis_loss_and_a_rebuild_leaves_dead_letters() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.pending_order(0, "zoe", 1).await;
        fixture.queue_orders(1..=2).await;
        let late = write_batch_delayed_by(&fixture, async || {
            pause(&fixture).await;
            fixture.delete_redis_keys().await;
            assert_eq!(rebuild_activity(&fixture).await, RebuildOutcome::Done { orders: 1, epoch: 2 });
            resume(&fixture).await;
            // The lost Redis answered 202 for order 1. Its buyer repeats the request and gets an order.
            assert_eq!(fixture.refusal(1, "user 1", 1).await, None);
        })
        .await;
        assert_eq!((late.written, late.failed), (0, 2), "{ledger}");
        for n in 1..=2 {
            assert_eq!(dead_letter_reason(&fixture, n).await.as_deref(), Some(stream::OLD_EPOCH), "{ledger}");
        }
        assert_eq!(fixture.write_batch().await.unwrap().written, 1, "{ledger}: an order of the new epoch is missing");
        fixture.assert_status(&fixture.order_no(1), OrderStatus::PendingPayment, ledger).await;
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
        fixture.queue_orders(1..=3).await;
        let late = write_batch_delayed_by(&fixture, async || {
            assert_eq!(rebuild_and_resume(&fixture).await, RebuildOutcome::Done { orders: 3, epoch: 2 });
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
        epochs::raise(&fixture.sql, &fixture.activity, 1, 0, Millis(0)).await.unwrap();
        fixture.queue_orders(2..=3).await;
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
        assert_eq!(fixture.refusal(4, "user 4", 1).await, None, "{ledger}");
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
        epochs::raise(&fixture.sql, &fixture.activity, 1, 0, Millis(0)).await.unwrap();
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
        assert_eq!(rebuild_and_resume(&fixture).await, RebuildOutcome::Done { orders: 0, epoch: 2 }, "{ledger}");
        let stream = fixture.key("orders");
        let text = format!("1\t{}\tada\tphone\t1\t100\tEUR\t{}\t1\t1\t0\t0", fixture.order_no(1).ulid(), NOW.0);
        for _ in 0..2 {
            fixture.run_redis(&["XADD", &stream, "*", "o", &text]).await;
        }
        assert_eq!(fixture.write_batch().await.unwrap().failed, 2, "{ledger}");
        assert_eq!(dead_letter_reason(&fixture, 1).await.as_deref(), Some(stream::OLD_EPOCH), "{ledger}");
        assert_eq!(fixture.units().await, (3, 0, 0), "{ledger}");
        assert_eq!(fixture.refusal(2, "bob", 1).await, None, "{ledger}: still open");
    }
}

/// Publishing rebuilds a gate that is missing. Afterwards the activity accepts orders, and they are written.
#[tokio::test]
async fn two_concurrent_rebuilds_of_a_lost_gate_leave_an_activity_that_sells() {
    let setup = async |ledger: &'static str| {
        let fixture = new_fixture(ledger, 10, 5).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.delete_redis_keys().await;
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
            assert_eq!(fixture.refusal(3, "cyd", 1).await, None, "{point}");
            assert_eq!(fixture.write_batch().await.unwrap().failed, 0, "{point}");
            assert_eq!(fixture.units().await, (7, 3, 0), "{point}");
        },
    )
    .await;
}
