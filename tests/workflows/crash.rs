//! Tests that crash a workflow at every store call, before and after the call takes effect (D3, D4; I1, I4).
//!
//! A sweeper, a retry or an operator's second try always completes what the crash left behind.

use domain::{activity::ActivityState, order::OrderStatus};
use operations::{commands::activities::OperationOutcome, ledger::backlog};
use orders::dead_letters;
use sale::admission::Endpoint;
use stores::ports::{Redis as _, RedisValue};

use crate::{
    crash_points::{crash_at_every_call, crash_at_every_call_and_recover},
    fixture::{NOW, WHOLE_REBUILD, check_gates},
};

#[tokio::test]
async fn a_crashed_writer_loses_and_duplicates_no_order() {
    crash_at_every_call(
        5,
        async |fixture| {
            // A message that is no order is a dead letter.
            fixture.run_redis(&["XADD", &fixture.key("orders"), "*", "o", "nonsense"]).await;
            fixture.queue_orders(0..3).await;
        },
        async |fixture| fixture.write_batch().await.map(|_| ()),
        async |fixture, point| {
            assert_eq!(fixture.units().await, (2, 3, 0), "{point}");
            let left = fixture.redis.command("XLEN", vec![fixture.key("orders").into()]).await.unwrap();
            assert_eq!(left, [RedisValue::Int(0)], "{point}: a message stayed in the stream");
            for n in 0..3 {
                fixture.assert_status(&fixture.order_no(n), OrderStatus::PendingPayment, point).await;
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_start_key_rotation_is_completed_by_the_next_rotation() {
    use operations::commands::activities::OperatorContext;
    use sale::read_gate::read_gate;
    crash_at_every_call(
        1,
        async |_| {},
        async |fixture| {
            let operator = OperatorContext { nonce: "first".to_owned(), ..fixture.operator() };
            operator.rotate_start_key(&fixture.activity).await.map(|_| ())
        },
        async |fixture, point| {
            let operator = OperatorContext { nonce: "second".to_owned(), ..fixture.operator() };
            operator.rotate_start_key(&fixture.activity).await.unwrap();
            let key = domain::gate::start_key(crate::fixture::TICKET_SECRET, &fixture.activity, "second");
            let snapshot = read_gate(&fixture.redis, &fixture.activity).await.unwrap().unwrap();
            assert_eq!(Some(snapshot.gate.start_key), key, "{point}");
            let stored = fixture.stored().await;
            assert_eq!((stored.nonce.as_str(), stored.version), ("second", snapshot.version), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_announcement_reaches_the_gate_by_a_sweep_if_the_ledger_has_it() {
    use domain::activity::Announcement;
    use operations::upkeep::report::Report;
    use sale::read_gate::read_gate;
    let word = Announcement::from_text(r#"{"en":"Twenty more at noon."}"#).unwrap();
    crash_at_every_call(
        1,
        async |_| {},
        async |fixture| fixture.operator().announce(&fixture.activity, word.clone()).await.map(|_| ()),
        async |fixture, point| {
            let shown = async || read_gate(&fixture.redis, &fixture.activity).await.unwrap().unwrap().announcement;
            let listed = std::slice::from_ref(&fixture.activity);
            check_gates(&fixture.redis, &fixture.sql, listed, NOW.plus(20_000), &mut Report::default()).await;
            assert_eq!(shown().await, fixture.stored().await.announcement, "{point}");
            fixture.operator().announce(&fixture.activity, word.clone()).await.unwrap();
            assert_eq!(shown().await, word, "{point}");
            fixture.change_spec(|spec| spec.title = "Another".to_owned()).await;
            fixture.rebuild(WHOLE_REBUILD).await.unwrap();
            assert_eq!(shown().await, word, "{point}: a rebuild lost it");
        },
    )
    .await;
}

#[tokio::test]
async fn a_human_check_counts_once_after_a_crash_and_a_new_check_is_accepted() {
    use domain::{human_check::CheckRecord, ids::UserId};
    use sale::admission::{CheckOutcome, Visitor, admit, precheck};
    use ulid::Ulid;
    let visitor = |activity: &domain::ids::ActivityId| Visitor {
        activity: activity.clone(),
        user: UserId::parse("ada").unwrap(),
        ip: "192.0.2.1".to_owned(),
        counts: Vec::new(),
    };
    let passed = |id: &str| CheckOutcome::Passed(CheckRecord { id: id.to_owned(), expires_at: NOW.plus(60_000) });
    crash_at_every_call(
        1,
        async |_| {},
        async |fixture| {
            precheck(&fixture.redis, &visitor(&fixture.activity), Endpoint::Ticket(Ulid(1))).await?;
            admit(&fixture.redis, &visitor(&fixture.activity), &passed("one"), Ulid(1), NOW).await.map(|_| ())
        },
        async |fixture, point| {
            let visitor = visitor(&fixture.activity);
            let checked = precheck(&fixture.redis, &visitor, Endpoint::Ticket(Ulid(1))).await.unwrap();
            assert!(checked.outcome.is_ok(), "{point}");
            // The crashed request may have used the first check. After one more use it is refused.
            let _ = admit(&fixture.redis, &visitor, &passed("one"), Ulid(2), NOW).await.unwrap();
            assert!(admit(&fixture.redis, &visitor, &passed("one"), Ulid(3), NOW).await.unwrap().is_err(), "{point}");
            assert!(admit(&fixture.redis, &visitor, &passed("two"), Ulid(4), NOW).await.unwrap().is_ok(), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_replay_makes_one_order() {
    crash_at_every_call(
        1,
        async |fixture| {
            fixture.set_stock(2).await;
            fixture.reserve(1, "ada", 1).await.unwrap();
            fixture.reserve(2, "bob", 1).await.unwrap();
            assert_eq!(fixture.write_batch().await.unwrap().failed, 1);
            let letter = dead_letters::load(&fixture.sql, &fixture.order_no(2)).await.unwrap().expect("a dead letter");
            assert_eq!(letter.reason, "no_room_in_ledger");
            let refused = dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(2)).await.unwrap();
            assert_eq!(refused, dead_letters::RequeueOutcome::Refused("sold_out".to_owned()));
            fixture.restock(1).await;
        },
        async |fixture| dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(2)).await.map(|_| ()),
        async |fixture, point| {
            dead_letters::requeue(&fixture.redis, &fixture.sql, &fixture.order_no(2)).await.unwrap();
            assert_eq!(backlog::load(&fixture.sql).await.unwrap().dead_letters, 0, "{point}: it still waits");
            fixture.recover().await;
            assert_eq!(fixture.ledger_status(&fixture.order_no(2)).await, Some(OrderStatus::PendingPayment), "{point}");
            assert_eq!(fixture.units().await, (0, 2, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_publish_can_be_repeated() {
    crash_at_every_call_and_recover(
        5,
        async |fixture| {
            fixture.pending_order(1, "ada", 2).await;
            let keys = stores::keys::Keys::of(&fixture.activity);
            for key in ["gate", "stats", "holders", "orders"] {
                fixture.run_redis(&["DEL", &keys.named(key)]).await;
            }
        },
        async |fixture| fixture.operator().set_state(&fixture.activity, ActivityState::Published).await.map(|_| ()),
        async |fixture| {
            let again = fixture.set_state(ActivityState::Published).await;
            assert!(matches!(again, OperationOutcome::Done(_) | OperationOutcome::Unchanged(_)), "{again:?}");
            assert!(fixture.redis_status(&fixture.order_no(1)).await.is_some(), "published, and not there");
        },
        async |fixture, point| assert_eq!(fixture.units().await, (3, 2, 0), "{point}"),
    )
    .await;
}
