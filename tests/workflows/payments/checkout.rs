//! Tests of checkout, of closing sessions before an order is released, and of refunds (E1, E6).
//!
//! The provider is [`FakeProvider`]. All tests run on both ledgers.

use domain::order::OrderStatus;
use operations::upkeep::passes;
use orders::ledger::{
    order_changes::{self, Canceller, SESSION_GRACE_MS},
    order_rows,
};
use payments::{
    callbacks::CallbackEffect,
    checkout::CheckoutError,
    commands::CommandOutcome,
    ledger::{
        addresses,
        sessions::{self, Session},
    },
    provider::{Presentation, Provider},
    sessions::close_due,
};
use stores::{Sql, ports::SqlValue};

use crate::{
    fakes::{FakeProvider, RefundBehaviour},
    fixture::{DUE, LEDGERS, NOW, new_fixture, open_connection},
    stores::RealLedger,
};

#[tokio::test]
async fn checking_out_again_returns_the_same_session_and_stores_the_last_address() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, first) = fixture.checked_out_order(&provider, 1, "ada").await;
        let CommandOutcome::Done(again) = fixture.checkout(&provider, &order_no, "sealed again").await.unwrap() else {
            panic!()
        };
        assert_eq!((&first.checkout_url, first.pay_by), (&again.checkout_url, again.pay_by), "{ledger}");
        assert!(first.checkout_url.as_ref().unwrap().starts_with("https://provider.example/cs-"), "{ledger}");
        assert_eq!(provider.calls.get(), 1, "{ledger}: asked once");
        let stored = addresses::load(&fixture.sql, &order_no).await.unwrap();
        assert_eq!(stored.as_deref(), Some("sealed again"), "{ledger}");
    }
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test]
async fn a_checkout_waits_for_no_other_checkout_of_the_activity() {
    let (fixture, provider) = (new_fixture("postgres", 5, 1).await, FakeProvider::default());
    let (first, second) = (fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "bob", 1).await);
    let other = open_connection(&fixture).await;
    let run = async |sql: &RealLedger, statement| sql.run(statement, Vec::new()).await.unwrap();
    run(&other, "BEGIN").await;
    let session =
        Session { provider: "webhook".to_owned(), id: "s".to_owned(), url: "/pay".to_owned(), session_number: 1 };
    sessions::save(&other, &second, &session, NOW).await.unwrap();
    run(&fixture.sql, "SET lock_timeout = '1s'").await;
    let outcome = fixture.checkout(&provider, &first, "sealed").await.unwrap();
    assert!(matches!(outcome, CommandOutcome::Done(_)), "{outcome:?}");
    run(&other, "COMMIT").await;
}

/// The order is read at the start of a checkout: another client may cancel it before the session is saved.
#[tokio::test]
async fn a_session_of_an_order_that_was_released_meanwhile_starts_no_payment_and_is_closed_at_once() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let order = order_rows::load(&fixture.sql, &order_no).await.unwrap().unwrap().order;
        let opened = provider.open_session(&order, 1, &Presentation::default()).await.unwrap();
        order_changes::cancel(&fixture.sql, &order_no, Canceller::Buyer, NOW).await.unwrap().expect("cancelled");
        let provider_name = provider.name().as_str().to_owned();
        let session = Session { provider: provider_name, id: opened.session_id, url: opened.url, session_number: 1 };
        assert_eq!(sessions::save(&fixture.sql, &order_no, &session, NOW).await.unwrap(), None, "{ledger}");
        close_due(&fixture.redis, &fixture.sql, &provider, NOW, 10).await.unwrap();
        assert_eq!(provider.ended_sessions.borrow().len(), 1, "{ledger}");
    }
}

/// Each round of the sweeper would read the sessions that are due, though their orders are not.
#[tokio::test]
async fn no_session_is_due_before_the_extended_time_to_pay_is_over() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        let due = "SELECT next_ask_at FROM sessions WHERE order_no = ?1";
        let rows = fixture.sql.run(due, vec![order_no.to_string().into()]).await.unwrap();
        assert_eq!(rows, [[SqlValue::Int(DUE.0)]], "{ledger}");
    }
}

#[tokio::test]
async fn concurrent_checkouts_open_one_session() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let all = (0..20).map(|_| fixture.checkout(&provider, &order_no, "sealed"));
        for result in futures::future::join_all(all).await {
            let CommandOutcome::Done(order) = result.unwrap() else { panic!("{ledger}") };
            assert_eq!(order.pay_by, Some(DUE), "{ledger}: extended once");
        }
        assert_eq!(provider.sessions.borrow().len(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_cannot_be_paid_stores_no_address_and_opens_no_session() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.cancel(&order_no).await.unwrap();
        let refused = fixture.checkout(&provider, &order_no, "sealed").await.unwrap();
        assert!(matches!(refused, CommandOutcome::Conflict(_)), "{ledger}");
        assert_eq!(addresses::load(&fixture.sql, &order_no).await.unwrap(), None, "{ledger}");
        assert_eq!(provider.calls.get(), 0, "{ledger}");
    }
}

