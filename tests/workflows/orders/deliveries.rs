//! Tests of the order writer with late, duplicate, reordered and repeatedly failing messages (D3, D4; I4, I7).

use std::{cell::Cell, time::Duration};

use domain::{order::OrderStatus, time::Millis};
use operations::{
    commands::{activities::OperationOutcome, stats},
    upkeep::{passes, report::Report},
};
use orders::{
    dead_letters,
    order_writer::{self, BATCH_SIZE, DrainBudget, MAX_DELIVERIES},
    stream,
};
use stores::{
    Redis, Sql, StoreError,
    keys::WRITERS,
    ports::{RedisValue, SqlValue},
};

use crate::{
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    stores::{Hooked, RealLedger, failing, slowed},
};

/// A ledger that fails inserts of `poison`'s orders. With `loses_response`, they take effect before they fail.
fn poisoned(sql: &RealLedger, error: fn(String) -> StoreError, loses_response: bool) -> impl Sql {
    let before = async move |statement: &str, params: &[SqlValue]| {
        let is_poison = |value: &SqlValue| matches!(value, SqlValue::Text(text) if text.contains("poison"));
        if !statement.starts_with("INSERT INTO orders") || !params.iter().any(is_poison) {
            return Ok(());
        }
        if loses_response {
            sql.run(statement, params.to_vec()).await?;
        }
        Err(error("choked".to_owned()))
    };
    Hooked { sql, before }
}

