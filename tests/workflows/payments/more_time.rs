//! Tests of an operator's extension of the time to pay one order.

use domain::{order::OrderStatus, time::Millis};
use payments::commands::{self, CommandOutcome};

use crate::{
    crash_points::crash_at_every_call,
    fakes::FakeProvider,
    fixture::{LEDGERS, NOW, new_fixture},
};

const DAY_MS: i64 = 86_400_000;

#[tokio::test]
async fn an_extended_order_is_sold_to_its_buyer_until_the_new_deadline() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 2, 2).await, FakeProvider::default());
        let (order_no, order) = fixture.checked_out_order(&provider, 1, "ada").await;
        let old = order.pay_by.unwrap();
        let extended = commands::extend(&fixture.sql, &order_no, DAY_MS, NOW).await.unwrap();
        extended.sync(&fixture.redis).await;
        let new = Some(old.plus(DAY_MS));
        assert!(matches!(extended.outcome, CommandOutcome::Done(order) if order.pay_by == new), "{ledger}");
        let in_redis = orders::status::load_order(&fixture.redis, &order_no).await.unwrap().order.unwrap();
        assert_eq!((in_redis.pay_by, in_redis.status), (new, OrderStatus::PendingPayment), "{ledger}");
        fixture.sweep_due(&provider, old.plus(120_000)).await;
        fixture.assert_status(&order_no, OrderStatus::PendingPayment, ledger).await;

        // The provider ends the session when it was to end: the buyer gets another one.
        fixture.session_ended(&order_no, &format!("cs-{order_no}-1"), "ended").await.unwrap();
        let url = fixture.check_out(&provider, &order_no).await.checkout_url;
        assert!(url.is_some() && url != order.checkout_url, "{ledger}: {url:?}");
        let later = old.plus(DAY_MS + 120_000);
        fixture.sweep_due(&provider, later).await;
        fixture.assert_status(&order_no, OrderStatus::Expired, ledger).await;
        let late = commands::extend(&fixture.sql, &order_no, 1_000, later).await.unwrap();
        assert!(matches!(late.outcome, CommandOutcome::Conflict(_)) && late.changed.is_none(), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_whose_time_is_over_is_not_extended_even_before_a_sweep() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let pay_by = fixture.order_row(&order_no).await.order.pay_by.unwrap();
        let extended = commands::extend(&fixture.sql, &order_no, 1_000, pay_by).await.unwrap();
        assert!(extended.changed.is_none(), "{ledger}");
    }
}

#[tokio::test]
async fn an_extension_that_dies_at_any_call_reaches_redis_or_did_not_happen() {
    crash_at_every_call(
        1,
        async |fixture| drop(fixture.pending_order(1, "ada", 1).await),
        async |fixture| {
            let extended = commands::extend(&fixture.sql, &fixture.order_no(1), DAY_MS, NOW).await?;
            extended.sync(&fixture.redis).await;
            Ok(())
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            let pay_by = fixture.order_row(&order_no).await.order.pay_by;
            let in_redis = orders::status::load_order(&fixture.redis, &order_no).await.unwrap().order.unwrap();
            assert_eq!(in_redis.pay_by, pay_by, "{point}");
            assert!(pay_by > Some(Millis(0)), "{point}");
        },
    )
    .await;
}
