//! Tests of where the delivery address comes from: a form, the payment page, or nowhere (E1). All run on both ledgers.

use domain::{activity::Checkout, ids::OrderNo, webhook::ProviderCallback};
use payments::{callbacks, checkout::CheckoutError, commands::CommandOutcome, ledger::addresses};

use crate::{
    crash_points::crash_at_every_call,
    fakes::FakeProvider,
    fixture::{LEDGERS, NOW, new_fixture},
    operations::epochs::RealFixture,
    payments::report,
};

async fn address_of(fixture: &RealFixture, order_no: &OrderNo) -> Option<String> {
    addresses::load(&fixture.sql, order_no).await.unwrap()
}

/// A payment with the address that its page asked for.
fn paid_with_address(order_no: &OrderNo, payment: &str, sealed_address: &str) -> ProviderCallback {
    ProviderCallback { sealed_address: sealed_address.to_owned(), ..report("payment.succeeded", order_no, payment) }
}

#[tokio::test]
async fn a_checkout_asks_for_the_address_where_the_activity_says() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 9, 1).await, FakeProvider::default());
        for (n, checkout, sealed, kept, asks_address) in [
            (1, Checkout::Form, "sealed", Some("sealed"), false),
            (2, Checkout::None, "sealed", None, false),
            (3, Checkout::None, "", None, false),
            (4, Checkout::Provider, "", None, true),
            (5, Checkout::Provider, "sealed", None, true),
        ] {
            fixture.change_spec(|spec| spec.checkout = checkout).await;
            let order_no = fixture.pending_order(n, &format!("user {n}"), 1).await;
            let outcome = fixture.checkout(&provider, &order_no, sealed).await.unwrap();
            assert!(matches!(outcome, CommandOutcome::Done(_)), "{ledger} {checkout:?}: {outcome:?}");
            assert_eq!(address_of(&fixture, &order_no).await.as_deref(), kept, "{ledger} {checkout:?}");
            assert_eq!(provider.shown.borrow().last().unwrap().asks_address, asks_address, "{ledger} {checkout:?}");
        }
        fixture.change_spec(|spec| spec.checkout = Checkout::Form).await;
        let order_no = fixture.pending_order(6, "user 6", 1).await;
        let opened = provider.calls.get();
        assert_eq!(fixture.checkout(&provider, &order_no, "").await, Err(CheckoutError::AddressMissing), "{ledger}");
        assert_eq!(provider.calls.get(), opened, "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_page_shows_an_option_with_its_item() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 1, 1).await, FakeProvider::default());
        fixture.change_spec(|spec| spec.skus[0].item = "Shirt".to_owned()).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.checkout(&provider, &order_no, "sealed").await.unwrap();
        assert_eq!(provider.shown.borrow().last().unwrap().name, "Shirt · Phone", "{ledger}");
    }
}

#[tokio::test]
async fn the_address_of_the_payment_page_is_kept_until_it_is_erased() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 3, 1).await, FakeProvider::default());
        fixture.change_spec(|spec| spec.checkout = Checkout::Provider).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.checkout(&provider, &order_no, "").await.unwrap();
        let pay = async |payment: &str, sealed| {
            let callback = paid_with_address(&order_no, payment, sealed);
            callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.unwrap();
        };
        pay("pi_1", "of Stripe").await;
        assert_eq!(address_of(&fixture, &order_no).await.as_deref(), Some("of Stripe"), "{ledger}");
        pay("pi_2", "of a second payment").await;
        assert_eq!(address_of(&fixture, &order_no).await.as_deref(), Some("of Stripe"), "{ledger}");
        assert_eq!(addresses::erase(&fixture.sql, NOW, 100).await.unwrap(), 1, "{ledger}");
        pay("pi_1", "of Stripe").await;
        assert_eq!(address_of(&fixture, &order_no).await, None, "{ledger}: a late callback brought it back");
    }
}

#[tokio::test]
async fn no_payment_is_without_its_address_after_a_crash() {
    crash_at_every_call(
        2,
        async |fixture| {
            fixture.change_spec(|spec| spec.checkout = Checkout::Provider).await;
            let order_no = fixture.pending_order(1, "ada", 1).await;
            fixture.checkout(&FakeProvider::default(), &order_no, "").await.unwrap();
        },
        async |fixture| {
            let callback = paid_with_address(&fixture.order_no(1), "pi_1", "of Stripe");
            callbacks::apply(&fixture.redis, &fixture.sql, &callback, NOW).await.map(|_| ())
        },
        async |fixture, point| {
            use domain::order::OrderStatus::Paid;
            let order_no = fixture.order_no(1);
            let is_paid = fixture.ledger_status(&order_no).await == Some(Paid);
            let has_address = address_of(fixture, &order_no).await.is_some();
            assert!(has_address || !is_paid, "{point}: the provider sends no paid callback again");
        },
    )
    .await;
}
