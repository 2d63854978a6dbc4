//! A Redis that loses the last orders that it accepted, and goes on: the sale stops, a sweep rebuilds it, and it opens
//! again without a person (G16; I1, I2, I4).

use std::collections::BTreeSet;

use domain::{http::problem::Code, order::OrderStatus};
use operations::upkeep::{
    budget::Budget,
    rebuild::{Progress, RebuildOutcome, Step, continue_interrupted},
    report::Report,
};
use orders::{ledger::events, stream};
use sale::{
    ledger::epochs,
    reserve::{Position, ReserveOutcome, ReserveReply, ReserveRequest, reserve},
};
use serde_json::json;
use stores::{Sql, ports::SqlValue};

use crate::{
    fakes::FakeEndpoint,
    fixture::{LEDGERS, NOW, ONE_ORDER, RealFixture, TICKET_SECRET, WHOLE_REBUILD, check_gates, new_fixture},
    operations::epochs::{pause, rebuild_and_resume, resume},
    orders::events::{LATER, TARGET, deliver_all},
};

/// Reserves a unit with ticket `n`, from an instance that knows of the order `last_order`.
async fn reserve_after(fixture: &RealFixture, last_order: Position, n: u64, user: &str) -> ReserveReply {
    let request = ReserveRequest { last_order, ..fixture.reservation(n, user, 1) };
    reserve(&fixture.redis, &request, false).await.unwrap()
}

/// Sweeps: finds the stopped sale, and rebuilds it.
async fn sweep(fixture: &RealFixture) -> (usize, Vec<RebuildOutcome>) {
    let mut report = Report::default();
    check_gates(&fixture.redis, &fixture.sql, std::slice::from_ref(&fixture.activity), NOW, &mut report).await;
    let rebuilt = continue_interrupted(&fixture.redis, &fixture.sql, TICKET_SECRET, NOW, Budget::SWEEP).await;
    (report.stopped, rebuilt.unwrap().into_iter().map(|(_, outcome)| outcome.unwrap()).collect())
}

const REFUSED: ReserveOutcome = ReserveOutcome::Refused(Code::NotReady, 0);

#[tokio::test]
async fn a_reservation_that_knows_of_a_lost_order_stops_the_sale_until_a_sweep_has_rebuilt_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let snapshot = fixture.snapshot_redis().await;
        let lost = fixture.reserve(1, "ada", 1).await.unwrap().position;
        assert_eq!(lost, Position { epoch: 1, sequence: 1 }, "{ledger}");
        fixture.lose_redis_writes(&snapshot).await;
        assert_eq!(reserve_after(&fixture, lost, 2, "bob").await.outcome, REFUSED, "{ledger}");
        // Nobody else buys either, and no operator's change opens the sale as it is.
        assert_eq!(fixture.refusal(3, "cyd", 1).await, Some(Code::NotReady), "{ledger}");
        assert_eq!(sweep(&fixture).await, (1, vec![RebuildOutcome::Done { orders: 0, epoch: 2 }]), "{ledger}");
        // Only its buyer knows of the lost order: the same ticket makes it again.
        assert_eq!(reserve_after(&fixture, lost, 1, "ada").await.position, Position { epoch: 2, sequence: 1 });
        assert_eq!(reserve_after(&fixture, lost, 2, "bob").await.outcome, ReserveOutcome::Refused(Code::SoldOut, 0));
        assert_eq!(sweep(&fixture).await, (0, vec![]), "{ledger}");
        let losses = operations::ledger::backlog::load(&fixture.sql).await.unwrap().redis_losses;
        assert!(losses > 0, "{ledger}: not counted");
    }
}

