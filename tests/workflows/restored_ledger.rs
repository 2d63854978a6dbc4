//! A ledger that was restored from a backup, and is older than Redis: of an earlier epoch, and without orders that were
//! accepted since (G5; I1, I2, I4, I6).

use domain::{
    activity::State,
    ids::{OrderNo, UserId},
    order::Status,
    problem::Code,
};
use workflows::{
    Redis, Sql,
    hot::reserve::Outcome,
    ledger::{
        activities, epochs,
        orders::{self, OrderRow},
        payments::LOST,
        refunds,
    },
    operator::activities::OperationOutcome,
    payments::commands,
    ports::Dialect,
    queue::{dead_letters, order_writer},
    recovery::{
        rebuild::{Rebuilt, rebuild},
        sweep,
    },
};

use crate::{
    crash_points::die_everywhere_and_mend,
    epochs::{Real, pause, rebuilt, resume},
    fixture::{LEDGERS, NOW, SECRET, world},
};

impl Real {
    /// The ledger is of epoch 1 again, and has never heard of `lost`.
    pub async fn restore_an_older_ledger(&self, lost: &[&OrderNo]) {
        let of =
            |table: &str| if self.sql.dialect() == Dialect::Sqlite { String::new() } else { format!(" ON {table}") };
        let run = async |statement: &str, params| self.sql.run(statement, params).await.unwrap();
        run(&format!("DROP TRIGGER IF EXISTS epochs_rise{}", of("epochs")), vec![]).await;
        run(&format!("DROP TRIGGER IF EXISTS orders_stay{}", of("orders")), vec![]).await;
        run("UPDATE epochs SET epoch = 1", vec![]).await;
        run("UPDATE activities SET version = 2, state = 'published'", vec![]).await;
        for order_no in lost {
            for table in ["refunds", "callbacks", "orders"] {
                run(&format!("DELETE FROM {table} WHERE order_no = ?1"), vec![order_no.to_string().into()]).await;
            }
        }
        run(
            "UPDATE skus SET live = (SELECT CAST(COALESCE(SUM(o.quantity), 0) AS BIGINT) FROM orders o \
             WHERE o.activity = skus.activity AND o.sku = skus.sku AND o.live = 1)",
            vec![],
        )
        .await;
    }

    /// One unit, sold; then two more came, and were sold, which the ledger has never heard of.
    async fn sold_a_restock_that_the_ledger_lost(&self) {
        self.order(1, "ada", 1).await;
        self.desk().restock(&self.activity, &self.sku, 2, None).await.unwrap();
        let lost = [self.order(2, "bob", 1).await, self.order(3, "cyd", 1).await];
        self.restore_an_older_ledger(&lost.each_ref()).await;
        self.sql.run("UPDATE skus SET total = 1", vec![]).await.unwrap();
    }

    pub async fn entry(&self, order_no: &OrderNo) -> OrderRow {
        orders::load(&self.sql, order_no).await.unwrap().expect("an order")
    }

    async fn second_epoch(&self) {
        pause(self).await;
        assert!(matches!(rebuilt(self).await, Rebuilt::Done { epoch: 2, .. }));
        resume(self).await;
    }

    pub async fn sweep_fence(&self) -> (usize, usize) {
        let mut report = sweep::Report::default();
        let all = std::slice::from_ref(&self.activity);
        sweep::fence(&self.redis, &self.sql, all, SECRET, NOW, &mut report).await.unwrap();
        (report.fenced, report.caught_up)
    }
}

