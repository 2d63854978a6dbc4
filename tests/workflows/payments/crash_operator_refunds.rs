//! Refunds by operators with a death at every call, and beside the buyer's own refund, on both ledgers (E4; I6).

use domain::order::OrderStatus;
use payments::{
    commands::{RefundDecided, refund_by_operator},
    refunds::send_due,
};

use crate::{
    at_every_call::at_every_call,
    crash_points::crash_at_every_call_and_recover,
    fixture::{NOW, new_fixture},
    payments::{
        operator_refunds::{Bank, refund},
        payment_service::providers,
        refund_case::PROVIDERS,
    },
};

#[tokio::test]
async fn a_refund_of_the_buyer_beside_an_operators_part_gives_back_all_once() {
    for operator_first in [true, false] {
        at_every_call(
            async |ledger| {
                let fixture = new_fixture(ledger, 5, 1).await;
                fixture.paid_order(1, "ada").await;
                fixture
            },
            async |redis, sql, fixture| {
                let order_no = fixture.order_no(1);
                if operator_first {
                    let decided = refund_by_operator(sql, &order_no, Some((30, "one")), NOW).await.unwrap();
                    if let RefundDecided::Decided(decided) = decided {
                        decided.sync(redis).await;
                    }
                } else {
                    let now = stores::ledger::clock::Clock::from(NOW);
                    payments::commands::request_refund(sql, &order_no, now).await.unwrap().sync(redis).await;
                }
            },
            async |fixture| {
                let order_no = fixture.order_no(1);
                if operator_first {
                    fixture.request_refund(&order_no).await.unwrap();
                } else {
                    refund(fixture, &order_no, Some((30, "one"))).await.unwrap();
                }
            },
            async |fixture, point| {
                let order_no = fixture.order_no(1);
                fixture.assert_status(&order_no, OrderStatus::Refunding, point).await;
                let open = fixture.open_refunds().await;
                assert!(matches!(open.len(), 1 | 2), "{point}: {open:?}");
                let sum: i64 = open.iter().map(|refund| refund.rest().amount).sum();
                assert_eq!(sum, 100, "{point}: {open:?}");
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_request_that_dies_at_any_call_is_repeated_as_one_part() {
    crash_at_every_call_and_recover(
        1,
        async |fixture| drop(fixture.paid_order(1, "ada").await),
        async |fixture| refund(fixture, &fixture.order_no(1), Some((30, "one"))).await.map(drop),
        async |fixture| {
            fixture.recover().await;
            refund(fixture, &fixture.order_no(1), Some((30, "one"))).await.unwrap();
            fixture.recover().await;
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            let in_redis = orders::status::load_order(&fixture.redis, &order_no).await.unwrap().order.unwrap();
            assert_eq!((in_redis.status, in_redis.refunded), (OrderStatus::Paid, 30), "{point}");
            let open = fixture.open_refunds().await;
            assert_eq!(open.len(), 1, "{point}: {open:?}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweep_that_dies_at_any_call_sends_a_part_once() {
    for provider in PROVIDERS {
        let bank = &Bank::default();
        crash_at_every_call_and_recover(
            1,
            async |fixture| {
                bank.refunds.borrow_mut().clear();
                bank.status.set(None);
                let order_no = fixture.pending_order(1, "ada", 1).await;
                fixture.open_session(&order_no, provider, NOW).await.unwrap();
                fixture.payment_succeeded(&order_no, "e").await.unwrap();
                refund(fixture, &order_no, Some((30, "one"))).await.unwrap();
            },
            async |fixture| {
                bank.status.set(Some("succeeded"));
                let providers = providers(provider, bank, bank);
                send_due(&fixture.redis, &fixture.sql, &providers, NOW, 10).await.map(drop)
            },
            async |fixture| {
                let providers = providers(provider, bank, bank);
                for hours in 1..3 {
                    let now = NOW.plus(hours * 3_600_000);
                    send_due(&fixture.redis, &fixture.sql, &providers, now, 10).await.unwrap();
                }
                fixture.recover().await;
            },
            async |fixture, point| {
                assert_eq!(bank.amounts(), [30], "{point}");
                assert_eq!(fixture.open_refunds().await, [], "{point}");
            },
        )
        .await;
    }
}
