//! Cancelling, expiring, paying and refunding, on both ledgers (C4, E3–E5; I1, I5, I6).

use domain::{money::Money, order::Status, webhook::Payment};
use workflows::{
    Redis, StoreError,
    keys::Keys,
    ledger::payments,
    payments::{
        callbacks::{self, Applied},
        commands::{self, CommandOutcome},
    },
};

use crate::fixture::{LEDGERS, NOW, world};

#[tokio::test]
async fn an_order_is_written_and_paid() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 2).await;
        let order_no = world.order(1, "ada", 2).await;
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}");
        assert_eq!(world.units().await, (3, 2, 0), "{ledger}");
        assert_eq!(world.paid(&order_no, "e1").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.paid(&order_no, "e1").await.unwrap(), Applied::Duplicate, "{ledger}");
        assert_eq!(world.paid(&order_no, "e2").await.unwrap(), Applied::Duplicate, "{ledger}");
        assert_eq!(world.units().await, (3, 0, 2), "{ledger}");
        assert_eq!(world.hot_status(&order_no).await, Some(Status::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn a_wrong_amount_never_pays() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 2).await;
        let order_no = world.order(1, "ada", 2).await;
        assert_eq!(world.apply("payment.succeeded", &order_no, "e", 199).await.unwrap(), Applied::Held, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}");
    }
}

#[tokio::test]
async fn one_of_cancel_expire_and_pay_wins() {
    for ledger in LEDGERS {
        let world = world(ledger, 30, 1).await;
        for n in 0..30 {
            let order_no = world.order(n, &format!("user {n}"), 1).await;
            let (cancelled, expired, paid) =
                tokio::join!(world.cancel(&order_no), world.expire(), world.paid(&order_no, "e"),);
            expired.unwrap();
            let (cancelled, paid) = (cancelled.unwrap(), paid.unwrap());
            let status = world.status(&order_no).await.unwrap();
            match status {
                // Money was there: whoever released it first, the unit was free to be taken again.
                Status::Paid => assert_eq!(paid, Applied::Changed),
                other => panic!("{ledger}: a payment came, and the order is {other:?} ({cancelled:?})"),
            }
        }
        world.recover().await;
        assert_eq!(world.units().await, (0, 0, 30), "{ledger}");
    }
}

#[tokio::test]
async fn cancel_and_expiry_return_a_unit_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 10, 1).await;
        for n in 0..10 {
            let order_no = world.order(n, &format!("user {n}"), 1).await;
            let (cancelled, _, _) = tokio::join!(world.cancel(&order_no), world.expire(), world.expire());
            let status = world.status(&order_no).await.unwrap();
            match cancelled.unwrap() {
                CommandOutcome::Done(_) => assert_eq!(status, Status::Cancelled),
                _ => assert_eq!(status, Status::Expired),
            }
        }
        world.recover().await;
        assert_eq!(world.units().await, (10, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_late_payment_takes_the_unit_again_if_one_is_free() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        world.expire().await.unwrap();
        assert_eq!(world.units().await, (1, 0, 0), "{ledger}");
        assert_eq!(world.paid(&order_no, "e").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_late_payment_is_refunded_if_none_is_free() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let late = world.order(1, "ada", 1).await;
        world.expire().await.unwrap();
        world.order(2, "bob", 1).await;
        assert_eq!(world.paid(&late, "e").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.status(&late).await, Some(Status::Refunding), "{ledger}");
        assert_eq!(world.units().await, (0, 1, 0), "{ledger}");
        assert_eq!(world.open_refunds().await, 1, "{ledger}");
        assert_eq!(world.apply("refund.succeeded", &late, "r", 100).await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.status(&late).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(world.units().await, (0, 1, 0), "{ledger}: nothing was returned that was not held");
    }
}

#[tokio::test]
async fn a_refund_puts_the_unit_back_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let order_no = world.paid_order(1, "ada").await;
        for _ in 0..2 {
            let asked = world.ask_refund(&order_no).await.unwrap();
            assert!(matches!(asked, CommandOutcome::Done(_)), "{ledger}");
        }
        assert_eq!(world.units().await, (2, 0, 1), "{ledger}");
        for event in ["r1", "r2"] {
            world.apply("refund.succeeded", &order_no, event, 100).await.unwrap();
        }
        assert_eq!(world.units().await, (3, 0, 0), "{ledger}");
        assert_eq!(world.hot_status(&order_no).await, Some(Status::Refunded), "{ledger}");
    }
}