#[tokio::test]
async fn an_unresponsive_provider_leaves_the_order_pending() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        provider.drops_responses.set(true);
        let unanswered = fixture.checkout(&provider, &order_no, "sealed").await;
        assert!(matches!(unanswered, Err(CheckoutError::Provider(_))), "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
        provider.drops_responses.set(false);
        fixture.check_out(&provider, &order_no).await;
        assert_eq!(provider.sessions.borrow().len(), 1, "{ledger}: a retry after a lost response made a second one");
    }
}

#[tokio::test]
async fn an_address_is_erased_when_its_order_has_not_changed_for_long() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 2).await, FakeProvider::default());
        let (paid, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        fixture.payment_succeeded(&paid, "e").await.unwrap();
        let (waiting, _) = fixture.checked_out_order(&provider, 2, "bob").await;
        assert_eq!(addresses::erase(&fixture.sql, NOW.plus(-1), 100).await.unwrap(), 0, "{ledger}: too young");
        assert_eq!(addresses::erase(&fixture.sql, NOW, 100).await.unwrap(), 1, "{ledger}");
        assert_eq!(addresses::load(&fixture.sql, &paid).await.unwrap(), None, "{ledger}");
        assert!(addresses::load(&fixture.sql, &waiting).await.unwrap().is_some(), "{ledger}: still to be paid");
    }
}

#[tokio::test]
async fn a_due_order_is_released_when_the_provider_reports_no_payment() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        assert_eq!(fixture.sweep_due(&provider, DUE.plus(-1)).await, 0, "{ledger}: not due");
        assert_eq!(provider.calls.get(), 1, "{ledger}: the provider was called before the order was due");
        assert_eq!(fixture.sweep_due(&provider, DUE).await, 1, "{ledger}");
        assert_eq!(provider.ended_sessions.borrow().len(), 1, "{ledger}: the session is ended");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Expired), "{ledger}");
        assert_eq!(fixture.units().await, (5, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_due_order_that_was_paid_without_a_callback_becomes_paid() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        fixture.pay_without_callback(&provider, &order_no, ledger).await;
        // The callback arrives late.
        assert_eq!(fixture.payment_succeeded(&order_no, "e").await.unwrap(), CallbackEffect::NoChange, "{ledger}");
        assert_eq!(fixture.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_due_order_waits_a_bounded_time_for_an_unresponsive_provider() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        provider.pay(&order_no.to_string());
        provider.drops_responses.set(true);
        assert_eq!(fixture.sweep_due(&provider, DUE).await, 0, "{ledger}");
        assert_eq!(fixture.sweep_due(&provider, DUE.plus(SESSION_GRACE_MS - 1)).await, 0, "{ledger}");
        assert_eq!(fixture.sweep_due(&provider, DUE.plus(SESSION_GRACE_MS)).await, 1, "{ledger}");
        assert_eq!(fixture.units().await, (5, 0, 0), "{ledger}");
        // The provider answers again and reports the payment: the order reacquires its unit.
        provider.drops_responses.set(false);
        fixture.sweep_due(&provider, DUE.plus(SESSION_GRACE_MS + 100_000)).await;
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn the_session_of_a_cancelled_order_is_ended() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        fixture.cancel(&order_no).await.unwrap();
        fixture.sweep_due(&provider, NOW).await;
        assert_eq!(provider.ended_sessions.borrow().len(), 1, "{ledger}");
        fixture.sweep_due(&provider, DUE).await;
        assert_eq!(provider.ended_sessions.borrow().len(), 1, "{ledger}: once");
    }
}

#[tokio::test]
async fn a_session_that_ended_early_is_hidden_and_replaced() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, first) = fixture.checked_out_order(&provider, 1, "ada").await;
        let ended = provider.last_session(&order_no.to_string());
        assert_eq!(fixture.redis_checkout_url(&order_no).await, first.checkout_url, "{ledger}");
        provider.end_last_session(&order_no.to_string());
        assert_eq!(fixture.session_ended(&order_no, &ended, "e").await.unwrap(), CallbackEffect::Changed, "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, None, "{ledger}: polling");
        let listed = order_rows::list_for_user(&fixture.sql, &first.user, None, 10, NOW).await.unwrap();
        assert!(listed.iter().all(|order| order.checkout_url.is_none()), "{ledger}: the list of orders");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}: too early");

        let second = fixture.check_out(&provider, &order_no).await;
        assert_ne!(second.checkout_url, first.checkout_url, "{ledger}");
        assert_eq!(second.pay_by, first.pay_by, "{ledger}: extended once");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, second.checkout_url, "{ledger}");
        // A second callback about the first session, with another event id, leaves the second session open.
        fixture.session_ended(&order_no, &ended, "again").await.unwrap();
        let same = fixture.check_out(&provider, &order_no).await;
        assert_eq!(same.checkout_url, second.checkout_url, "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, second.checkout_url, "{ledger}");
        assert_eq!(provider.sessions.borrow().len(), 2, "{ledger}");
        fixture.pay_without_callback(&provider, &order_no, ledger).await;
    }
}