#[tokio::test]
async fn a_redis_of_an_older_epoch_than_an_instance_knows_is_stopped() {
    let fixture = new_fixture(LEDGERS[0], 1, 1).await;
    let later = Position { epoch: 2, sequence: 1 };
    assert_eq!(reserve_after(&fixture, later, 1, "ada").await.outcome, REFUSED);
    assert_eq!(sweep(&fixture).await, (1, vec![RebuildOutcome::Done { orders: 0, epoch: 3 }]));
    assert_eq!(reserve_after(&fixture, later, 1, "ada").await.position, Position { epoch: 3, sequence: 1 });
}

#[tokio::test]
async fn a_gate_behind_the_ledger_is_stopped_by_a_sweep_and_opens_with_every_order() {
    for ledger in LEDGERS {
        for paused in [false, true] {
            let fixture = new_fixture(ledger, 2, 1).await;
            if paused {
                pause(&fixture).await;
            }
            let snapshot = fixture.snapshot_redis().await;
            if paused {
                resume(&fixture).await;
            }
            fixture.pending_order(1, "ada", 1).await;
            fixture.lose_redis_writes(&snapshot).await;
            assert_eq!(sweep(&fixture).await, (1, vec![RebuildOutcome::Done { orders: 1, epoch: 2 }]), "{ledger}");
            assert_eq!(fixture.units().await, (1, 1, 0), "{ledger}");
            assert_eq!(fixture.refusal(2, "ada", 1).await, Some(Code::LimitReached), "{ledger}");
            assert_eq!(fixture.refusal(3, "bob", 1).await, None, "{ledger}");
        }
    }
}