#[tokio::test]
async fn what_a_later_epoch_than_the_ledgers_accepts_is_written_and_its_moves_reach_redis() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        world.second_epoch().await;
        world.restore_an_older_ledger(&[]).await;
        for n in 1..=3 {
            assert!(matches!(world.reserve(n, &format!("user {n}"), 1).await.unwrap().outcome, Outcome::Queued(_)));
        }
        let written = world.write().await.unwrap();
        assert_eq!((written.written, written.failed), (3, 0), "{ledger}: every 202 is an order");
        assert_eq!(world.hot_status(&world.order_no(1)).await, Some(Status::PendingPayment), "{ledger}");
        // Redis hears of what happens before the next sweep by that sweep.
        world.paid(&world.order_no(1), "e").await.unwrap();
        world.cancel(&world.order_no(2)).await.unwrap();
        assert_eq!(world.sweep_fence().await, (0, 1), "{ledger}: the gate stays, the ledger catches up");
        assert_eq!(epochs::current(&world.sql, &world.activity).await.unwrap(), 2, "{ledger}");
        world.recover().await;
        assert_eq!(world.hot_status(&world.order_no(1)).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.hot_status(&world.order_no(2)).await, Some(Status::Cancelled), "{ledger}");
        assert_eq!(world.units().await, (1, 1, 1), "{ledger}");
        assert_eq!(world.sweep_fence().await, (0, 0), "{ledger}: once");
        assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test]
async fn a_rebuild_begins_a_later_epoch_than_either_and_writes_what_is_queued() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        world.second_epoch().await;
        world.restore_an_older_ledger(&[]).await;
        world.reserve(1, "ada", 1).await.unwrap();
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 3 }, "{ledger}");
        resume(&world).await;
        assert_eq!(world.units().await, (2, 1, 0), "{ledger}");
        assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
    }
}

