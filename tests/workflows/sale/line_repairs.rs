//! Tests of a line after a failure (H1): replayed offers, rebuilds, sweeps, an old Redis.

use domain::{
    activity::LineMode,
    ids::UserId,
    order::OrderStatus::{Cancelled, Failed, PendingPayment, Queued, Waiting},
    time::Millis,
};
use operations::upkeep::{rebuild::RebuildOutcome, report::Report};
use orders::{
    dead_letters::{self, RequeueOutcome},
    status::{load_from_ledger, load_order_of},
};
use sale::{
    ledger::epochs,
    line::{self, LeaveOutcome, Leaver},
    reserve::ReserveOutcome,
};
use stores::{
    Sql,
    ports::{SqlValue, StoreError},
};
use support::fixture::{ONE_ORDER, WHOLE_REBUILD};

use super::line::{find, join, sold_out, sweep, write_all};
use crate::{
    fixture::{LEDGERS, NOW, RealFixture, Services, completed, new_fixture, sweeper},
    stores::Hooked,
};

async fn report_of_sweep(fixture: &RealFixture) -> Report {
    let (services, clock) = (Services::accepting(), || NOW);
    completed(sweeper((&fixture.redis, &fixture.sql), &services, &clock).run(NOW).await)
}

/// A sale in which the ledger refused an offer, ticket 20 of user 2; users 3 and 4 came later, and user 3 was served instead.
/// Now the ledger has room.
async fn failed_offer(ledger: &str) -> RealFixture {
    let mut fixture = sold_out(ledger, 2).await;
    // Redis forgets that a buyer has a unit; the ledger refuses them a second one.
    let holder = [&*fixture.key("holders"), "phone:user 2"];
    fixture.run_redis(&["HDEL", holder[0], holder[1]]).await;
    fixture.reserve(20, "user 2", 1).await.unwrap();
    join(&fixture, 3).await;
    fixture.cancel(&fixture.order_no(1)).await.unwrap();
    assert_eq!(fixture.write_batch().await.unwrap().failed, 1, "{ledger}");
    assert_eq!(find(&fixture, 3).await.status, Queued, "{ledger}: the next is served");
    join(&fixture, 4).await;
    write_all(&fixture).await;
    fixture.per_user = 3;
    fixture.change_spec(|spec| spec.per_user = 3).await;
    fixture.run_redis(&["HSET", holder[0], holder[1], "1"]).await;
    fixture
}

async fn requeue(fixture: &RealFixture) -> RequeueOutcome {
    dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(20)).await.unwrap()
}

#[tokio::test]
async fn a_replayed_offer_waits_at_its_place() {
    for ledger in LEDGERS {
        let fixture = failed_offer(ledger).await;
        assert_eq!(requeue(&fixture).await, RequeueOutcome::Joined, "{ledger}");
        assert_eq!(requeue(&fixture).await, RequeueOutcome::Joined, "{ledger}: repeated");
        assert_eq!(find(&fixture, 4).await.ahead, Some(1), "{ledger}: behind who came first");
        write_all(&fixture).await;
        sweep(&fixture).await;
        fixture.cancel(&fixture.order_no(3)).await.unwrap();
        write_all(&fixture).await;
        sweep(&fixture).await;
        let served = fixture.ledger_status(&fixture.order_no(20)).await;
        assert_eq!((served, find(&fixture, 4).await.ahead), (Some(PendingPayment), Some(0)), "{ledger}");
    }
}

