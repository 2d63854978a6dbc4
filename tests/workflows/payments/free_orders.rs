//! Tests of orders that cost nothing: no provider is asked (E1, E4; I1, I5, I6). All tests run on both ledgers.

use domain::{activity::Checkout, order::OrderStatus};
use payments::{
    checkout::CheckoutError,
    commands::CommandOutcome,
    ledger::{addresses, sessions},
};

use crate::{
    crash_points::{crash_at_every_call, crash_at_every_call_and_recover},
    fakes::FakeProvider,
    fixture::{DUE, LEDGERS, new_fixture},
    operations::epochs::RealFixture,
};

/// Makes the units free.
async fn give_away(fixture: &RealFixture, checkout: Checkout) {
    let change = |spec: &mut domain::activity::ActivitySpec| (spec.skus[0].price, spec.checkout) = (0, checkout);
    fixture.change_spec(change).await;
}

/// The status in the outcome of a command that succeeded.
fn done(outcome: CommandOutcome) -> OrderStatus {
    let CommandOutcome::Done(order) = outcome else { panic!("{outcome:?}") };
    order.status
}

#[tokio::test]
async fn a_free_order_is_paid_by_its_checkout_and_refunded_at_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        give_away(&fixture, Checkout::None).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        for _ in 0..2 {
            assert_eq!(
                done(fixture.check_out_free(&order_no, "not kept").await.unwrap()),
                OrderStatus::Paid,
                "{ledger}"
            );
            fixture.assert_status(&order_no, OrderStatus::Paid, ledger).await;
        }
        assert_eq!(fixture.units().await, (2, 0, 1), "{ledger}");
        assert_eq!(addresses::load(&fixture.sql, &order_no).await.unwrap(), None, "{ledger}");
        assert_eq!(sessions::load_latest(&fixture.sql, &order_no).await.unwrap(), None, "{ledger}");
        for _ in 0..2 {
            assert_eq!(done(fixture.request_refund(&order_no).await.unwrap()), OrderStatus::Refunded, "{ledger}");
            fixture.assert_status(&order_no, OrderStatus::Refunded, ledger).await;
        }
        assert_eq!(fixture.units().await, (3, 0, 0), "{ledger}");
        assert_eq!(fixture.claim_open_refunds().await, 0, "{ledger}");
        let refused = fixture.check_out_free(&order_no, "").await.unwrap();
        assert!(matches!(refused, CommandOutcome::Conflict(_)), "{ledger}: {refused:?}");
    }
}

#[tokio::test]
async fn a_free_order_needs_the_address_where_there_is_a_form_for_it() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        give_away(&fixture, Checkout::Form).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let refused = fixture.check_out_free(&order_no, "").await;
        assert_eq!(refused, Err(CheckoutError::AddressMissing), "{ledger}");
        fixture.assert_status(&order_no, OrderStatus::PendingPayment, ledger).await;
        assert_eq!(done(fixture.check_out_free(&order_no, "sealed").await.unwrap()), OrderStatus::Paid, "{ledger}");
        let stored = addresses::load(&fixture.sql, &order_no).await.unwrap();
        assert_eq!(stored.as_deref(), Some("sealed"), "{ledger}");
    }
}

#[tokio::test]
async fn a_free_order_expires_and_is_cancelled_like_any_other_and_one_with_a_price_is_not_free() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 3, 1).await, FakeProvider::default());
        let priced = fixture.pending_order(1, "ada", 1).await;
        let unpaid = fixture.check_out_free(&priced, "sealed").await.unwrap();
        assert!(matches!(unpaid, CommandOutcome::Conflict(_)), "{ledger}: {unpaid:?}");
        give_away(&fixture, Checkout::None).await;
        let (expired, cancelled) = (fixture.pending_order(2, "bob", 1).await, fixture.pending_order(3, "cy", 1).await);
        fixture.cancel(&cancelled).await.unwrap();
        assert_eq!(fixture.sweep_due(&provider, DUE).await, 2, "{ledger}");
        for order_no in [&expired, &cancelled] {
            let refused = fixture.check_out_free(order_no, "").await.unwrap();
            assert!(matches!(refused, CommandOutcome::Conflict(_)), "{ledger}: {refused:?}");
        }
        assert_eq!((fixture.units().await, provider.calls.get()), ((3, 0, 0), 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_crashed_checkout_of_a_free_order_is_finished_by_the_next() {
    crash_at_every_call(
        2,
        async |fixture| {
            give_away(fixture, Checkout::Form).await;
            fixture.pending_order(1, "ada", 1).await;
        },
        async |fixture| {
            let _ = fixture.check_out_free(&fixture.order_no(1), "sealed").await;
            Ok(())
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            assert_eq!(done(fixture.check_out_free(&order_no, "sealed").await.unwrap()), OrderStatus::Paid, "{point}");
            fixture.assert_status(&order_no, OrderStatus::Paid, point).await;
            assert_eq!(fixture.units().await, (1, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_crashed_refund_of_a_free_order_is_finished_by_a_sweep_which_asks_no_provider() {
    let provider = FakeProvider::default();
    crash_at_every_call_and_recover(
        2,
        async |fixture| {
            give_away(fixture, Checkout::None).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            fixture.check_out_free(&order_no, "").await.unwrap();
        },
        async |fixture| fixture.request_refund(&fixture.order_no(1)).await.map(|_| ()),
        async |fixture| {
            fixture.recover().await;
            fixture.send_refunds(&provider, 60_000).await.unwrap();
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            assert_eq!(done(fixture.request_refund(&order_no).await.unwrap()), OrderStatus::Refunded, "{point}");
            fixture.assert_status(&order_no, OrderStatus::Refunded, point).await;
            assert_eq!((fixture.units().await, provider.calls.get()), ((2, 0, 0), 0), "{point}");
        },
    )
    .await;
}