#[tokio::test]
async fn an_unpaid_order_is_not_refunded() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        let asked = world.ask_refund(&order_no).await.unwrap();
        assert!(matches!(asked, CommandOutcome::Conflict(_)), "{ledger}");
        assert_eq!(world.open_refunds().await, 0, "{ledger}");
    }
}

#[tokio::test]
async fn starting_to_pay_extends_the_hold_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        for _ in 0..2 {
            let started = commands::start_payment(&world.redis, &world.sql, &order_no, "/pay", 0, NOW).await.unwrap();
            let CommandOutcome::Done(order) = started else { panic!("{ledger}: {started:?}") };
            assert_eq!(order.pay_by, Some(NOW.plus(300_000 + 60_000)), "{ledger}");
        }
        let late = commands::start_payment(&world.redis, &world.sql, &order_no, "/pay", 0, NOW.plus(400_000)).await;
        assert!(matches!(late.unwrap(), CommandOutcome::Conflict(_)), "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_that_waits_for_a_rebuild_holds_up_no_other_sale() {
    for ledger in LEDGERS {
        let mut world = world(ledger, 2, 1).await;
        let rebuilding = world.order(1, "ada", 1).await;
        world.cancel(&rebuilding).await.unwrap();
        let gate = Keys::of(&world.activity).named("gate");
        world.redis.command("HSET", vec![gate.clone().into(), "restoring".into(), "1".into()]).await.unwrap();
        assert_eq!(world.paid(&rebuilding, "late").await.unwrap_err(), StoreError::Rebuilding, "{ledger}");

        let first = world.another_sale().await;
        let other = world.order(1, "bob", 1).await;
        let event = Payment {
            id: "noted".to_owned(),
            kind: "payment.succeeded".to_owned(),
            order_no: other.to_string(),
            payment: "pay".to_owned(),
            money: Money::new(100, "EUR"),
            ..Payment::default()
        };
        payments::record_callback(&world.sql, &event, NOW.plus(1)).await.unwrap();
        let later = NOW.plus(60_000);
        let mut waiting = 0;
        let finish = async |waiting: &mut usize| callbacks::finish(&world.redis, &world.sql, later, 1, waiting).await;
        assert_eq!((finish(&mut waiting).await.unwrap(), waiting), (0, 1), "{ledger}");
        assert_eq!((finish(&mut waiting).await.unwrap(), waiting), (1, 1), "{ledger}: the next one has its turn");
        assert_eq!(world.status(&other).await, Some(Status::Paid), "{ledger}");

        world.activity = first;
        world.redis.command("HDEL", vec![gate.into(), "restoring".into()]).await.unwrap();
        assert_eq!(callbacks::finish(&world.redis, &world.sql, later, 1, &mut 0).await.unwrap(), 1, "{ledger}");
        assert_eq!(world.status(&rebuilding).await, Some(Status::Paid), "{ledger}: a unit was free");
    }
}

#[tokio::test]
async fn money_that_comes_when_the_orders_record_is_gone_takes_a_free_unit_or_goes_back() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let [late, later] = [world.order(1, "ada", 1).await, world.order(2, "bob", 1).await];
        for order_no in [&late, &later] {
            world.cancel(order_no).await.unwrap();
            let record = Keys::of(&world.activity).order(order_no.ulid());
            world.redis.command("DEL", vec![record.into()]).await.unwrap();
        }
        world.order(3, "cyd", 1).await;
        assert_eq!(world.paid(&late, "days later").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!((world.status(&late).await, world.units().await), (Some(Status::Paid), (0, 1, 1)), "{ledger}");
        assert_eq!(world.hot_status(&late).await, Some(Status::Paid), "{ledger}");
        world.paid(&later, "later still").await.unwrap();
        assert_eq!(world.status(&later).await, Some(Status::Refunding), "{ledger}: there was none left");
        assert_eq!(world.units().await, (0, 1, 1), "{ledger}");
        world.ask_refund(&late).await.unwrap();
        world.money_back(&late, "back").await.unwrap();
        assert_eq!(world.units().await, (1, 1, 0), "{ledger}: the unit is back once");
    }
}
