//! Dying at every call to a store, before and after it took effect: what is left is always finished (D3, E3, G3; I1–I6).

use domain::{activity::State, order::Status};
use workflows::{
    Redis,
    operator::activities::OperationOutcome,
    queue::{dead_letters, order_writer},
    recovery::rebuild::{Rebuilt, rebuild},
};

use crate::{
    crash_points::{die_everywhere, die_everywhere_and_mend},
    fixture::{NOW, SECRET},
};

#[tokio::test]
async fn a_writer_that_dies_loses_and_doubles_nothing() {
    die_everywhere(
        "order writer: a batch",
        5,
        async |world| {
            for n in 0..3 {
                world.reserve(n, &format!("user {n}"), 1).await.unwrap();
            }
        },
        async |world| world.write().await.map(|_| ()),
        async |world, point| {
            assert_eq!(world.units().await, (2, 3, 0), "{point}");
            for n in 0..3 {
                assert_eq!(world.status(&world.order_no(n)).await, Some(Status::PendingPayment), "{point}");
                assert_eq!(world.hot_status(&world.order_no(n)).await, Some(Status::PendingPayment), "{point}");
            }
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweeper_that_dies_returns_every_unit_once() {
    die_everywhere(
        "sweeper: a batch of due orders",
        3,
        async |world| {
            for n in 0..3 {
                world.order(n, &format!("user {n}"), 1).await;
            }
        },
        async |world| world.expire().await.map(|_| ()),
        async |world, point| {
            world.expire().await.unwrap();
            assert_eq!(world.units().await, (3, 0, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_cancel_that_dies_is_done_or_not() {
    die_everywhere(
        "checkout: a cancel",
        1,
        async |world| {
            world.order(1, "ada", 1).await;
        },
        async |world| world.cancel(&world.order_no(1)).await.map(|_| ()),
        async |world, point| match world.status(&world.order_no(1)).await {
            Some(Status::Cancelled) => assert_eq!(world.units().await, (1, 0, 0), "{point}"),
            status => assert_eq!((status, world.units().await), (Some(Status::PendingPayment), (0, 1, 0)), "{point}"),
        },
    )
    .await;
}

#[tokio::test]
async fn a_payment_callback_that_dies_is_finished_when_it_comes_again() {
    die_everywhere(
        "payment callback: in time",
        1,
        async |world| {
            world.order(1, "ada", 1).await;
        },
        async |world| world.paid(&world.order_no(1), "e").await.map(|_| ()),
        async |world, point| {
            world.paid(&world.order_no(1), "e").await.unwrap();
            assert_eq!(world.status(&world.order_no(1)).await, Some(Status::Paid), "{point}");
            assert_eq!(world.units().await, (0, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_late_payment_that_dies_takes_one_unit_or_is_refunded() {
    for free in [true, false] {
        die_everywhere(
            if free { "payment callback: late, a unit is free" } else { "payment callback: late, no unit is free" },
            1,
            async |world| {
                world.order(1, "ada", 1).await;
                world.expire().await.unwrap();
                if !free {
                    world.order(2, "bob", 1).await;
                }
            },
            async |world| world.paid(&world.order_no(1), "e").await.map(|_| ()),
            async |world, point| {
                world.paid(&world.order_no(1), "e").await.unwrap();
                let status = world.status(&world.order_no(1)).await;
                if free {
                    assert_eq!((status, world.units().await), (Some(Status::Paid), (0, 0, 1)), "{point}");
                } else {
                    assert_eq!((status, world.units().await), (Some(Status::Refunding), (0, 1, 0)), "{point}");
                    assert_eq!(world.open_refunds().await, 1, "{point}");
                }
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_rotation_of_the_start_key_that_dies_is_finished_by_another_one() {
    use workflows::{hot::read_gate::read_gate, ledger::activities, operator::activities::OperatorContext};
    die_everywhere(
        "operator: a start key rotated",
        1,
        async |_| {},
        async |world| {
            let desk = OperatorContext { nonce: "first".to_owned(), ..world.desk() };
            desk.rotate_start_key(&world.activity).await.map(|_| ())
        },
        async |world, point| {
            let desk = OperatorContext { nonce: "second".to_owned(), ..world.desk() };
            desk.rotate_start_key(&world.activity).await.unwrap();
            let key = domain::gate::start_key(crate::fixture::SECRET, &world.activity, "second");
            let glance = read_gate(&world.redis, &world.activity).await.unwrap().unwrap();
            assert_eq!(Some(glance.gate.start_key), key, "{point}");
            let kept = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
            assert_eq!((kept.nonce.as_str(), kept.version), ("second", glance.version), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_human_check_whose_ticket_was_lost_is_used_up_and_another_one_counts() {
    use domain::{check::Proof, ids::UserId};
    use workflows::hot::admission::{Check, Visitor, admit, precheck};
    let visitor = |activity: &domain::ids::ActivityId| Visitor {
        activity: activity.clone(),
        user: UserId::parse("ada").unwrap(),
        ip: "192.0.2.1".to_owned(),
        abused: Vec::new(),
    };
    let passed = |id: &str| Check::Passed(Proof { id: id.to_owned(), expires_at: NOW.plus(60_000) });
    die_everywhere(
        "admission: a human check used up",
        1,
        async |_| {},
        async |world| {
            precheck(&world.redis, &visitor(&world.activity), "ticket").await?;
            admit(&world.redis, &visitor(&world.activity), &passed("one"), NOW).await.map(|_| ())
        },
        async |world, point| {
            let visitor = visitor(&world.activity);
            assert!(precheck(&world.redis, &visitor, "ticket").await.unwrap().outcome.is_ok(), "{point}");
            // The first check may or may not have been used up; once more it is not good, and a second one is.
            admit(&world.redis, &visitor, &passed("one"), NOW).await.unwrap();
            assert!(!admit(&world.redis, &visitor, &passed("one"), NOW).await.unwrap(), "{point}");
            assert!(admit(&world.redis, &visitor, &passed("two"), NOW).await.unwrap(), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_refund_that_dies_is_done_once() {
    die_everywhere(
        "refund: asked for and confirmed",
        2,
        async |world| {
            world.paid_order(1, "ada").await;
        },
        async |world| {
            world.ask_refund(&world.order_no(1)).await?;
            world.apply("refund.succeeded", &world.order_no(1), "r", 100).await.map(|_| ())
        },
        async |world, point| {
            world.ask_refund(&world.order_no(1)).await.unwrap();
            world.apply("refund.succeeded", &world.order_no(1), "r2", 100).await.unwrap();
            assert_eq!(world.status(&world.order_no(1)).await, Some(Status::Refunded), "{point}");
            assert_eq!(world.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_replay_that_dies_makes_one_order() {
    die_everywhere(
        "operator: a dead letter put back",
        1,
        async |world| {
            let stock = workflows::keys::Keys::of(&world.activity).stock(&world.sku);
            world.redis.command("SET", vec![stock.into(), "2".into()]).await.unwrap();
            world.reserve(1, "ada", 1).await.unwrap();
            world.reserve(2, "bob", 1).await.unwrap();
            assert_eq!(world.write().await.unwrap().failed, 1);
            world.desk().restock(&world.activity, &world.sku, 1, None).await.unwrap();
        },
        async |world| dead_letters::replay(&world.redis, &world.sql, &world.order_no(2), NOW).await.map(|_| ()),
        async |world, point| {
            dead_letters::replay(&world.redis, &world.sql, &world.order_no(2), NOW).await.unwrap();
            world.recover().await;
            assert_eq!(world.status(&world.order_no(2)).await, Some(Status::PendingPayment), "{point}");
            assert_eq!(world.units().await, (0, 2, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_rebuild_that_dies_is_begun_again_and_counts_every_unit_once() {
    die_everywhere_and_mend(
        "operator: a rebuild",
        5,
        async |world| {
            let paid = world.order(1, "ada", 2).await;
            world.paid(&paid, "e").await.unwrap();
            world.order(2, "bob", 1).await;
            world.reserve(3, "cyd", 1).await.unwrap();
            world.desk().set_state(&world.activity, State::Paused).await.unwrap();
        },
        async |world| rebuild(&world.redis, &world.sql, &world.activity, SECRET, NOW).await.map(|_| ()),
        async |world| {
            world.recover().await;
            let again = rebuild(&world.redis, &world.sql, &world.activity, SECRET, NOW).await.unwrap();
            assert!(matches!(again, Rebuilt::Done { orders: 3, .. }), "{again:?}");
        },
        async |world, point| {
            assert_eq!(world.units().await, (1, 2, 2), "{point}");
            assert!(
                order_writer::tick(&world.redis, &world.sql, &world.activity, NOW).await.unwrap().taken == 0,
                "{point}"
            );
        },
    )
    .await;
}

#[tokio::test]
async fn a_publish_that_dies_is_done_again() {
    die_everywhere_and_mend(
        "operator: a sale published after Redis lost it",
        5,
        async |world| {
            world.order(1, "ada", 2).await;
            let keys = workflows::keys::Keys::of(&world.activity);
            for key in ["gate", "stock:phone", "stats", "queue", "holders:phone", "winners", "orders"] {
                world.redis.command("DEL", vec![keys.named(key).into()]).await.unwrap();
            }
        },
        async |world| world.desk().set_state(&world.activity, State::Published).await.map(|_| ()),
        async |world| {
            let again = world.desk().set_state(&world.activity, State::Published).await.unwrap();
            assert!(matches!(again, OperationOutcome::Done(_)), "{again:?}");
            if world.hot_status(&world.order_no(1)).await.is_none()
                || workflows::operator::audit::audit(&world.redis, &world.sql, &world.activity, 2)
                    .await
                    .unwrap()
                    .is_none()
            {
                panic!("published, and not there");
            }
        },
        async |world, point| assert_eq!(world.units().await, (3, 2, 0), "{point}"),
    )
    .await;
}