#[tokio::test]
async fn an_offer_is_replayed_after_a_rebuild_that_restored_its_end() {
    for ledger in LEDGERS {
        let fixture = failed_offer(ledger).await;
        fixture.delete_redis_keys().await;
        let rebuilt = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert!(matches!(rebuilt, RebuildOutcome::Done { .. }), "{rebuilt:?}");
        assert_eq!(requeue(&fixture).await, RequeueOutcome::Joined, "{ledger}");
        assert_eq!(find(&fixture, 4).await.ahead, Some(1), "{ledger}: behind who came first");
        write_all(&fixture).await;
        assert_eq!(report_of_sweep(&fixture).await.stopped, 0, "{ledger}");
        fixture.cancel(&fixture.order_no(3)).await.unwrap();
        write_all(&fixture).await;
        assert_eq!(fixture.ledger_status(&fixture.order_no(20)).await, Some(PendingPayment), "{ledger}");
    }
}

#[tokio::test]
async fn a_replay_without_an_answer_of_the_ledger_is_written_by_the_writer() {
    for ledger in LEDGERS {
        for leaves in [false, true] {
            let fixture = failed_offer(ledger).await;
            let before = async |statement: &str, _: &[SqlValue]| match statement.starts_with("UPDATE") {
                true => Err(StoreError::LedgerUnavailable("away".to_owned())),
                false => Ok(()),
            };
            let away = Hooked { sql: &fixture.sql, before };
            dead_letters::requeue(&fixture.redis, &away, &fixture.order_no(20)).await.unwrap_err();
            let user = UserId::parse("user 2").unwrap();
            let load =
                async || load_order_of(&fixture.redis, &fixture.order_no(20), &user).await.unwrap().order.unwrap();
            let entry = load().await;
            assert_eq!(entry.status, Waiting, "{ledger}");
            if leaves {
                let left = LeaveOutcome::Left("left_line".to_owned());
                assert_eq!(line::leave(&fixture.redis, &entry, Leaver::Buyer).await.unwrap(), left, "{ledger}");
            }
            write_all(&fixture).await;
            assert_eq!(report_of_sweep(&fixture).await.stopped, 0, "{ledger}, leaves: {leaves}");
            fixture.delete_redis_keys().await;
            fixture.rebuild(WHOLE_REBUILD).await.unwrap();
            assert_eq!(load().await.status, if leaves { Cancelled } else { Waiting }, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_buyer_whose_offer_is_replayed_has_one_place() {
    for ledger in LEDGERS {
        let fixture = failed_offer(ledger).await;
        let later = match fixture.reserve(21, "user 2", 1).await.unwrap().outcome {
            ReserveOutcome::Queued(order) => *order,
            other => panic!("{other:?}"),
        };
        write_all(&fixture).await;
        let refused = RequeueOutcome::Refused("limit_reached".to_owned());
        assert_eq!(requeue(&fixture).await, refused, "{ledger}: they wait");
        line::leave(&fixture.redis, &later, Leaver::Operator).await.unwrap();
        assert_eq!(requeue(&fixture).await, refused, "{ledger}: they wait, by the ledger");
        write_all(&fixture).await;
        assert_eq!(requeue(&fixture).await, RequeueOutcome::Joined, "{ledger}");
        write_all(&fixture).await;
        assert_eq!(report_of_sweep(&fixture).await.stopped, 0, "{ledger}");
        let found = load_from_ledger(&fixture.sql, &fixture.order_no(20), NOW).await.unwrap().unwrap();
        assert_eq!(found.status, Waiting, "{ledger}: without Redis, too");
    }
}

#[tokio::test]
async fn an_offer_is_replayed_whose_buyer_had_joined_again_before_it_failed() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 3, 2).await;
        fixture.change_spec(|spec| (spec.line.mode, spec.line.max_units) = (LineMode::Waitlist, Some(5))).await;
        fixture.pending_order(1, "user 2", 2).await;
        fixture.pending_order(2, "user 1", 1).await;
        // Redis forgets the units of a buyer, whom the ledger refuses more.
        fixture.run_redis(&["HDEL", &fixture.key("holders"), "phone:user 2"]).await;
        fixture.reserve(20, "user 2", 1).await.unwrap();
        fixture.cancel(&fixture.order_no(2)).await.unwrap();
        fixture.reserve(21, "user 2", 1).await.unwrap();
        write_all(&fixture).await;
        let failed = load_from_ledger(&fixture.sql, &fixture.order_no(20), NOW).await.unwrap().unwrap();
        assert_eq!(failed.status, Failed, "{ledger}");
        fixture.per_user = 4;
        fixture.change_spec(|spec| spec.per_user = 4).await;
        fixture.run_redis(&["HSET", &fixture.key("holders"), "phone:user 2", "2"]).await;
        fixture.reserve(3, "user 3", 1).await.unwrap();
        write_all(&fixture).await;
        assert_eq!(requeue(&fixture).await, RequeueOutcome::Joined, "{ledger}");
        write_all(&fixture).await;
        assert_eq!(report_of_sweep(&fixture).await.stopped, 0, "{ledger}");
    }
}

#[tokio::test]
async fn an_offer_of_an_old_redis_does_not_fail_but_waits() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        join(&fixture, 2).await;
        write_all(&fixture).await;
        fixture.cancel(&fixture.order_no(1)).await.unwrap();
        assert_eq!(find(&fixture, 2).await.status, Queued, "{ledger}");
        // Another Redis was rebuilt meanwhile: the ledger's epoch is later.
        epochs::raise(&fixture.sql, &fixture.activity, 1, 0, Millis(0)).await.unwrap();
        write_all(&fixture).await;
        assert_eq!(fixture.redis_status(&fixture.order_no(2)).await, None, "{ledger}");
        fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        sweep(&fixture).await;
        write_all(&fixture).await;
        assert_eq!(find(&fixture, 2).await.status, PendingPayment, "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_stops_no_sale_whose_line_is_being_restored() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 2).await;
        join(&fixture, 3).await;
        write_all(&fixture).await;
        fixture.delete_redis_keys().await;
        let begun = fixture.rebuild(ONE_ORDER).await.unwrap();
        assert!(matches!(begun, RebuildOutcome::Running(_)), "{begun:?}");
        assert_eq!(report_of_sweep(&fixture).await.stopped, 0, "{ledger}");
    }
}

