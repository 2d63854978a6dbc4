//! Tests of the backlog counts: events, refunds, parked callbacks and dead letters, on both ledgers (G6; E4, E7, D4).

use operations::ledger::backlog::{Backlog, Remaining, load};
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
        let whole = async || load(&fixture.sql).await.unwrap();
        assert_eq!(whole().await.on_sale, std::slice::from_ref(&fixture.activity), "{ledger}: it needs a gate");
        // What sweeps have left is compared where it matters.
        let count = async || Backlog { remaining: Remaining::default(), on_sale: Vec::new(), ..whole().await };
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
        let open = Backlog { refunds: 2, oldest_refund_at: NOW, ..Backlog::default() };
        assert_eq!(count().await, open, "{ledger}: of order and overpayment");
        assert_eq!(whole().await.remaining.refunds, 1, "{ledger}: of the order");
        provider.refund_behaviour.set(RefundBehaviour::Fail);
        fixture.send_refunds(&provider, 0).await.unwrap();
        assert_eq!(count().await, Backlog { stuck_refunds: 2, ..open }, "{ledger}");
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
        let written = fixture.write_batch().await.unwrap();
        assert_eq!((written.failed, written.batches), (1, 1), "{ledger}");
        let [(_, "no_room_in_ledger")] = &written.dead_letters[..] else { panic!("{ledger}: {written:?}") };
        assert_eq!(count().await.dead_letters, 1, "{ledger}");
        // The time of these tests is long ago.
        assert_eq!(whole().await.remaining.due, 2, "{ledger}: those that were written are due");
        fixture.restock(1).await;
        let dead_letter = orders::dead_letters::list(&fixture.sql, None, 200).await.unwrap().remove(0);
        let dead_letter = domain::ids::OrderNo::parse(&dead_letter.order_no).unwrap();
        orders::dead_letters::requeue(&fixture.redis, &fixture.sql, &dead_letter).await.unwrap();
        assert_eq!(count().await.dead_letters, 0, "{ledger}: a requeued message still counts as a dead letter");
    }
}
