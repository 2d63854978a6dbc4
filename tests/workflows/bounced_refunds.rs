//! Refunds that a provider confirmed, and whose money came back to us all the same, on both ledgers (E4; I6).

use domain::{ids::OrderNo, money::Money, order::Status, webhook::Payment};
use workflows::{
    Redis, Sql,
    ledger::{
        backlog::load,
        payments,
        refunds::{self, Book},
    },
    payments::callbacks::{
        self, Applied,
        held::{self, Resolved},
    },
};

use crate::{
    crash_points::die_everywhere,
    fakes::{Refunding, Till},
    fixture::{LEDGERS, NOW, World, world},
};

impl<R: Redis, S: Sql> World<R, S> {
    /// A provider says that a refund of the order's own payment failed.
    async fn refund_failed(&self, order_no: &OrderNo, payment: &str, refund: &str, event: &str) -> Applied {
        let event = Payment {
            id: event.to_owned(),
            kind: "refund.failed".to_owned(),
            order_no: order_no.to_string(),
            payment: payment.to_owned(),
            money: Money::new(100, "EUR"),
            refund: refund.to_owned(),
            ..Payment::default()
        };
        callbacks::apply(&self.redis, &self.sql, &event, NOW).await.unwrap()
    }

    async fn held(&self) -> Vec<(String, String)> {
        let held = payments::held(&self.sql).await.unwrap();
        held.into_iter().map(|callback| (callback.id, callback.outcome)).collect()
    }
}

fn bounced(id: &str) -> Vec<(String, String)> {
    vec![(id.to_owned(), "refund_bounced".to_owned())]
}

#[tokio::test]
async fn a_refund_that_bounces_after_it_was_confirmed_is_held_and_sent_again_by_an_operator() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.refunding_order(1, "ada").await;
        let payment = format!("pay-{order_no}");
        till.refunding.set(Refunding::AtOnce);
        world.send_refunds(&till, 0).await.unwrap();
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");

        assert_eq!(world.refund_failed(&order_no, &payment, "re_0", "f1").await, Applied::Held, "{ledger}");
        assert_eq!(world.held().await, bounced("f1"), "{ledger}: an operator sees it");
        assert_eq!(load(&world.sql).await.unwrap().held_callbacks, 1, "{ledger}");
        assert_eq!(payments::erase(&world.sql, NOW.plus(1), 10).await.unwrap(), 2, "{ledger}: the held one stays");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}: nothing is sent that nobody asked for");
        assert_eq!(held::refund(&world.sql, "f1").await.unwrap(), Resolved::NotHeld, "{ledger}: it is no payment");

        let replay = async || held::replay(&world.redis, &world.sql, "f1", NOW).await.unwrap();
        assert_eq!(replay().await, Resolved::Done(Applied::Changed), "{ledger}");
        assert_eq!(replay().await, Resolved::NotHeld, "{ledger}: once");
        let open = refunds::open(&world.sql).await.unwrap();
        assert_eq!((open.len(), open[0].book, open[0].failures), (1, Book::Orders, 1), "{ledger}");
        world.send_refunds(&till, 60_000).await.unwrap();
        assert_eq!(till.refunds.borrow().len(), 2, "{ledger}: another refund");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}: confirmed");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}: its unit was put back once");

        // The first one's failure is told again, under other names: the second one is where the money went.
        assert_eq!(world.refund_failed(&order_no, &payment, "re_0", "f2").await, Applied::Duplicate, "{ledger}");
        assert_eq!(world.held().await, [], "{ledger}");
        assert_eq!(world.refund_failed(&order_no, &payment, "re_1", "f3").await, Applied::Held, "{ledger}");
        assert_eq!(held::dismiss(&world.sql, "f3").await.unwrap(), Resolved::Done(Applied::Changed), "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test]
async fn money_that_no_order_wanted_bounces_alike() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.paid_order(1, "ada").await;
        world.another_payment(&order_no, "second").await.unwrap();
        till.refunding.set(Refunding::AtOnce);
        world.send_refunds(&till, 0).await.unwrap();
        assert_eq!(world.refund_failed(&order_no, "second", "re_0", "f").await, Applied::Held, "{ledger}");
        assert_eq!(world.held().await, bounced("f"), "{ledger}");
        held::replay(&world.redis, &world.sql, "f", NOW).await.unwrap();
        world.send_refunds(&till, 60_000).await.unwrap();
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}");
        assert_eq!(till.refunds.borrow().len(), 2, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn a_failed_refund_of_nothing_that_was_refunded_changes_nothing_unless_its_payment_is_unknown() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        let order_no = world.paid_order(1, "ada").await;
        let own = format!("pay-{order_no}");
        assert_eq!(world.refund_failed(&order_no, &own, "re_0", "f1").await, Applied::Duplicate, "{ledger}");
        assert_eq!(world.refund_failed(&order_no, "other", "re_0", "f2").await, Applied::Held, "{ledger}");
        assert_eq!(world.held().await, [("f2".to_owned(), "unknown_payment".to_owned())], "{ledger}");
    }
}

#[tokio::test]
async fn an_operator_who_dies_while_a_bounced_refund_is_replayed_has_it_sent_once_more() {
    let till = Till::default();
    till.refunding.set(Refunding::AtOnce);
    die_everywhere(
        "operator: a bounced refund replayed",
        2,
        async |world| {
            let order_no = world.refunding_order(1, "ada").await;
            till.refunds.borrow_mut().clear();
            world.send_refunds(&till, 0).await.unwrap();
            let refund = refunds::of_order(&world.sql, &order_no).await.unwrap()[0].refund.clone();
            world.refund_failed(&order_no, &format!("pay-{order_no}"), &refund, "f").await;
        },
        async |world| held::replay(&world.redis, &world.sql, "f", NOW).await.map(|_| ()),
        async |world, point| {
            // Where it died before anything happened, it is still there to be replayed.
            held::replay(&world.redis, &world.sql, "f", NOW).await.unwrap();
            world.send_refunds(&till, 7_300_000).await.unwrap();
            assert_eq!(world.held().await, [], "{point}");
            assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{point}");
            assert_eq!(till.refunds.borrow().len(), 2, "{point}: once more");
            assert_eq!(world.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}
