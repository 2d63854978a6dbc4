//! Payments whose ids went with a ledger that came back from a backup: a provider is asked for nothing under a name that
//! it does not know, and names the payment again by itself (G5; I6).

use domain::{ids::OrderNo, order::Status, time::Millis};
use futures::future::join_all;
use workflows::{
    ledger::{backlog::load, payments::LOST, refunds},
    payments::{
        callbacks::{
            Applied,
            held::{self, Resolved},
        },
        provider::{AnyProvider, Patience, Sandbox, Stripe},
    },
};

use crate::{
    crash_points::die_everywhere,
    epochs::{Real, pause, rebuilt, resume},
    fakes::{Endpoint, Refunding, Till},
    fixture::{LEDGERS, NOW, SECRET, world},
};

impl Real {
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
        assert_eq!(load(&world.sql).await.unwrap().stuck_refunds, 1, "{ledger}");
        // The provider names the payment, twice: that is no second payment, and the refund is due at once.
        assert_eq!(world.paid(&order_no, "again").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.paid(&order_no, "and again").await.unwrap(), Applied::Duplicate, "{ledger}");
        assert_eq!(refunds::open(&world.sql).await.unwrap().len(), 1, "{ledger}");
        assert_eq!(load(&world.sql).await.unwrap().stuck_refunds, 0, "{ledger}");
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
