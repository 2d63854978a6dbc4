//! Tests of a Redis that loses its last writes and goes on: a crash with `appendfsync everysec`, or a promoted replica
//! (D8, G4; I1, I2, I4, I5). Sweeps alone bring each order back to what the ledger says; `lost_tail` has the sale.

use domain::{http::problem::Code, order::OrderStatus, webhook::PaymentProvider};
use operations::{commands::audit, upkeep::passes};
use stores::{Sql, keys::Keys, ports::SqlValue};

use crate::fixture::{LEDGERS, NOW, new_fixture};

#[tokio::test]
async fn a_payment_that_redis_lost_is_drift_and_comes_back() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let snapshot = fixture.snapshot_redis().await;
        fixture.payment_succeeded(&order_no, "e").await.unwrap();
        fixture.lose_redis_writes(&snapshot).await;
        let audit = audit::audit(&fixture.redis, &fixture.sql, &fixture.activity, 1).await.unwrap().unwrap();
        assert!(audit.drift > 0, "{ledger}: {audit:#?}");
        fixture.recover().await;
        assert_eq!(fixture.redis_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.units().await, (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_extension_that_redis_lost_comes_back() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let snapshot = fixture.snapshot_redis().await;
        fixture.open_session(&order_no, PaymentProvider::Stripe, NOW).await.unwrap();
        let extended = fixture.order_row(&order_no).await.order.pay_by;
        fixture.lose_redis_writes(&snapshot).await;
        fixture.recover().await;
        let lookup = orders::status::load_order(&fixture.redis, &order_no).await.unwrap();
        assert_eq!(lookup.order.unwrap().pay_by, extended, "{ledger}");
    }
}

#[tokio::test]
async fn a_written_order_that_redis_lost_is_counted_again() {
    for ledger in LEDGERS {
        for paid in [false, true] {
            let fixture = new_fixture(ledger, 2, 1).await;
            let snapshot = fixture.snapshot_redis().await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            if paid {
                fixture.payment_succeeded(&order_no, "e").await.unwrap();
            }
            fixture.lose_redis_writes(&snapshot).await;
            fixture.recover().await;
            assert_eq!(fixture.redis_status(&order_no).await, fixture.ledger_status(&order_no).await, "{ledger}");
            assert_eq!(fixture.units().await, if paid { (1, 0, 1) } else { (1, 1, 0) }, "{ledger}");
            // The buyer's limit counts the order (I3), and its ticket makes no second one (I7).
            assert_eq!(fixture.refusal(2, "ada", 1).await, Some(Code::LimitReached), "{ledger}");
            assert_eq!(fixture.refusal(1, "ada", 1).await, None, "{ledger}");
            assert_eq!(fixture.units().await, if paid { (1, 0, 1) } else { (1, 1, 0) }, "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_change_is_confirmed_when_redis_has_had_it_for_seconds_whatever_the_callers_clocks_say() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let later = NOW.plus(7_200_000);
        let unsynced = async || {
            let statement = "SELECT COUNT(*) FROM orders WHERE unsynced_since > 0";
            let rows = fixture.sql.run(statement, vec![]).await.unwrap();
            rows == [[SqlValue::Int(1)]]
        };
        // The writer told Redis a moment ago, although its clock says hours.
        assert_eq!(passes::sync(&fixture.redis, &fixture.sql, &fixture.activity, later).await.unwrap(), (1, 0));
        assert!(unsynced().await, "{ledger}: confirmed at once");
        fixture.run_redis(&["HINCRBY", &Keys::of(&fixture.activity).order(order_no.ulid()), "synced", "-3000"]).await;
        let later = later.plus(passes::SYNC_AFTER_MS);
        assert_eq!(passes::sync(&fixture.redis, &fixture.sql, &fixture.activity, later).await.unwrap(), (1, 0));
        assert!(!unsynced().await, "{ledger}: not confirmed");
    }
}

#[tokio::test]
async fn a_queue_counted_too_long_is_corrected_by_the_stream() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.pending_order(1, "ada", 1).await;
        fixture.reserve(2, "bob", 1).await.unwrap();
        // As after a crash in which Redis kept half of a reservation: it is counted, and has no message.
        fixture.run_redis(&["HINCRBY", &fixture.key("stats"), "enqueued", "3"]).await;
        fixture.check_gates().await;
        let stats = operations::commands::stats::stats(&fixture.redis, &fixture.activity).await.unwrap().unwrap();
        assert_eq!((stats.queue, stats.stream), (1, 1), "{ledger}");
    }
}
