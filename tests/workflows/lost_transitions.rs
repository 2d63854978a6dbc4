//! Moves of orders that went with a ledger, which came back from a backup: Redis made them too, and a rebuild makes them
//! again, what releases units first (G5; I1, I2, I4, I5, I6, I7).

use domain::{ids::OrderNo, order::Status};
use workflows::{
    Redis, Sql,
    hot::reserve::Outcome,
    keys::Keys,
    ledger::{
        orders,
        payments::{self, Callback, LOST},
        refunds,
    },
    payments::callbacks::Applied,
    queue::dead_letters,
    recovery::rebuild::{Rebuilt, rebuild},
};

use crate::{
    crash_points::die_everywhere_and_mend,
    epochs::{Real, pause, rebuilt, resume},
    fixture::{LEDGERS, NOW, SECRET, world},
};

/// What is backed up of a sale's orders.
const TABLES: [&str; 3] = ["orders", "callbacks", "refunds"];

impl Real {
    async fn back_up(&self) {
        for table in TABLES {
            self.sql.run(&format!("CREATE TABLE backup_{table} AS SELECT * FROM {table}"), vec![]).await.unwrap();
        }
    }

    /// The ledger is as it was when it was backed up.
    async fn restore(&self) {
        self.restore_an_older_ledger(&[]).await;
        for table in TABLES.iter().rev() {
            self.sql.run(&format!("DELETE FROM {table}"), vec![]).await.unwrap();
        }
        self.sql.run("UPDATE skus SET live = 0", vec![]).await.unwrap();
        for table in TABLES {
            let statement = format!("INSERT INTO {table} SELECT * FROM backup_{table}");
            self.sql.run(&statement, vec![]).await.unwrap();
        }
    }

    async fn mend(&self) {
        pause(self).await;
        let rebuilt = rebuilt(self).await;
        assert!(matches!(rebuilt, Rebuilt::Done { .. }), "{rebuilt:?}");
        resume(self).await;
    }

    /// Redis has forgotten an order that was over an hour ago.
    async fn an_hour_after(&self, over: &OrderNo) {
        let record = Keys::of(&self.activity).order(over.ulid());
        self.redis.command("DEL", vec![record.into()]).await.unwrap();
    }

    async fn both(&self, order_no: &OrderNo) -> (Option<Status>, Option<Status>) {
        (self.status(order_no).await, self.hot_status(order_no).await)
    }

