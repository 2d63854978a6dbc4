//! Money that an operator gave back pays no order, whoever dies and whoever comes between, on both ledgers (E2, E5; I6).

use std::cell::Cell;

use domain::{ids::OrderNo, money::Money, order::Status, webhook::Payment};
use workflows::{
    Redis, Sql, StoreError,
    ledger::{payments, refunds},
    payments::callbacks::{
        self, Applied,
        held::{self, Resolved},
    },
    ports::{Dialect, Value},
};

use crate::{
    crash_points::die_everywhere,
    fixture::{LEDGERS, NOW, World, world},
    stores::RealLedger,
};

fn again(order_no: &OrderNo, event: &str) -> Payment {
    Payment {
        id: event.to_owned(),
        kind: "payment.succeeded".to_owned(),
        order_no: order_no.to_string(),
        payment: "p".to_owned(),
        money: Money::new(100, "EUR"),
        ..Payment::default()
    }
}

/// What a held callback of [`World::held_payment`] is called.
const HELD: &str = "evt-p";

impl<R: Redis, S: Sql> World<R, S> {
    /// An order that waits for money, and a callback of its payment that came before it was written.
    async fn held_payment(&self) -> OrderNo {
        self.reserve(1, "ada", 1).await.unwrap();
        let order_no = self.order_no(1);
        assert_eq!(self.another_payment(&order_no, "p").await.unwrap(), Applied::Held);
        self.write().await.unwrap();
        order_no
    }

    async fn replay(&self) -> Resolved {
        held::replay(&self.redis, &self.sql, HELD, NOW).await.unwrap()
    }

    /// The same payment is told once more, under another name.
    async fn told_again(&self, order_no: &OrderNo, event: &str) -> Applied {
        callbacks::apply(&self.redis, &self.sql, &again(order_no, event), NOW).await.unwrap()
    }

    /// The payment is an order's or goes back: one of both.
    async fn kept_or_given_back(&self, order_no: &OrderNo, point: &str) -> bool {
        let paid = self.status(order_no).await == Some(Status::Paid);
        let back = refunds::of_order(&self.sql, order_no).await.unwrap();
        assert_eq!(back.iter().filter(|refund| refund.payment == "p").count(), usize::from(!paid), "{point}: {back:?}");
        paid
    }
}

#[tokio::test]
async fn an_operator_who_dies_while_money_is_given_back_leaves_a_paid_order_or_a_refund() {
    die_everywhere(
        "operator: the money of a held callback given back",
        2,
        async |world| {
            world.held_payment().await;
        },
        async |world| held::refund(&world.sql, HELD).await.map(|_| ()),
        async |world, point| {
            world.replay().await;
            world.kept_or_given_back(&world.order_no(1), point).await;
        },
    )
    .await;
}

/// A ledger in whose way somebody comes: `act` runs to its end before its call `at`.
struct Between<'a, F> {
    sql: &'a RealLedger,
    at: Cell<u32>,
    act: F,
}

impl<F: AsyncFn()> Sql for Between<'_, F> {
    fn dialect(&self) -> Dialect {
        self.sql.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<Value>) -> Result<Vec<Vec<Value>>, StoreError> {
        self.at.set(self.at.get().wrapping_sub(1));
        if self.at.get() == 0 {
            (self.act)().await;
        }
        self.sql.run(statement, params).await
    }
}

#[tokio::test]
async fn a_colleague_who_replays_what_is_being_given_back_comes_before_or_after() {
    for ledger in LEDGERS {
        for at in 1..=4 {
            let world = world(ledger, 2, 1).await;
            let order_no = world.held_payment().await;
            let act = async || assert_ne!(world.replay().await, Resolved::Paid);
            let between = Between { sql: &world.sql, at: Cell::new(at), act };
            let given = held::refund(&between, HELD).await.unwrap();
            world.replay().await;
            let paid = world.kept_or_given_back(&order_no, &format!("{ledger}, call {at}")).await;
            assert_eq!(given == Resolved::Done(Applied::Changed), !paid, "{ledger}, call {at}: {given:?}");
        }
    }
}

#[tokio::test]
async fn money_that_is_given_back_while_it_is_told_again_goes_one_way() {
    for ledger in LEDGERS {
        for at in 1..=8 {
            let world = world(ledger, 2, 1).await;
            let order_no = world.held_payment().await;
            let act = async || {
                held::refund(&world.sql, HELD).await.unwrap();
            };
            let between = Between { sql: &world.sql, at: Cell::new(at), act };
            // The one that comes too late hears so, and is told again.
            let told = callbacks::apply(&world.redis, &between, &again(&order_no, "again"), NOW).await;
            assert!(matches!(told, Ok(_) | Err(StoreError::LedgerUnavailable(_))), "{ledger}, call {at}: {told:?}");
            world.told_again(&order_no, "again").await;
            world.kept_or_given_back(&order_no, &format!("{ledger}, call {at}")).await;
        }
    }
}

#[tokio::test]
async fn money_that_was_given_back_pays_nothing_when_it_is_told_again() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.held_payment().await;
        held::refund(&world.sql, HELD).await.unwrap();
        assert_eq!(world.told_again(&order_no, "again").await, Applied::Duplicate, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}");
        world.expire().await.unwrap();
        assert_eq!(world.told_again(&order_no, "late").await, Applied::Duplicate, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Expired), "{ledger}");
        assert_eq!(world.units().await, (2, 0, 0), "{ledger}: nothing was taken for it");
        // Its sale is over for this payment, not for another one.
        assert_eq!(world.another_payment(&order_no, "q").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        let back = refunds::of_order(&world.sql, &order_no).await.unwrap();
        assert_eq!(back.iter().map(|refund| refund.payment.as_str()).collect::<Vec<_>>(), ["p"], "{ledger}");
    }
}

#[tokio::test]
async fn the_schema_lets_no_payment_that_was_given_back_pay_late_or_name_an_order() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.held_payment().await;
        let callback = payments::held_one(&world.sql, HELD).await.unwrap().unwrap();
        held::refund(&world.sql, HELD).await.unwrap();
        assert_eq!(payments::pay(&world.sql, &callback, "pending_payment", NOW).await.unwrap(), None, "{ledger}");
        world.expire().await.unwrap();
        assert_eq!(payments::pay(&world.sql, &callback, "expired", NOW).await.unwrap(), None, "{ledger}");
        assert_eq!(payments::refund_late(&world.sql, &callback, NOW).await.unwrap(), None, "{ledger}");
        let lost = payments::Callback { payment: payments::LOST.to_owned(), ..callback.clone() };
        assert!(payments::pay(&world.sql, &lost, "expired", NOW).await.unwrap().is_some(), "{ledger}");
        assert!(!payments::name(&world.sql, &callback).await.unwrap(), "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn money_that_paid_its_order_meanwhile_is_not_given_back() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.held_payment().await;
        assert_eq!(world.told_again(&order_no, "again").await, Applied::Changed, "{ledger}");
        assert_eq!(held::refund(&world.sql, HELD).await.unwrap(), Resolved::Paid, "{ledger}");
        assert!(world.kept_or_given_back(&order_no, ledger).await, "{ledger}");
        assert_eq!(world.replay().await, Resolved::Done(Applied::Duplicate), "{ledger}: nothing is left to be done");
    }
}
