//! What waits for the shop, a provider or an operator, counted on both ledgers (G6; E4, E7, D4).

use workflows::{
    Redis,
    ledger::{
        backlog::{Backlog, load},
        events::switch,
    },
    payments::callbacks::held,
    queue::outbox::{Target, deliver},
};

use crate::{
    fakes::{Endpoint, Refunding, Till},
    fixture::{LEDGERS, NOW, world},
};

#[tokio::test]
async fn what_waits_is_counted_until_it_waits_no_more() {
    for ledger in LEDGERS {
        let (world, till, shop) = (world(ledger, 2, 1).await, Till::default(), Endpoint::default());
        let count = async || load(&world.sql).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: nothing waits");

        switch(&world.sql, true).await.unwrap();
        let order_no = world.paid_order(1, "ada").await;
        let events = Backlog { events: 2, oldest_event_at: NOW, ..Backlog::default() };
        assert_eq!(count().await, events, "{ledger}: pending_payment and paid");
        let target = Target { url: "https://shop.example", secrets: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" };
        for _ in 0..2 {
            deliver(&shop, &world.sql, target, || NOW).await.unwrap();
        }
        switch(&world.sql, false).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: all were sent");

        world.ask_refund(&order_no).await.unwrap();
        world.another_payment(&order_no, "twice").await.unwrap();
        assert_eq!(count().await, Backlog { refunds: 2, ..Backlog::default() }, "{ledger}: both books");
        till.refunding.set(Refunding::Never);
        world.send_refunds(&till, 0).await.unwrap();
        assert_eq!(count().await, Backlog { refunds: 2, stuck_refunds: 2, ..Backlog::default() }, "{ledger}");
        till.refunding.set(Refunding::AtOnce);
        world.send_refunds(&till, 100_000).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: the money is back");

        world.apply("payment.succeeded", &order_no, "wrong", 1).await.unwrap();
        world.apply("payment.succeeded", &world.order_no(7), "unknown", 100).await.unwrap();
        assert_eq!(count().await.held_callbacks, 2, "{ledger}");
        held::dismiss(&world.sql, &format!("unknown-{}", world.order_no(7))).await.unwrap();
        assert_eq!(count().await.held_callbacks, 1, "{ledger}");

        let stock = workflows::keys::Keys::of(&world.activity).stock(&world.sku);
        world.redis.command("SET", vec![stock.into(), "3".into()]).await.unwrap();
        for n in 2..=4 {
            world.reserve(n, &format!("user {n}"), 1).await.unwrap();
        }
        assert_eq!(world.write().await.unwrap().failed, 1, "{ledger}");
        assert_eq!(count().await.dead_letters, 1, "{ledger}");
        world.desk().restock(&world.activity, &world.sku, 1, None).await.unwrap();
        let dead = workflows::queue::dead_letters::list(&world.sql, "", 200).await.unwrap().remove(0);
        let dead = domain::ids::OrderNo::parse(&dead.order_no).unwrap();
        workflows::queue::dead_letters::replay(&world.redis, &world.sql, &dead, NOW.plus(1)).await.unwrap();
        assert_eq!(count().await.dead_letters, 0, "{ledger}: put back");
    }
}