    /// It is to be refunded, once the provider names the payment; it holds nothing.
    async fn is_refunded_when_it_is_named(&self, order_no: &OrderNo, ledger: &str) {
        let refunding = Some(Status::Refunding);
        assert_eq!(self.both(order_no).await, (refunding, refunding), "{ledger}");
        assert!(!self.entry(order_no).await.live, "{ledger}");
        let payments = async || {
            let open = refunds::open(&self.sql).await.unwrap();
            open.into_iter().map(|refund| refund.payment).collect::<Vec<_>>()
        };
        assert_eq!(payments().await, [LOST], "{ledger}: an operator sees it");
        assert_eq!(self.paid(order_no, "again").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(payments().await, [format!("pay-{order_no}")], "{ledger}");
    }
}

/// Both stores say so.
fn in_both(status: Status) -> (Option<Status>, Option<Status>) {
    (Some(status), Some(status))
}

#[tokio::test]
async fn a_sold_out_sale_keeps_the_order_that_took_a_released_unit() {
    for ledger in LEDGERS {
        for epoch in [1, 2] {
            let world = world(ledger, 1, 1).await;
            if epoch == 2 {
                world.mend().await;
            }
            let released = world.order(1, "ada", 1).await;
            world.back_up().await;
            world.cancel(&released).await.unwrap();
            let kept = world.order(2, "bob", 1).await;
            world.restore().await;
            world.sweep_fence().await;
            assert_eq!(world.units().await, (0, 1, 0), "{ledger}: the sums show nothing");
            world.mend().await;
            assert_eq!(world.both(&released).await, in_both(Status::Cancelled), "{ledger}");
            assert_eq!(world.both(&kept).await, in_both(Status::PendingPayment), "{ledger}");
            assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
            assert!(matches!(world.reserve(2, "bob", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
            assert!(matches!(world.reserve(3, "cyd", 1).await.unwrap().outcome, Outcome::SoldOut(_)), "{ledger}");
            assert_eq!(world.units().await, (0, 1, 0), "{ledger}");
            // The unit of either can be released once.
            world.cancel(&kept).await.unwrap();
            world.recover().await;
            assert_eq!(world.units().await, (1, 0, 0), "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_released_order_that_was_paid_late_since_the_backup_stays_paid() {
    for ledger in LEDGERS {
        for cancelled in [true, false] {
            let world = world(ledger, 1, 1).await;
            let order_no = world.order(1, "ada", 1).await;
            if cancelled {
                world.cancel(&order_no).await.unwrap();
            } else {
                assert_eq!(world.expire().await.unwrap(), 1, "{ledger}");
            }
            world.back_up().await;
            world.paid(&order_no, "late").await.unwrap();
            world.restore().await;
            world.mend().await;
            assert_eq!(world.both(&order_no).await, in_both(Status::Paid), "{ledger}");
            assert_eq!(world.units().await, (0, 0, 1), "{ledger}");
            assert_eq!(world.paid(&order_no, "late").await.unwrap(), Applied::Changed, "{ledger}: it is named");
            assert_eq!(world.entry(&order_no).await.payment, format!("pay-{order_no}"), "{ledger}");
            assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_refund_of_money_that_came_too_late_is_still_owed_whatever_the_ledger_lost_of_it() {
    for ledger in LEDGERS {
        for lost in ["its payment", "its expiry", "everything"] {
            for back in [false, true] {
                let world = world(ledger, 1, 1).await;
                let late = world.order(1, "ada", 1).await;
                if lost == "its expiry" {
                    world.back_up().await;
                }
                world.expire().await.unwrap();
                let other = world.order(2, "bob", 1).await;
                if lost != "its expiry" {
                    world.back_up().await;
                }
                world.paid(&late, "late").await.unwrap();
                if back {
                    world.money_back(&late, "back").await.unwrap();
                }
                world.restore().await;
                if lost == "everything" {
                    world.restore_an_older_ledger(&[&late]).await;
                }
                world.mend().await;
                assert_eq!(world.both(&other).await, in_both(Status::PendingPayment), "{ledger}, {lost}");
                match (back, lost) {
                    (true, "everything") => assert_eq!(world.status(&late).await, None, "{ledger}: it is over"),
                    (true, _) => assert_eq!(world.both(&late).await, in_both(Status::Refunded), "{ledger}, {lost}"),
                    (false, _) => world.is_refunded_when_it_is_named(&late, ledger).await,
                }
                assert_eq!(world.open_refunds().await, usize::from(!back), "{ledger}, {lost}");
                assert_eq!(world.units().await, (0, 1, 0), "{ledger}, {lost}");
            }
        }
    }
}

#[tokio::test]
async fn what_was_released_since_the_backup_makes_room_for_who_paid_for_it() {
    for ledger in LEDGERS {
        for end in [Status::Cancelled, Status::Expired, Status::Refunded] {
            let world = world(ledger, 1, 1).await;
            let released = match end {
                Status::Refunded => world.paid_order(1, "ada").await,
                _ => world.order(1, "ada", 1).await,
            };
            world.back_up().await;
            match end {
                Status::Cancelled => drop(world.cancel(&released).await.unwrap()),
                Status::Expired => assert_eq!(world.expire().await.unwrap(), 1, "{ledger}"),
                _ => {
                    world.ask_refund(&released).await.unwrap();
                    world.money_back(&released, "back").await.unwrap();
                }
            }
            let paid = world.paid_order(2, "bob").await;
            world.restore().await;
            world.mend().await;
            assert_eq!(world.both(&released).await, in_both(end), "{ledger}");
            assert_eq!(world.both(&paid).await, in_both(Status::Paid), "{ledger}");
            assert_eq!(world.units().await, (0, 0, 1), "{ledger}");
            assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
            assert_eq!(world.open_refunds().await, 0, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_paid_order_that_finds_no_room_in_the_restored_ledger_is_refunded() {
    for ledger in LEDGERS {
        for known in [true, false] {
            let world = world(ledger, 1, 1).await;
            if known {
                world.order(2, "bob", 1).await;
                world.expire().await.unwrap();
            }
            let held = world.order(1, "ada", 1).await;
            world.back_up().await;
            world.cancel(&held).await.unwrap();
            let paid = if known { world.order_no(2) } else { world.order(2, "bob", 1).await };
            world.paid(&paid, "e").await.unwrap();
            world.restore().await;
            world.an_hour_after(&held).await;
            world.mend().await;
            assert_eq!(world.both(&held).await, in_both(Status::PendingPayment), "{ledger}");
            world.is_refunded_when_it_is_named(&paid, ledger).await;
            assert_eq!(world.units().await, (0, 1, 0), "{ledger}");
            assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
        }
    }
}

#[tokio::test]
async fn where_room_is_short_who_has_paid_comes_first() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let (waiting, paid) = (world.order(1, "ada", 1).await, world.paid_order(2, "bob").await);
        world.restore_an_older_ledger(&[&waiting, &paid]).await;
        pause(&world).await;
        world.sql.run("UPDATE skus SET total = 1", vec![]).await.unwrap();
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 2 }, "{ledger}");
        assert_eq!(world.both(&paid).await, in_both(Status::Paid), "{ledger}");
        assert_eq!(world.both(&waiting).await, (None, Some(Status::Failed)), "{ledger}");
        assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap().len(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_ticket_whose_order_was_released_and_lost_makes_no_other_one() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let lost = world.order(1, "ada", 1).await;
        world.cancel(&lost).await.unwrap();
        world.restore_an_older_ledger(&[&lost]).await;
        world.mend().await;
        let again = world.reserve(1, "ada", 1).await.unwrap().outcome;
        assert!(matches!(again, Outcome::Queued(_)), "{ledger}: the answer of before: {again:?}");
        assert_eq!(world.hot_status(&lost).await, Some(Status::Cancelled), "{ledger}");
        assert_eq!(world.units().await, (1, 0, 0), "{ledger}: it takes nothing");
    }
}

#[tokio::test]
async fn a_rebuild_forgets_no_paid_order_whose_sku_the_ledger_lost() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let paid = world.paid_order(1, "ada").await;
        pause(&world).await;
        world.restore_an_older_ledger(&[&paid]).await;
        world.sql.run("UPDATE skus SET sku = 'other'", vec![]).await.unwrap();
        assert_eq!(rebuilt(&world).await, Rebuilt::SkuLost, "{ledger}");
        world.sql.run("UPDATE skus SET sku = 'phone'", vec![]).await.unwrap();
        // The ledger believes that the sale is open; its gate knows better.
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 2 }, "{ledger}");
        assert_eq!(world.both(&paid).await, in_both(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn what_the_ledger_knows_better_than_redis_stays() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        let [cancelled, paid, back] =
            [world.order(1, "ada", 1).await, world.order(2, "bob", 1).await, world.refunding_order(3, "cyd").await];
        orders::cancel(&world.sql, &cancelled, NOW).await.unwrap();
        let payment = Callback { order_no: paid.to_string(), payment: "p".to_owned(), ..Callback::default() };
        payments::pay(&world.sql, &payment, "pending_payment", NOW).await.unwrap();
        payments::refunded(&world.sql, &back, NOW).await.unwrap();
        world.mend().await;
        for (order_no, status) in [(&cancelled, Status::Cancelled), (&paid, Status::Paid), (&back, Status::Refunded)] {
            assert_eq!(world.both(order_no).await, in_both(status), "{ledger}");
        }
        assert_eq!(world.entry(&paid).await.payment, "p", "{ledger}");
        assert_eq!(world.units().await, (2, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_late_payment_that_dies_before_a_rebuild_is_one_payment_with_its_id() {
    die_everywhere_and_mend(
        "payment callback: late, and then a rebuild",
        1,
        async |world| {
            world.order(1, "ada", 1).await;
            world.expire().await.unwrap();
        },
        async |world| world.paid(&world.order_no(1), "late").await.map(|_| ()),
        async |world| {
            world.mend().await;
            world.recover().await;
        },
        async |world, point| {
            let order_no = world.order_no(1);
            world.paid(&order_no, "late").await.unwrap();
            let entry = world.entry(&order_no).await;
            assert_eq!((entry.order.status, entry.payment), (Status::Paid, format!("pay-{order_no}")), "{point}");
            assert_eq!((world.units().await, world.open_refunds().await), ((0, 0, 1), 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_rebuild_that_dies_while_it_makes_lost_moves_is_begun_again() {
    die_everywhere_and_mend(
        "operator: a rebuild after the ledger lost moves",
        1,
        async |world| {
            let late = world.order(3, "cyd", 1).await;
            world.expire().await.unwrap();
            let released = world.order(1, "ada", 1).await;
            world.back_up().await;
            world.cancel(&released).await.unwrap();
            world.paid_order(2, "bob").await;
            world.paid(&late, "late").await.unwrap();
            world.restore().await;
            pause(world).await;
        },
        async |world| rebuild(&world.redis, &world.sql, &world.activity, SECRET, NOW).await.map(|_| ()),
        async |world| {
            world.recover().await;
            world.mend().await;
        },
        async |world, point| {
            for (n, status) in [(1, Status::Cancelled), (2, Status::Paid), (3, Status::Refunding)] {
                assert_eq!(world.both(&world.order_no(n)).await, in_both(status), "{point}: {n}");
            }
            assert_eq!((world.units().await, world.open_refunds().await), ((0, 0, 1), 1), "{point}");
        },
    )
    .await;
}
