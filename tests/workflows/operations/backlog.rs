//! Tests of the backlog counts: events, refunds, parked callbacks and dead letters, on both ledgers (G6; E4, E7, D4).

use operations::ledger::backlog::{Backlog, load};
use orders::{event_delivery::deliver_due, ledger::events::set_enabled};
use payments::callbacks::parked;

use crate::{
    fakes::{FakeEndpoint, FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, new_fixture},
    orders::events::TARGET,
};

#[tokio::test]
async fn pending_work_is_counted_until_it_is_done() {
    for ledger in LEDGERS {
        let (fixture, provider, endpoint) =
            (new_fixture(ledger, 2, 1).await, FakeProvider::default(), FakeEndpoint::default());
        let count = async || load(&fixture.sql).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: the backlog of a new activity is not empty");

        set_enabled(&fixture.sql, true).await.unwrap();
        let order_no = fixture.paid_order(1, "ada").await;
        let events = Backlog { events: 2, oldest_event_at: NOW, ..Backlog::default() };
        assert_eq!(count().await, events, "{ledger}: pending_payment and paid");
        for _ in 0..2 {
            deliver_due(&endpoint, &fixture.sql, TARGET, || NOW).await.unwrap();
        }
        set_enabled(&fixture.sql, false).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: delivered events are still in the backlog");

        fixture.request_refund(&order_no).await.unwrap();
        fixture.payment_succeeded_with_id(&order_no, "twice").await.unwrap();
        assert_eq!(count().await, Backlog { refunds: 2, ..Backlog::default() }, "{ledger}: of order and overpayment");
        provider.refund_behaviour.set(RefundBehaviour::Fail);
        fixture.send_refunds(&provider, 0).await.unwrap();
        assert_eq!(count().await, Backlog { refunds: 2, stuck_refunds: 2, ..Backlog::default() }, "{ledger}");
        provider.refund_behaviour.set(RefundBehaviour::Succeed);
        fixture.send_refunds(&provider, 100_000).await.unwrap();
        assert_eq!(count().await, Backlog::default(), "{ledger}: confirmed refunds are still in the backlog");

        fixture.apply_callback("payment.succeeded", &order_no, "wrong", 1).await.unwrap();
        fixture.apply_callback("payment.succeeded", &fixture.order_no(7), "unknown", 100).await.unwrap();
        assert_eq!(count().await.parked_callbacks, 2, "{ledger}");
        parked::dismiss(&fixture.sql, &format!("unknown-{}", fixture.order_no(7))).await.unwrap();
        assert_eq!(count().await.parked_callbacks, 1, "{ledger}");

        fixture.set_stock(3).await;
        fixture.queue_orders(2..=4).await;
        assert_eq!(fixture.write_batch().await.unwrap().failed, 1, "{ledger}");
        assert_eq!(count().await.dead_letters, 1, "{ledger}");
        fixture.restock(1).await;
        let dead_letter = orders::dead_letters::list(&fixture.sql, None, 200).await.unwrap().remove(0);
        let dead_letter = domain::ids::OrderNo::parse(&dead_letter.order_no).unwrap();
        orders::dead_letters::requeue(&fixture.redis, &fixture.sql, &dead_letter).await.unwrap();
        assert_eq!(count().await.dead_letters, 0, "{ledger}: a requeued message still counts as a dead letter");
    }
}