#[tokio::test]
async fn a_sale_whose_gate_is_ahead_of_the_ledger_can_be_paused_at_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 1).await;
        world.second_epoch().await;
        for _ in 0..3 {
            pause(&world).await;
            resume(&world).await;
        }
        world.restore_an_older_ledger(&[]).await;
        pause(&world).await;
        let refused = world.reserve(1, "ada", 1).await.unwrap().outcome;
        assert!(matches!(refused, Outcome::Refused(Code::Paused, _)), "{ledger}: {refused:?}");
        resume(&world).await;
        assert!(matches!(world.reserve(1, "ada", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
        world.desk().restock(&world.activity, &world.sku, 2, None).await.unwrap();
        world.write().await.unwrap();
        assert_eq!(world.units().await, (4, 1, 0), "{ledger}: a change reaches Redis");
    }
}

#[tokio::test]
async fn a_sale_restocked_and_sold_since_the_backup_keeps_its_restock_when_it_is_paused() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        world.sold_a_restock_that_the_ledger_lost().await;
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 3, epoch: 2 }, "{ledger}");
        resume(&world).await;
        assert_eq!(dead_letters::list(&world.sql, "", 200).await.unwrap(), [], "{ledger}");
        assert_eq!(world.units().await, (0, 3, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_operator_who_restocks_first_after_a_backup_names_the_total_and_nothing_is_oversold() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        world.sold_a_restock_that_the_ledger_lost().await;
        let desk = world.desk();
        let restock = async |by| desk.restock(&world.activity, &world.sku, by, None).await.unwrap();
        let done = |operated: OperationOutcome| {
            assert!(matches!(operated, OperationOutcome::Done(_)), "{ledger}: {operated:?}")
        };
        // Two, of which three are sold.
        done(restock(1).await);
        assert!(matches!(restock(-1).await, OperationOutcome::Conflict(_)), "{ledger}");
        done(desk.set_state(&world.activity, State::Paused).await.unwrap());
        assert!(matches!(world.reserve(4, "dee", 1).await.unwrap().outcome, Outcome::Refused(Code::Paused, _)));
        done(desk.set_state(&world.activity, State::Published).await.unwrap());
        assert!(matches!(world.reserve(4, "dee", 1).await.unwrap().outcome, Outcome::SoldOut(_)), "{ledger}");
        done(restock(2).await);
        assert!(matches!(world.reserve(5, "eve", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
        done(desk.rotate_start_key(&world.activity).await.unwrap());
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 4, epoch: 2 }, "{ledger}");
        assert_eq!(world.units().await, (0, 4, 0), "{ledger}");
    }
}

#[tokio::test]
async fn orders_that_the_ledger_lost_are_put_back_by_a_rebuild_and_never_sold_again() {
    for ledger in LEDGERS {
        for caught_up in [true, false] {
            let world = world(ledger, 6, 1).await;
            world.second_epoch().await;
            let kept = world.order(1, "ada", 1).await;
            let [pending, paid, refunding, cancelled] = [
                world.order(2, "bob", 1).await,
                world.paid_order(3, "cyd").await,
                world.refunding_order(4, "dee").await,
                world.order(5, "eve", 1).await,
            ];
            commands::start_payment(&world.redis, &world.sql, &pending, "/pay", 0, NOW).await.unwrap();
            world.cancel(&cancelled).await.unwrap();
            world.reserve(6, "fay", 1).await.unwrap();
            world.restore_an_older_ledger(&[&pending, &paid, &refunding, &cancelled]).await;
            if caught_up {
                world.sweep_fence().await;
            }
            pause(&world).await;
            assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 5, epoch: 3 }, "{ledger}");
            resume(&world).await;
            assert_eq!(world.units().await, (1, 3, 2), "{ledger}");
            for (order_no, status) in [
                (&kept, Status::PendingPayment),
                (&pending, Status::PendingPayment),
                (&paid, Status::Paid),
                (&refunding, Status::Refunding),
            ] {
                assert_eq!(world.entry(order_no).await.order.status, status, "{ledger}: {order_no}");
                assert_eq!(world.hot_status(order_no).await, Some(status), "{ledger}: {order_no}");
            }
            assert_eq!(world.entry(&pending).await.order.checkout_url.as_deref(), Some("/pay"), "{ledger}");
            assert_eq!(world.entry(&paid).await.order.user, UserId::parse("cyd").unwrap(), "{ledger}");
            // An operator sees the refund whose payment nobody knows any more.
            let open = refunds::open(&world.sql).await.unwrap();
            assert_eq!(open.iter().map(|refund| refund.payment.as_str()).collect::<Vec<_>>(), [LOST], "{ledger}");
            // The provider tells again of what was paid: it names the payment, and is no second one.
            world.paid(&paid, "again").await.unwrap();
            assert_eq!(world.entry(&paid).await.payment, format!("pay-{paid}"), "{ledger}");
            assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 1, "{ledger}");
            world.another_payment(&paid, "second").await.unwrap();
            assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 2, "{ledger}: money that came twice goes back");
            // One unit is left, and no more.
            assert!(matches!(world.reserve(7, "gus", 1).await.unwrap().outcome, Outcome::Queued(_)), "{ledger}");
            let sold_out = world.reserve(8, "hal", 1).await.unwrap().outcome;
            assert!(matches!(sold_out, Outcome::SoldOut(_)), "{ledger}: {sold_out:?}");
        }
    }
}