#[tokio::test]
async fn nobody_leaves_a_line_that_is_about_to_be_rebuilt() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        let entry = join(&fixture, 2).await;
        write_all(&fixture).await;
        fixture.run_redis(&["HSET", &fixture.key("gate"), "stopped", "1 9"]).await;
        let leave = async || line::leave(&fixture.redis, &entry, Leaver::Buyer).await.unwrap();
        assert_eq!(leave().await, LeaveOutcome::Unknown, "{ledger}: its message would hold the rebuild up");
        fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert_eq!(leave().await, LeaveOutcome::Left("left_line".to_owned()), "{ledger}");
    }
}

#[tokio::test]
async fn a_rebuild_in_steps_restores_two_entries_with_one_place() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        for n in [2, 3, 4] {
            join(&fixture, n).await;
        }
        write_all(&fixture).await;
        // As a Redis gives them that lost its last second.
        fixture.sql.run("UPDATE line_entries SET sequence = 2", vec![]).await.unwrap();
        fixture.delete_redis_keys().await;
        while let RebuildOutcome::Running(_) = fixture.rebuild(ONE_ORDER).await.unwrap() {}
        for (n, ahead) in [(2, 0), (3, 1), (4, 2)] {
            assert_eq!(find(&fixture, n).await.ahead, Some(ahead), "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_line_that_only_redis_has_stops_its_sale() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        join(&fixture, 2).await;
        write_all(&fixture).await;
        fixture.sql.run("UPDATE line_entries SET state = 'ended', reason = 'left_line'", vec![]).await.unwrap();
        let (services, clock) = (Services::accepting(), || NOW);
        let report = completed(sweeper((&fixture.redis, &fixture.sql), &services, &clock).run(NOW).await);
        assert_eq!(report.stopped, 1, "{ledger}");
    }
}
