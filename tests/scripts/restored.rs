//! A ledger that was restored from a backup, and is older than Redis: of an earlier epoch, and without orders that were
//! accepted since (G5; I1, I2, I4, I6).

use futures::future::join_all;
use stampede_domain::{
    activity::State,
    ids::{OrderNo, UserId},
    order::Status,
    problem::Code,
    time::Millis,
};
use stampede_sale::{
    Redis, Sql,
    callbacks::{
        Applied,
        held::{self, Resolved},
    },
    dead,
    hot::reserve::Outcome,
    ledger::{
        epochs,
        orders::{self, Entry},
        payments::LOST,
        refunds,
        waiting::waiting,
    },
    money,
    ports::Dialect,
    provider::{AnyProvider, Patience, Sandbox, Stripe},
    rebuild::{Rebuilt, rebuild},
    sweep,
};

use crate::{
    dying::{die_everywhere, die_everywhere_and_mend},
    epochs::{Real, pause, rebuilt, resume},
    fakes::{Endpoint, Refunding, Till},
    world::{LEDGERS, NOW, SECRET, world},
};

impl Real {
    /// The ledger is of epoch 1 again, and has never heard of `lost`.
    async fn restore_an_older_ledger(&self, lost: &[&OrderNo]) {
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

    async fn entry(&self, order_no: &OrderNo) -> Entry {
        orders::load(&self.sql, order_no).await.unwrap().expect("an order")
    }

    async fn second_epoch(&self) {
        pause(self).await;
        assert!(matches!(rebuilt(self).await, Rebuilt::Done { epoch: 2, .. }));
        resume(self).await;
    }

    /// An order that was paid, and whose ledger was lost and put back from Redis: nobody knows its payment's id.
    async fn paid_and_lost(&self, n: u64, user: &str) -> OrderNo {
        let order_no = self.paid_order(n, user).await;
        self.restore_an_older_ledger(&[&order_no]).await;
        pause(self).await;
        rebuilt(self).await;
        resume(self).await;
        assert_eq!(self.entry(&order_no).await.payment, LOST);
        order_no
    }

    async fn sweep_fence(&self) -> (usize, usize) {
        let mut report = sweep::Report::default();
        sweep::fence(&self.redis, &self.sql, std::slice::from_ref(&self.activity), &mut report).await.unwrap();
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
        assert_eq!(dead::list(&world.sql).await.unwrap(), [], "{ledger}");
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
        assert_eq!(dead::list(&world.sql).await.unwrap(), [], "{ledger}");
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
        world.desk().restock(&world.activity, &world.sku, 2).await.unwrap();
        world.write().await.unwrap();
        assert_eq!(world.units().await, (4, 1, 0), "{ledger}: a change reaches Redis");
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
            money::start_payment(&world.redis, &world.sql, &pending, "/pay", 0, NOW).await.unwrap();
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
async fn a_refund_of_a_lost_payment_waits_for_its_id_where_operators_see_it_and_goes_with_it() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 2, 1).await, Till::default());
        let order_no = world.paid_and_lost(1, "ada").await;
        world.ask_refund(&order_no).await.unwrap();
        till.refunding.set(Refunding::AtOnce);
        let send = async |ms| world.send_refunds(&till, ms).await.unwrap();
        let round = send(0).await;
        assert_eq!((till.calls.get(), round.tried, round.untaken.len()), (0, 0, 1), "{ledger}: it is not sent");
        let open = refunds::open(&world.sql).await.unwrap();
        assert_eq!((open[0].payment.as_str(), open[0].failures), (LOST, 0), "{ledger}: that is no failure");
        assert!(open[0].last_error.ends_with("let the provider send its callback of the payment again"), "{open:?}");
        assert_eq!(waiting(&world.sql).await.unwrap().stuck_refunds, 1, "{ledger}");
        // The provider names the payment, twice: that is no second payment, and the refund is due at once.
        assert_eq!(world.paid(&order_no, "again").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.paid(&order_no, "and again").await.unwrap(), Applied::Duplicate, "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 1, "{ledger}");
        assert_eq!(waiting(&world.sql).await.unwrap().stuck_refunds, 0, "{ledger}");
        assert_eq!(send(1).await.tried, 1, "{ledger}");
        assert_eq!(till.refunds.borrow().keys().collect::<Vec<_>>(), [&(format!("pay-{order_no}"), 0)], "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(world.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn no_provider_hears_of_a_refund_before_it_has_named_the_payment() {
    for ledger in LEDGERS {
        let (sandbox, stripe) = (Endpoint::default(), Endpoint::default());
        let providers = [
            AnyProvider::Sandbox(Sandbox {
                web: &sandbox,
                url: "http://sandbox.example".to_owned(),
                ticket_secret: SECRET.to_owned(),
                cron_token: SECRET.to_owned(),
            }),
            AnyProvider::Stripe(Stripe {
                web: &stripe,
                api: "https://stripe.example".to_owned(),
                key: "sk_test".to_owned(),
                shop: "https://shop.example".to_owned(),
                patience: Patience::SWEEPER,
                clock: || NOW,
                pause: |_| Box::pin(async {}),
            }),
        ];
        for (provider, web) in providers.iter().zip([&sandbox, &stripe]) {
            let world = world(ledger, 2, 1).await;
            let order_no = world.paid_and_lost(1, "ada").await;
            world.ask_refund(&order_no).await.unwrap();
            let send = async |ms| world.send_refunds(provider, ms).await.unwrap();
            send(0).await;
            send(3_600_000).await;
            assert_eq!(*web.seen.borrow(), [], "{ledger}");
            world.paid(&order_no, "again").await.unwrap();
            send(0).await;
            let body = web.seen.borrow().iter().map(|request| request.body.clone()).collect::<Vec<_>>();
            assert_eq!(body.len(), 1, "{ledger}");
            assert!(body[0].contains(&format!("pay-{order_no}")), "{ledger}: {body:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_callbacks_at_once_name_a_lost_payment_once() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.paid_and_lost(1, "ada").await;
        let events: Vec<_> = (0..50).map(|n| format!("again {n}")).collect();
        let applied = join_all(events.iter().map(|event| world.paid(&order_no, event))).await;
        let changed = applied.into_iter().filter(|applied| *applied.as_ref().unwrap() == Applied::Changed);
        assert_eq!(changed.count(), 1, "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}: money that came once stays");
        assert_eq!(world.entry(&order_no).await.payment, format!("pay-{order_no}"), "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_confirmed_before_its_payment_is_named_is_held_and_replayed() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let order_no = world.paid_and_lost(1, "ada").await;
        assert_eq!(world.money_back(&order_no, "r").await.unwrap(), Applied::Held, "{ledger}: of which payment?");
        world.paid(&order_no, "again").await.unwrap();
        let replayed = held::replay(&world.redis, &world.sql, &format!("r-{order_no}"), NOW).await.unwrap();
        assert_eq!(replayed, Resolved::Done(Applied::Changed), "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap(), [], "{ledger}: nothing goes back twice");
        assert_eq!(world.units().await, (2, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn whoever_dies_while_a_lost_payment_is_named_leaves_one_refund_with_its_id() {
    die_everywhere(
        "payment callback: a payment named again that the ledger lost",
        2,
        async |world| {
            let order_no = world.paid_and_lost(1, "ada").await;
            world.ask_refund(&order_no).await.unwrap();
        },
        async |world| world.paid(&world.order_no(1), "again").await.map(|_| ()),
        async |world, point| {
            let order_no = world.order_no(1);
            world.paid(&order_no, "again").await.unwrap();
            let open = refunds::open(&world.sql).await.unwrap();
            let payments: Vec<_> = open.iter().map(|refund| refund.payment.as_str()).collect();
            assert_eq!(payments, [format!("pay-{order_no}")], "{point}");
            assert_eq!(open[0].next_try_at, Millis(0), "{point}: due at once");
        },
    )
    .await;
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
        let keys = stampede_sale::keys::Keys::of(&world.activity);
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
        let letters = dead::list(&world.sql).await.unwrap();
        assert_eq!(letters.iter().map(|letter| letter.reason.as_str()).collect::<Vec<_>>(), ["no_room_in_ledger"]);
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