#[tokio::test]
async fn an_order_that_the_ledger_cannot_store_becomes_a_dead_letter_and_the_rest_of_its_batch_is_written() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        for (n, user) in ["ada", "poison", "cyd"].into_iter().enumerate() {
            fixture.reserve(n as u64, user, 1).await.unwrap();
        }
        let sql = poisoned(&fixture.sql, StoreError::LedgerDataException, false);
        let written = order_writer::write_new(&fixture.redis, &sql, &fixture.activity, NOW).await.unwrap();
        assert_eq!((written.written, written.failed), (2, 1), "{ledger}");
        let letter = dead_letters::load(&fixture.sql, &fixture.order_no(1)).await.unwrap().expect("a dead letter");
        assert_eq!(letter.reason, "undeliverable", "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::Failed), "{ledger}");
        assert_eq!(fixture.units().await, (3, 2, 0), "{ledger}");
        // The cause is gone, and an operator requeues the dead letter.
        dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(1)).await.unwrap();
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.units().await, (2, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_without_an_answer_stays_in_the_stream_and_does_not_hold_up_the_others() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        for (n, user) in ["ada", "poison", "cyd"].into_iter().enumerate() {
            fixture.reserve(n as u64, user, 1).await.unwrap();
        }
        let sql = poisoned(&fixture.sql, StoreError::LedgerUnavailable, false);
        assert!(order_writer::write_new(&fixture.redis, &sql, &fixture.activity, NOW).await.is_err(), "{ledger}");
        let reclaim = async || order_writer::write_reclaimed(&fixture.redis, &sql, &fixture.activity, NOW, 0).await;
        for delivery in 2..=MAX_DELIVERIES {
            assert!(reclaim().await.is_err(), "{ledger}: delivery {delivery}");
        }
        let alone = reclaim().await.unwrap();
        assert_eq!((alone.messages, alone.written, alone.failed, alone.unanswered), (3, 2, 0, 1), "{ledger}");
        for _ in 0..MAX_DELIVERIES {
            let again = reclaim().await.unwrap();
            assert_eq!((again.messages, again.failed, again.unanswered), (1, 0, 1), "{ledger}");
        }
        assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap().len(), 0, "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::Queued), "{ledger}");
        // The cause is gone.
        assert_eq!(fixture.write_reclaimed().await.unwrap().written, 1, "{ledger}");
        assert_eq!(fixture.units().await, (2, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn many_orders_without_an_answer_do_not_starve_the_others() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 60, 30).await;
        for n in 0..60 {
            fixture.reserve(n, if n < 30 { "poison" } else { "ada" }, 1).await.unwrap();
        }
        let sql = poisoned(&fixture.sql, StoreError::LedgerUnavailable, false);
        assert!(order_writer::write_new(&fixture.redis, &sql, &fixture.activity, NOW).await.is_err(), "{ledger}");
        let mut written = 0;
        for round in 0..MAX_DELIVERIES + 60 {
            let now = NOW.plus(round);
            let reclaimed = order_writer::write_reclaimed(&fixture.redis, &sql, &fixture.activity, now, 0).await;
            written += reclaimed.map_or(0, |report| report.written);
        }
        assert_eq!(written, 30, "{ledger}");
        assert_eq!(fixture.write_reclaimed().await.unwrap().written, 30, "{ledger}");
        assert_eq!(fixture.units().await, (0, 60, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_whose_insert_lost_its_response_is_never_marked_failed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        for (n, user) in ["poison", "ada"].into_iter().enumerate() {
            fixture.reserve(n as u64, user, 1).await.unwrap();
        }
        let sql = poisoned(&fixture.sql, StoreError::LedgerUnavailable, true);
        assert!(order_writer::write_new(&fixture.redis, &sql, &fixture.activity, NOW).await.is_err(), "{ledger}");
        let reclaim = async || order_writer::write_reclaimed(&fixture.redis, &sql, &fixture.activity, NOW, 0).await;
        for delivery in 2..=MAX_DELIVERIES {
            assert!(reclaim().await.is_err(), "{ledger}: delivery {delivery}");
        }
        let last = reclaim().await.unwrap();
        assert_eq!((last.messages, last.written, last.failed, last.unanswered), (2, 2, 0, 0), "{ledger}");
        assert_eq!(dead_letters::list(&fixture.sql, None, 200).await.unwrap().len(), 0, "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(0)).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert_eq!(fixture.units().await, (3, 2, 0), "{ledger}");
        assert!(messages(&fixture).await.is_empty(), "{ledger}");
    }
}

#[tokio::test]
async fn the_time_to_pay_starts_when_an_order_is_written_not_when_its_batch_was_reclaimed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let down = failing(&fixture.sql, |_, _| true);
        let reclaim = async || order_writer::write_reclaimed(&fixture.redis, &down, &fixture.activity, NOW, 0).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        order_writer::write_new(&fixture.redis, &down, &fixture.activity, NOW).await.unwrap_err();
        for _ in 2..=MAX_DELIVERIES {
            reclaim().await.unwrap_err();
        }
        fixture.reserve(2, "bob", 1).await.unwrap();
        order_writer::write_new(&fixture.redis, &down, &fixture.activity, NOW).await.unwrap_err();
        // It writes the second order first.
        let slow = slowed(&fixture.sql, "INTO orders");
        let report = order_writer::write_reclaimed(&fixture.redis, &slow, &fixture.activity, NOW, 0).await.unwrap();
        assert_eq!(report.written, 2, "{ledger}");
        let pay_by = fixture.order_row(&fixture.order_no(1)).await.order.pay_by.unwrap();
        assert!(pay_by >= NOW.plus(500 + 300_000), "{ledger}: {pay_by:?}");
    }
}

/// The payloads of all messages in the stream.
async fn messages(fixture: &RealFixture) -> Vec<Vec<u8>> {
    let items = fixture.run_redis(&["XRANGE", &fixture.key("orders"), "-", "+"]).await;
    items
        .chunks(3)
        .map(|message| match message {
            [_, _, RedisValue::Bytes(text)] => text.clone(),
            other => panic!("{other:?}"),
        })
        .collect()
}

async fn append_again(fixture: &RealFixture, text: &[u8]) {
    let stream = fixture.key("orders");
    fixture.redis.command("XADD", vec![stream.into(), "*".into(), "o".into(), text.to_vec()]).await.unwrap();
}

#[tokio::test]
async fn duplicate_reordered_and_late_messages_make_one_order_each() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 1).await;
        fixture.queue_orders(0..4).await;
        let texts = messages(&fixture).await;
        for text in texts.iter().rev() {
            append_again(&fixture, text).await;
        }
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.units().await, (6, 4, 0), "{ledger}");
        // Messages that arrive after later transitions of their orders: no released order becomes live again.
        fixture.cancel(&fixture.order_no(0)).await.unwrap();
        fixture.payment_succeeded(&fixture.order_no(1), "e").await.unwrap();
        for text in &texts {
            append_again(&fixture, text).await;
        }
        fixture.write_batch().await.unwrap();
        assert_eq!(fixture.ledger_status(&fixture.order_no(0)).await, Some(OrderStatus::Cancelled), "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(1)).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.units().await, (7, 2, 1), "{ledger}");
    }
}

#[tokio::test]
async fn concurrent_writers_write_each_order_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 700, 1).await;
        fixture.queue_orders(0..700).await;
        let duplicates: Vec<_> = messages(&fixture).await.into_iter().take(50).collect();
        for text in &duplicates {
            append_again(&fixture, text).await;
        }
        let writers = (0..6)
            .map(async |n| if n % 2 == 0 { fixture.write_batch().await } else { fixture.write_reclaimed().await });
        for written in futures::future::join_all(writers).await {
            written.unwrap();
        }
        fixture.recover().await;
        assert_eq!(fixture.units().await, (0, 700, 0), "{ledger}");
    }
}

const TWO_BATCHES: DrainBudget = DrainBudget { batches: 2, time: Duration::MAX };

#[tokio::test]
async fn a_writers_turn_is_bounded_and_reports_whether_messages_remain() {
    let fixture = new_fixture("sqlite", 5_000, 5_000).await;
    for n in 0..2 * BATCH_SIZE as u64 + 1 {
        fixture.reserve(n, "ada", 1).await.unwrap();
    }
    let turn = async || {
        order_writer::drain(&fixture.redis, &fixture.sql, &fixture.activity, NOW, TWO_BATCHES, async || ())
            .await
            .unwrap()
    };
    let (first, more) = turn().await;
    assert_eq!((first.written, more), (2 * BATCH_SIZE, true));
    // A long queue is when buyers ask how long they wait.
    assert!(drain_rate(&fixture).await > 0);
    let (second, more) = turn().await;
    assert_eq!((second.written, more), (1, false));
}

