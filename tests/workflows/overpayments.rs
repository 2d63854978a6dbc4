//! Money that no order wants, and callbacks that wait for an operator, on both ledgers (E2, E5, I6).

use domain::{ids::OrderNo, money::Money, order::Status, webhook::Payment};
use futures::future::join_all;
use workflows::{
    Redis, Sql, StoreError,
    ledger::{
        payments,
        refunds::{self, Book},
    },
    payments::callbacks::{
        self, Applied,
        held::{self, Resolved},
    },
};

use crate::{
    fakes::{Refunding, Till},
    fixture::{LEDGERS, NOW, World, world},
};

impl<R: Redis, S: Sql> World<R, S> {
    /// A payment with an id of its own.
    pub async fn another_payment(&self, order_no: &OrderNo, payment: &str) -> Result<Applied, StoreError> {
        let event = Payment {
            id: format!("evt-{payment}"),
            kind: "payment.succeeded".to_owned(),
            order_no: order_no.to_string(),
            payment: payment.to_owned(),
            money: Money::new(100, "EUR"),
            ..Payment::default()
        };
        callbacks::apply(&self.redis, &self.sql, &event, NOW).await
    }
}

#[tokio::test]
async fn money_that_came_twice_goes_back_and_the_order_stays_paid() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        world.another_payment(&order_no, "first").await.unwrap();
        for _ in 0..2 {
            world.another_payment(&order_no, "second").await.unwrap();
        }
        let open = refunds::open(&world.sql).await.unwrap();
        assert_eq!(open.len(), 1, "{ledger}: {open:?}");
        assert_eq!((open[0].book, open[0].payment.as_str()), (Book::Overpayments, "second"), "{ledger}");
        till.refunding.set(Refunding::AtOnce);
        world.send_refunds(&till, 0).await.unwrap();
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_duplicates_at_once_pay_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        let all = (0..1_000).map(|_| world.paid(&order_no, "e"));
        let applied: Vec<_> = join_all(all).await.into_iter().map(Result::unwrap).collect();
        assert!(applied.iter().all(|applied| *applied != Applied::Held), "{ledger}");
        assert_eq!(applied.iter().filter(|applied| **applied == Applied::Changed).count(), 1, "{ledger}");
        assert_eq!(world.units().await, (4, 0, 1), "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_duplicates_of_late_money_take_one_unit_or_start_one_refund() {
    for ledger in LEDGERS {
        for free in [true, false] {
            let world = world(ledger, 1, 1).await;
            let order_no = world.order(1, "ada", 1).await;
            world.expire().await.unwrap();
            if !free {
                world.order(2, "bob", 1).await;
            }
            for applied in join_all((0..1_000).map(|_| world.paid(&order_no, "e"))).await {
                assert_ne!(applied.unwrap(), Applied::Held, "{ledger}");
            }
            world.recover().await;
            let status = world.status(&order_no).await;
            if free {
                assert_eq!((status, world.units().await), (Some(Status::Paid), (0, 0, 1)), "{ledger}");
            } else {
                assert_eq!((status, world.units().await), (Some(Status::Refunding), (0, 1, 0)), "{ledger}");
                assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 1, "{ledger}");
            }
        }
    }
}

#[tokio::test]
async fn late_money_that_came_twice_is_kept_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        world.expire().await.unwrap();
        let (first, second) =
            tokio::join!(world.another_payment(&order_no, "first"), world.another_payment(&order_no, "second"));
        first.unwrap();
        second.unwrap();
        world.recover().await;
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 1, "{ledger}: the other one goes back");
        assert_eq!(world.units().await, (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_is_confirmed_once_and_only_with_its_own_payment_and_amount() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let order_no = world.refunding_order(1, "ada").await;
        assert_eq!(world.apply("refund.succeeded", &order_no, "r0", 99).await.unwrap(), Applied::Held, "{ledger}");
        let (one, two) = tokio::join!(world.money_back(&order_no, "r1"), world.money_back(&order_no, "r2"));
        assert!([one.unwrap(), two.unwrap()].contains(&Applied::Changed), "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn money_that_went_back_at_the_providers_desk_is_followed() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let order_no = world.paid_order(1, "ada").await;
        assert_eq!(world.money_back(&order_no, "r").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(world.hot_status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_for_an_order_that_is_not_written_yet_is_held_and_replayed() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        world.reserve(1, "ada", 1).await.unwrap();
        let order_no = world.order_no(1);
        assert_eq!(world.another_payment(&order_no, "early").await.unwrap(), Applied::Held, "{ledger}");
        let waiting = payments::held(&world.sql).await.unwrap();
        assert_eq!((waiting.len(), waiting[0].outcome.as_str()), (1, "unknown_order"), "{ledger}");
        let replay = async || held::replay(&world.redis, &world.sql, &waiting[0].id, NOW).await.unwrap();
        assert_eq!(replay().await, Resolved::Done(Applied::Held), "{ledger}: still unknown");
        world.write().await.unwrap();
        assert_eq!(replay().await, Resolved::Done(Applied::Changed), "{ledger}");
        assert_eq!(replay().await, Resolved::NotHeld, "{ledger}: once");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn held_money_can_be_given_back_or_put_away_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let order_no = world.order(1, "ada", 1).await;
        for event in ["a", "b"] {
            assert_eq!(world.apply("payment.succeeded", &order_no, event, 99).await.unwrap(), Applied::Held);
        }
        let id = |event: &str| format!("{event}-{order_no}");
        let refund = async |id: &str| held::refund(&world.sql, id).await.unwrap();
        assert_eq!(refund(&id("a")).await, Resolved::Done(Applied::Changed), "{ledger}");
        assert_eq!(refund(&id("a")).await, Resolved::NotHeld, "{ledger}");
        assert_eq!(held::dismiss(&world.sql, &id("b")).await.unwrap(), Resolved::Done(Applied::Changed));
        assert_eq!(payments::held(&world.sql).await.unwrap(), [], "{ledger}");
        let open = refunds::open(&world.sql).await.unwrap();
        assert_eq!((open.len(), open[0].money.amount), (1, 99), "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}: the order is untouched");
    }
}