#[tokio::test]
async fn concurrent_checkouts_after_a_session_ended_open_one_new_session() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
        let ended = provider.last_session(&order_no.to_string());
        provider.end_last_session(&order_no.to_string());
        let (ended, all) = (
            fixture.session_ended(&order_no, &ended, "e"),
            futures::future::join_all((0..20).map(|_| fixture.checkout(&provider, &order_no, "sealed"))),
        );
        let (ended, all) = futures::join!(ended, all);
        ended.unwrap();
        assert!(all.into_iter().all(|result| matches!(result, Ok(CommandOutcome::Done(_)))), "{ledger}");
        let order = fixture.check_out(&provider, &order_no).await;
        assert_eq!(order.checkout_url, Some(format!("https://provider.example/cs-{order_no}-2")), "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, order.checkout_url, "{ledger}");
        assert_eq!(provider.sessions.borrow().len(), 2, "{ledger}: the first, and one other");
    }
}

#[tokio::test]
async fn a_session_ended_callback_may_arrive_before_the_session_is_stored() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        // The provider opens a session, and its response is lost.
        provider.drops_responses.set(true);
        assert!(fixture.checkout(&provider, &order_no, "sealed").await.is_err(), "{ledger}");
        provider.drops_responses.set(false);
        let lost = provider.last_session(&order_no.to_string());
        provider.end_last_session(&order_no.to_string());
        fixture.session_ended(&order_no, &lost, "e").await.unwrap();
        let order = fixture.check_out(&provider, &order_no).await;
        assert_eq!(order.checkout_url, Some(format!("https://provider.example/cs-{order_no}-2")), "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, order.checkout_url, "{ledger}");
    }
}

#[tokio::test]
async fn a_session_closed_by_the_sweeper_during_checkout_is_replaced_in_the_extended_time() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let order = order_rows::load(&fixture.sql, &order_no).await.unwrap().unwrap().order;
        let opened = provider.open_session(&order, 1, &Presentation::default()).await.unwrap();
        let due = order.pay_by.unwrap();
        let name = provider.name().as_str().to_owned();
        let first = Session { provider: name, id: opened.session_id, url: opened.url, session_number: 1 };
        // A checkout saved the session when the order was due: it extends nothing, and the sweeper closes the session.
        sessions::save(&fixture.sql, &order_no, &first, due).await.unwrap();
        close_due(&fixture.redis, &fixture.sql, &provider, due, 10).await.unwrap();
        assert_eq!(provider.ended_sessions.borrow().len(), 1, "{ledger}");
        let order = fixture.check_out(&provider, &order_no).await;
        assert_eq!(order.pay_by, Some(DUE), "{ledger}: extended");
        assert_eq!(order.checkout_url, Some(format!("https://provider.example/cs-{order_no}-2")), "{ledger}");
        let expired = passes::expire(&fixture.redis, &fixture.sql, &fixture.activity, due, None).await.unwrap();
        assert_eq!(expired, 0, "{ledger}");
        assert_eq!(fixture.redis_checkout_url(&order_no).await, order.checkout_url, "{ledger}");
    }
}

#[tokio::test]
async fn an_order_without_a_session_expires_without_a_provider_call() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        fixture.pending_order(1, "ada", 1).await;
        assert_eq!(fixture.sweep_due(&provider, DUE).await, 1, "{ledger}");
        assert_eq!(provider.calls.get(), 0, "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_is_retried_until_it_is_confirmed_and_made_once() {
    for ledger in LEDGERS {
        let (fixture, provider) = (new_fixture(ledger, 5, 1).await, FakeProvider::default());
        let order_no = fixture.refunding_order(1, "ada").await;
        let send = async |ms| fixture.send_refunds(&provider, ms).await.unwrap();
        provider.drops_responses.set(true);
        let unanswered = send(0).await;
        assert_eq!((unanswered.attempted, unanswered.failed.len()), (1, 1), "{ledger}: it is reported for a retry");
        assert_eq!(send(4_999).await.attempted, 0, "{ledger}: not before its time");
        provider.drops_responses.set(false);
        assert_eq!(send(5_000).await.failed, [], "{ledger}");
        assert_eq!(provider.refunds.borrow().len(), 1, "{ledger}: the retry created a second refund");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunding), "{ledger}: not confirmed yet");
        provider.refund_behaviour.set(RefundBehaviour::Succeed);
        assert_eq!(send(10_000_000).await.attempted, 1, "{ledger}");
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
        assert_eq!(send(100_000_000).await.attempted, 0, "{ledger}: a confirmed refund was sent again");
        assert_eq!(provider.refunds.borrow().len(), 1, "{ledger}");
        assert_eq!(fixture.units().await, (5, 0, 0), "{ledger}");
    }
}