async fn drain_rate(fixture: &RealFixture) -> i64 {
    stats::stats(&fixture.redis, &fixture.activity).await.unwrap().unwrap().drain_rate
}

/// Platforms without a Redis trigger have only the sweeper.
#[tokio::test]
async fn a_sweep_drains_as_a_writer_does_and_measures_its_rate() {
    for ledger in LEDGERS {
        let all = 3 * BATCH_SIZE;
        let fixture = new_fixture(ledger, all as i64, all as i64).await;
        for n in 0..all as u64 {
            fixture.reserve(n, "ada", 1).await.unwrap();
        }
        let mut report = Report::default();
        let drain = async |report: &mut Report| {
            passes::drain(&fixture.redis, &fixture.sql, &fixture.activity, NOW, report).await.unwrap()
        };
        while drain(&mut report).await {}
        assert_eq!(report.written, all, "{ledger}");
        assert!(drain_rate(&fixture).await > 0, "{ledger}");
    }
}

#[tokio::test]
async fn a_writer_waits_for_the_next_orders_of_a_busy_activity_only() {
    let fixture = new_fixture("sqlite", 5_000, 5_000).await;
    let next = Cell::new(0);
    let reserve = async |count: u64| {
        for n in next.get()..next.get() + count {
            fixture.reserve(n, "ada", 1).await.unwrap();
        }
        next.set(next.get() + count);
    };
    for (first, second, expected) in [(19, 0, 0), (20, 0, 1), (20, 19, 1), (20, 30, 2), (BATCH_SIZE as u64, 0, 0)] {
        reserve(first).await;
        let pauses = Cell::new(0);
        let pause = async || {
            pauses.set(pauses.get() + 1);
            if pauses.get() == 1 {
                reserve(second).await;
            }
        };
        let (report, more) =
            order_writer::drain(&fixture.redis, &fixture.sql, &fixture.activity, NOW, DrainBudget::DOORBELL, pause)
                .await
                .unwrap();
        let all = usize::try_from(first + second).unwrap();
        assert_eq!((report.written, more, pauses.get()), (all, false, expected), "{first} orders, then {second}");
    }
}

#[tokio::test]
async fn a_writer_learns_how_many_activities_have_orders_to_write() {
    let (fixture, other) = (new_fixture("sqlite", 1, 1).await, new_fixture("sqlite", 1, 1).await);
    let old = format!("old-{}", fixture.activity);
    let start = async |activity| stream::start_writing(&fixture.redis, activity).await.unwrap();
    let (now, _) = start(&fixture.activity).await;
    fixture.run_redis(&["ZADD", WRITERS, &(now.0 - 1_100).to_string(), &old]).await;
    let (_, activities) = start(&other.activity).await;
    assert!(activities >= 2, "{activities}");
    let score = fixture.run_redis(&["ZSCORE", WRITERS, &old]).await;
    assert_eq!(score, [RedisValue::Nil]);
}

#[tokio::test]
async fn a_failed_batch_does_not_stop_the_other_batch_of_its_turn() {
    for ledger in LEDGERS {
        let all = BATCH_SIZE as i64 + 2;
        let fixture = new_fixture(ledger, all, all).await;
        fixture.reserve(0, "poison", 1).await.unwrap();
        for n in 1..all as u64 {
            fixture.reserve(n, "ada", 1).await.unwrap();
        }
        let sql = poisoned(&fixture.sql, StoreError::LedgerUnavailable, true);
        let drained = order_writer::drain(&fixture.redis, &sql, &fixture.activity, NOW, TWO_BATCHES, async || ()).await;
        assert!(drained.is_err(), "{ledger}");
        let last = fixture.order_no(all as u64 - 1);
        assert_eq!(fixture.redis_status(&last).await, Some(OrderStatus::PendingPayment), "{ledger}");
        assert_eq!(fixture.redis_status(&fixture.order_no(0)).await, Some(OrderStatus::Queued), "{ledger}");
        fixture.recover().await;
        assert_eq!(fixture.units().await, (0, all, 0), "{ledger}");
    }
}

#[tokio::test]
async fn moving_the_end_of_an_activity_into_the_past_loses_no_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.reserve(1, "ada", 1).await.unwrap();
        let changed = fixture.change_spec(|spec| spec.ends_at = Millis(1)).await;
        assert!(matches!(changed, OperationOutcome::Done(_)), "{ledger}: {changed:?}");
        assert_eq!(fixture.write_batch().await.unwrap().written, 1, "{ledger}");
        assert_eq!(fixture.units().await, (2, 1, 0), "{ledger}");
    }
}