#[tokio::test]
async fn a_sale_that_the_ledger_lost_altogether_is_made_again_and_its_orders_are_put_back() {
    for ledger in LEDGERS {
        let world = world(ledger, 4, 1).await;
        world.second_epoch().await;
        let (pending, paid) = (world.order(1, "ada", 1).await, world.paid_order(2, "bob").await);
        let spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
        world.restore_an_older_ledger(&[&pending, &paid]).await;
        for (table, id) in [("skus", "activity"), ("epochs", "activity"), ("activities", "id")] {
            let statement = format!("DELETE FROM {table} WHERE {id} = ?1");
            world.sql.run(&statement, vec![world.activity.as_str().into()]).await.unwrap();
        }
        // What is sold before anybody sees it waits: a ledger that does not know the sale says nothing of its orders.
        world.reserve(3, "cyd", 1).await.unwrap();
        for _ in 0..8 {
            let again =
                order_writer::tick_redelivered(&world.redis, &world.sql, &world.activity, NOW, 0).await.unwrap();
            assert_eq!(again.failed + world.write().await.unwrap().failed, 0, "{ledger}");
        }
        assert_eq!(world.hot_status(&world.order_no(3)).await, Some(Status::Queued), "{ledger}");
        assert_eq!(world.sweep_fence().await, (0, 0), "{ledger}");

        assert!(
            matches!(world.desk().put(&world.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)),
            "{ledger}"
        );
        resume(&world).await;
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 3, epoch: 3 }, "{ledger}");
        resume(&world).await;
        assert_eq!(world.units().await, (1, 2, 1), "{ledger}");
        assert_eq!(world.status(&paid).await, Some(Status::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_the_ledger_has_as_it_was_before_it_was_paid_stays_paid() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.paid_order(1, "ada").await;
        world.restore_an_older_ledger(&[&order_no]).await;
        let copy = "INSERT INTO orders (order_no, activity, sku, user_id, quantity, amount, currency, status, live, \
             created_at, updated_at) VALUES (?1, ?2, 'phone', 'ada', 1, 100, 'EUR', 'pending_payment', 1, 1, 1)";
        let params = vec![order_no.to_string().into(), world.activity.as_str().into()];
        world.sql.run(copy, params).await.unwrap();
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 2 }, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (1, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_the_ledger_lost_within_an_epoch_is_put_back_too() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let lost = world.paid_order(1, "ada").await;
        world.restore_an_older_ledger(&[&lost]).await;
        pause(&world).await;
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 1, epoch: 2 }, "{ledger}");
        assert_eq!(world.status(&lost).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (1, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn what_an_older_epoch_accepted_is_not_salvaged() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let lost = world.order(1, "ada", 1).await;
        world.restore_an_older_ledger(&[&lost]).await;
        // A rebuild from before there was any salvage: Redis of today does not count the order.
        let keys = workflows::keys::Keys::of(&world.activity);
        world.desk().set_state(&world.activity, State::Paused).await.unwrap();
        let record = keys.order(lost.ulid());
        world.redis.command("HSET", vec![record.into(), "epoch".into(), "0".into()]).await.unwrap();
        assert_eq!(rebuilt(&world).await, Rebuilt::Done { orders: 0, epoch: 2 }, "{ledger}");
        assert_eq!(world.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_finds_no_room_in_the_restored_ledger_is_a_dead_letter() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let lost = world.order(1, "ada", 1).await;
        world.restore_an_older_ledger(&[&lost]).await;
        pause(&world).await;
        world.sql.run("UPDATE skus SET total = 0", vec![]).await.unwrap();
        rebuilt(&world).await;
        let letters = dead_letters::list(&world.sql, "", 200).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["no_room_in_ledger"]);
        assert_eq!(world.hot_status(&lost).await, Some(Status::Failed), "{ledger}: its buyer sees it");
        // Where there is room again, it can be put back.
        world.desk().restock(&world.activity, &world.sku, 1, None).await.unwrap();
        let replayed = dead_letters::replay(&world.redis, &world.sql, &lost, NOW).await.unwrap();
        assert_eq!(replayed, dead_letters::Replayed::Queued, "{ledger}");
        world.write().await.unwrap();
        assert_eq!(world.units().await, (0, 1, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_rebuild_that_dies_while_it_puts_lost_orders_back_is_begun_again() {
    die_everywhere_and_mend(
        "operator: a rebuild after the ledger came back from a backup",
        4,
        async |world| {
            world.second_epoch().await;
            let pending = world.order(1, "ada", 1).await;
            let paid = world.paid_order(2, "bob").await;
            world.restore_an_older_ledger(&[&pending, &paid]).await;
            pause(world).await;
        },
        async |world| rebuild(&world.redis, &world.sql, &world.activity, SECRET, NOW).await.map(|_| ()),
        async |world| {
            world.recover().await;
            assert!(matches!(rebuilt(world).await, Rebuilt::Done { orders: 2, .. }));
        },
        async |world, point| {
            assert_eq!(world.units().await, (2, 1, 1), "{point}");
            assert_eq!(world.status(&world.order_no(2)).await, Some(Status::Paid), "{point}");
        },
    )
    .await;
}