#[tokio::test]
async fn two_orders_for_one_place_are_both_written_and_stop_the_sale() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let snapshot = fixture.snapshot_redis().await;
        let first = fixture.pending_order(1, "ada", 1).await;
        fixture.lose_redis_writes(&snapshot).await;
        // The second has the first one's place, and the third lies beyond what the ledger has seen.
        fixture.queue_orders([2, 3]).await;
        fixture.write_batch().await.unwrap();
        for order_no in [&first, &fixture.order_no(2), &fixture.order_no(3)] {
            assert_eq!(fixture.ledger_status(order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
        }
        assert_eq!(fixture.refusal(4, "cyd", 1).await, Some(Code::NotReady), "{ledger}");
        assert_eq!(sweep(&fixture).await, (1, vec![RebuildOutcome::Done { orders: 3, epoch: 2 }]), "{ledger}");
        assert_eq!(fixture.units().await, (0, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_unit_that_was_sold_again_stops_the_sale_and_belongs_to_its_first_buyer() {
    for ledger in LEDGERS {
        for (released, changed) in [(false, false), (false, true), (true, false)] {
            let fixture = new_fixture(ledger, 1, 1).await;
            let snapshot = fixture.snapshot_redis().await;
            let first = fixture.pending_order(1, "ada", 1).await;
            fixture.lose_redis_writes(&snapshot).await;
            fixture.pending_order(2, "bob", 1).await;
            assert_eq!(fixture.redis_status(&fixture.order_no(2)).await, Some(OrderStatus::Failed), "{ledger}");
            assert_eq!(fixture.refusal(3, "cyd", 1).await, Some(Code::NotReady), "{ledger}");
            if released {
                fixture.cancel(&first).await.unwrap();
            }
            // An operator who changes the sale rebuilds it, too.
            if changed {
                pause(&fixture).await;
                resume(&fixture).await;
            }
            assert_eq!(sweep(&fixture).await.0, usize::from(!changed), "{ledger}");
            assert_eq!(fixture.units().await, if released { (1, 0, 0) } else { (0, 1, 0) }, "{ledger}");
        }
    }
}

/// Redis loses the order of ticket `n`, the next reservation finds it, and a sweep rebuilds the sale.
async fn lose_order(fixture: &RealFixture, n: u64) {
    let snapshot = fixture.snapshot_redis().await;
    let lost = fixture.reserve(n, "ada", 1).await.unwrap().position;
    fixture.lose_redis_writes(&snapshot).await;
    assert_eq!(reserve_after(fixture, lost, n + 1, "bob").await.outcome, REFUSED);
    assert_eq!(sweep(fixture).await.0, 1);
}

#[tokio::test]
async fn the_shop_is_told_once_of_each_loss_in_order_and_of_no_operators_rebuild() {
    for ledger in LEDGERS {
        let (fixture, endpoint) = (new_fixture(ledger, 9, 1).await, FakeEndpoint::default());
        lose_order(&fixture, 1).await;
        events::set_enabled(&fixture.sql, true).await.unwrap();
        rebuild_and_resume(&fixture).await;
        deliver_all(&fixture, &endpoint, LATER).await;
        let types = || endpoint.documents().into_iter().map(|mut it| it["type"].take()).collect::<Vec<_>>();
        assert_eq!(types(), ["activity.paused", "activity.published"], "{ledger}: events were off, then no loss");
        endpoint.clear();
        lose_order(&fixture, 3).await;
        endpoint.responses.borrow_mut().push((500, ""));
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 0, "{ledger}");
        lose_order(&fixture, 5).await;
        let order_no = fixture.pending_order(7, "cyd", 1).await;
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 1, "{ledger}: the order's does not wait");
        assert_eq!(deliver_all(&fixture, &endpoint, LATER.plus(5_000)).await, 2, "{ledger}");
        let restored = "activity.restored";
        assert_eq!(types(), [restored, "order.pending_payment", restored, restored], "{ledger}");
        let (ids, last) = (endpoint.event_ids(), &endpoint.documents()[3]);
        assert_eq!((&ids[0], &last["data"]["epoch"]), (&ids[2], &5.into()), "{ledger}");
        assert_eq!(ids[1], format!("evt_{}_pending_payment", order_no.ulid()), "{ledger}");
        let expected = json!({
            "type": "activity.restored",
            "timestamp": NOW,
            "data": { "activity": fixture.activity, "epoch": 4 },
        });
        assert_eq!(endpoint.documents()[2], expected, "{ledger}");
    }
}

#[tokio::test]
async fn the_event_of_a_loss_is_listed_sent_again_and_erased_like_those_of_orders() {
    for ledger in LEDGERS {
        let (fixture, endpoint) = (new_fixture(ledger, 9, 1).await, FakeEndpoint::default());
        events::set_enabled(&fixture.sql, true).await.unwrap();
        lose_order(&fixture, 1).await;
        assert_eq!(events::count_waiting(&fixture.sql).await.unwrap(), 1, "{ledger}");
        let statement = "UPDATE endpoints SET rest_until = 0 WHERE url = ?1";
        for _ in 0..4 {
            endpoint.responses.borrow_mut().push((410, ""));
            assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 0, "{ledger}");
            fixture.sql.run(statement, vec![TARGET.url.into()]).await.unwrap();
            fixture.sql.run("UPDATE events SET next_try_at = 0", Vec::new()).await.unwrap();
        }
        let failed = events::list(&fixture.sql, &events::EventFilter::default(), "", 200).await.unwrap();
        assert_eq!((failed.len(), failed[0].id.as_str()), (1, endpoint.event_ids()[0].as_str()), "{ledger}");
        assert_eq!((&failed[0].activity, &failed[0].order_no), (&Some(fixture.activity.clone()), &None), "{ledger}");
        assert_eq!(failed[0].r#type, "activity.restored", "{ledger}");
        assert_eq!(events::resend(&fixture.sql, None, LATER).await.unwrap(), (1, false), "{ledger}");
        fixture.sql.run("DELETE FROM endpoints", Vec::new()).await.unwrap();
        assert_eq!(deliver_all(&fixture, &endpoint, LATER).await, 1, "{ledger}");
        assert_eq!(events::erase(&fixture.sql, LATER.plus(7 * 24 * 3_600_000), 100).await.unwrap(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_failover_that_loses_a_rebuild_or_its_end_is_rebuilt_by_sweeps() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        let before = fixture.snapshot_redis().await;
        rebuild_and_resume(&fixture).await;
        fixture.lose_redis_writes(&before).await;
        assert_eq!(sweep(&fixture).await, (0, vec![RebuildOutcome::Done { orders: 1, epoch: 3 }]), "{ledger}");
        assert_eq!(fixture.refusal(2, "bob", 1).await, None, "{ledger}");

        pause(&fixture).await;
        while !matches!(
            fixture.rebuild(ONE_ORDER).await.unwrap(),
            RebuildOutcome::Running(Progress { step: Step::Restore, .. })
        ) {}
        let unfinished = fixture.snapshot_redis().await;
        fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        resume(&fixture).await;
        fixture.lose_redis_writes(&unfinished).await;
        assert_eq!(sweep(&fixture).await, (0, vec![]), "{ledger}: the rebuild may be a request's");
        let rebuilt =
            continue_interrupted(&fixture.redis, &fixture.sql, TICKET_SECRET, NOW.plus(10_000), Budget::SWEEP);
        let outcomes: Vec<_> = rebuilt.await.unwrap().into_iter().map(|(_, outcome)| outcome.unwrap()).collect();
        assert_eq!(outcomes, [RebuildOutcome::Done { orders: 2, epoch: 4 }], "{ledger}");
        assert_eq!(fixture.units().await, (0, 2, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_large_sale_that_is_rebuilt_leaves_time_to_the_others() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 2, 1).await;
        fixture.queue_orders([1, 2]).await;
        fixture.write_batch().await.unwrap();
        let (first, second) = (fixture.publish_another(|_| {}).await, fixture.activity.clone());
        for activity in [&first, &second] {
            stream::stop(&fixture.redis, activity, Position { epoch: 1, sequence: 9 }).await.unwrap();
        }
        let listed = [first, second];
        let mut rebuilt = BTreeSet::new();
        for round in 0..20 {
            // Later than any rebuild is left to a request, however slow this machine is.
            let now = NOW.plus(round * 60_000);
            check_gates(&fixture.redis, &fixture.sql, &listed, now, &mut Report::default()).await;
            let outcomes =
                continue_interrupted(&fixture.redis, &fixture.sql, TICKET_SECRET, now, ONE_ORDER).await.unwrap();
            assert_eq!(outcomes.len(), usize::from(rebuilt.len() < 2), "{ledger}: one has all the time of a sweep");
            let done = |(_, outcome): &(_, Result<_, _>)| matches!(outcome, Ok(RebuildOutcome::Done { .. }));
            rebuilt.extend(outcomes.into_iter().filter(done).map(|(activity, _)| activity.to_string()));
        }
        assert_eq!(rebuilt.len(), 2, "{ledger}");
    }
}

#[tokio::test]
async fn a_loss_whose_count_got_no_answer_is_counted_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let listed = std::slice::from_ref(&fixture.activity);
        stream::stop(&fixture.redis, &fixture.activity, Position { epoch: 1, sequence: 9 }).await.unwrap();
        check_gates(&fixture.redis, &fixture.sql, listed, NOW, &mut Report::default()).await;
        // A rebuild has deleted the gate and counted the loss with the new epoch, and does not know it.
        fixture.run_redis(&["DEL", &fixture.key("gate")]).await;
        epochs::raise(&fixture.sql, &fixture.activity, 1, 1, NOW).await.unwrap();
        assert_eq!(sweep(&fixture).await, (0, vec![RebuildOutcome::Done { orders: 0, epoch: 3 }]), "{ledger}");
        let statement = "SELECT losses FROM epochs WHERE activity = ?1";
        let rows = fixture.sql.run(statement, vec![fixture.activity.as_str().into()]).await.unwrap();
        assert_eq!(rows, [[SqlValue::Int(1)]], "{ledger}");
    }
}
