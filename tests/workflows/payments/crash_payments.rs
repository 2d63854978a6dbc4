//! Tests that crash a workflow at every call to a provider or to the shop's endpoint (E1, E4, E5, E7; I6).
//!
//! These calls are crash points in the same sequence as the calls to the stores.

use std::collections::BTreeMap;

use domain::{
    order::{Order, OrderStatus},
    webhook::PaymentProvider,
};
use operations::upkeep::passes;
use orders::{event_delivery::deliver_due, ledger::events::set_enabled};
use payments::{
    ledger::{
        addresses, callback_rows,
        refunds::{self, Refund},
        sessions::DueSession,
    },
    provider::{OpenedSession, Presentation, Provider, ProviderError, RefundStatus, SessionStatus},
    sessions::close_due,
};
use stores::{
    Sql,
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
};

use crate::{
    crash_points::{Crashing, CrashingFixture, crash_at_every_call, crash_at_every_call_and_recover},
    fakes::{FakeEndpoint, FakeProvider, RefundBehaviour},
    fixture::{LEDGERS, NOW, new_fixture},
    orders::events::TARGET,
};

/// Wraps `service` so that it shares the crash point of the fixture's stores.
fn crashing<'a, T>(fixture: &CrashingFixture, service: &'a T) -> Crashing<&'a T> {
    Crashing { store: service, crash_point: fixture.redis.crash_point.clone() }
}

/// Awaits `call`. Returns `crashed` instead if the process crashes before the call, or after it and loses the response.
async fn call_or_crash<T, A, E>(
    crashing: &Crashing<T>,
    call: impl Future<Output = Result<A, E>>,
    crashed: E,
) -> Result<A, E> {
    match crashing.crash_point.count_call() {
        (_, true) => Err(crashed),
        (true, _) if crashing.crash_point.takes_effect => call.await.and(Err(crashed)),
        (true, _) => Err(crashed),
        _ => call.await,
    }
}

impl Provider for Crashing<&FakeProvider> {
    fn name(&self) -> PaymentProvider {
        PaymentProvider::Stripe
    }

    async fn open_session(
        &self,
        order: &Order,
        attempt: i64,
        shown: &Presentation,
    ) -> Result<OpenedSession, ProviderError> {
        let opened = self.store.open_session(order, attempt, shown);
        call_or_crash(self, opened, ProviderError::new("the process is dead")).await
    }

    async fn close_session(&self, due: &DueSession) -> Result<SessionStatus, ProviderError> {
        call_or_crash(self, self.store.close_session(due), ProviderError::new("the process is dead")).await
    }

    async fn refund(&self, refund: &Refund) -> Result<RefundStatus, ProviderError> {
        call_or_crash(self, self.store.refund(refund), ProviderError::new("the process is dead")).await
    }
}

impl HttpClient for Crashing<&FakeEndpoint> {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        call_or_crash(self, self.store.send(request), NoResponse("the process is dead".to_owned())).await
    }
}

#[tokio::test]
async fn a_crashed_checkout_leaves_one_session_and_a_payable_order() {
    let provider = FakeProvider::default();
    crash_at_every_call(
        2,
        async |fixture| {
            fixture.pending_order(1, "ada", 1).await;
        },
        async |fixture| {
            let _ = fixture.checkout(&crashing(fixture, &provider), &fixture.order_no(1), "sealed").await;
            Ok(())
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            let order = fixture.check_out(&provider, &order_no).await;
            let session = provider.last_session(&order_no.to_string());
            assert_eq!(order.checkout_url, Some(format!("https://provider.example/{session}")), "{point}");
            assert!(addresses::load(&fixture.sql, &order_no).await.unwrap().is_some(), "{point}");
            // The ledger knows the session, so the sweeper can ask the provider about its payment.
            fixture.pay_without_callback(&provider, &order_no, point).await;
            assert_eq!(fixture.units().await, (1, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_session_that_ended_early_is_replaced_once_even_after_a_crash() {
    let provider = FakeProvider::default();
    crash_at_every_call(
        2,
        async |fixture| {
            let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
            provider.end_last_session(&order_no.to_string());
        },
        async |fixture| {
            let order_no = fixture.order_no(1);
            fixture.session_ended(&order_no, &format!("cs-{order_no}-1"), "ended").await?;
            let _ = fixture.checkout(&crashing(fixture, &provider), &order_no, "sealed").await;
            Ok(())
        },
        async |fixture, point| {
            let order_no = fixture.order_no(1);
            fixture.session_ended(&order_no, &format!("cs-{order_no}-1"), "ended").await.unwrap();
            let order = fixture.check_out(&provider, &order_no).await;
            assert_eq!(order.checkout_url, Some(format!("https://provider.example/cs-{order_no}-2")), "{point}");
            assert_eq!(fixture.redis_checkout_url(&order_no).await, order.checkout_url, "{point}");
            let sessions = provider.sessions.borrow().keys().filter(|(of, _)| *of == order_no.to_string()).count();
            assert_eq!(sessions, 2, "{point}");
            fixture.pay_without_callback(&provider, &order_no, point).await;
            assert_eq!(fixture.units().await, (1, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweeper_that_crashes_while_it_closes_a_session_releases_no_paid_order() {
    for paid in [true, false] {
        let provider = FakeProvider::default();
        crash_at_every_call(
            2,
            async |fixture| {
                let (order_no, _) = fixture.checked_out_order(&provider, 1, "ada").await;
                if paid {
                    provider.pay(&order_no.to_string());
                }
            },
            async |fixture| {
                let due = NOW.plus(360_000);
                close_due(&fixture.redis, &fixture.sql, &crashing(fixture, &provider), due, 10).await?;
                passes::expire(&fixture.redis, &fixture.sql, &fixture.activity, due, None).await.map(|_| ())
            },
            async |fixture, point| {
                // Within the grace period of a provider that does not answer.
                fixture.sweep_due(&provider, NOW.plus(400_000)).await;
                let status = fixture.ledger_status(&fixture.order_no(1)).await;
                let expected = if paid { (OrderStatus::Paid, (1, 0, 1)) } else { (OrderStatus::Expired, (2, 0, 0)) };
                assert_eq!((status, fixture.units().await), (Some(expected.0), expected.1), "{point}");
            },
        )
        .await;
    }
}

/// A sweep that comes before the callback is applied again sends no refund of its own.
#[tokio::test]
async fn a_crashed_callback_of_a_refund_made_at_the_provider_makes_no_second_refund() {
    let provider = FakeProvider::default();
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            fixture.paid_order(1, "ada").await;
        },
        async |fixture| fixture.refund_succeeded(&fixture.order_no(1), "r").await.map(|_| ()),
        async |fixture| {
            fixture.send_refunds(&provider, 0).await.unwrap();
            fixture.refund_succeeded(&fixture.order_no(1), "r").await.unwrap();
            fixture.recover().await;
        },
        async |fixture, point| {
            assert_eq!(*provider.refunds.borrow(), BTreeMap::new(), "{point}");
            assert_eq!(fixture.ledger_status(&fixture.order_no(1)).await, Some(OrderStatus::Refunded), "{point}");
            assert_eq!(fixture.units().await, (1, 0, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweep_applies_an_early_refund_of_a_payment_that_was_applied_in_part() {
    crash_at_every_call_and_recover(
        1,
        async |fixture| {
            fixture.pending_order(1, "ada", 1).await;
            fixture.refund_succeeded(&fixture.order_no(1), "r").await.unwrap();
        },
        async |fixture| fixture.payment_succeeded(&fixture.order_no(1), "p").await.map(|_| ()),
        async |fixture| {
            if fixture.ledger_status(&fixture.order_no(1)).await == Some(OrderStatus::PendingPayment) {
                fixture.payment_succeeded(&fixture.order_no(1), "p").await.unwrap();
            }
            fixture.recover().await;
        },
        async |fixture, point| {
            assert_eq!(callback_rows::list_parked(&fixture.sql, "", 200).await.unwrap(), [], "{point}");
            assert_eq!(fixture.ledger_status(&fixture.order_no(1)).await, Some(OrderStatus::Refunded), "{point}");
            assert_eq!(fixture.units().await, (1, 0, 0), "{point}");
        },
    )
    .await;
}

/// The refund was parked a moment before the payment was applied, and its request ended then.
#[tokio::test]
async fn an_early_refund_is_applied_by_its_own_next_delivery() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        fixture.refund_succeeded(&order_no, "r").await.unwrap();
        let hide = async |outcome: &str| {
            let statement = "UPDATE callbacks SET outcome = ?2 WHERE id = ?1";
            fixture.sql.run(statement, vec![format!("r-{order_no}").into(), outcome.into()]).await.unwrap();
        };
        hide("").await;
        fixture.payment_succeeded(&order_no, "p").await.unwrap();
        hide("unknown_payment").await;
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Paid), "{ledger}");
        fixture.refund_succeeded(&order_no, "r").await.unwrap();
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_whose_sender_crashes_is_made_once() {
    let provider = FakeProvider::default();
    provider.refund_behaviour.set(RefundBehaviour::Succeed);
    crash_at_every_call(
        2,
        async |fixture| {
            fixture.refunding_order(1, "ada").await;
        },
        async |fixture| fixture.send_refunds(&crashing(fixture, &provider), 0).await.map(|_| ()),
        async |fixture, point| {
            fixture.send_refunds(&provider, 100_000).await.unwrap();
            let order_no = fixture.order_no(1);
            assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::Refunded), "{point}");
            let payment = format!("pay-{order_no}");
            let refunds = provider.refunds.borrow().keys().filter(|(of, _)| *of == payment).count();
            assert_eq!(refunds, 1, "{point}: the payment was not refunded exactly once");
            assert_eq!(fixture.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}

/// The answer names the refund that failed, or none.
#[tokio::test]
async fn a_refund_whose_sender_crashes_after_a_failure_ends_refunded() {
    for answer in [RefundBehaviour::IsBackByFirst, RefundBehaviour::IsBack] {
        let provider = FakeProvider::default();
        crash_at_every_call(
            2,
            async |fixture| {
                let order_no = fixture.refunding_order(1, "ada").await;
                let failed = fixture.refund_callback(&order_no, "re_1");
                refunds::record_failure(&fixture.sql, &failed, NOW).await.unwrap();
                provider.refund_behaviour.set(answer);
            },
            async |fixture| fixture.send_refunds(&crashing(fixture, &provider), 60_000).await.map(|_| ()),
            async |fixture, point| {
                fixture.recover().await;
                fixture.send_refunds(&provider, 200_000).await.unwrap();
                let status = fixture.ledger_status(&fixture.order_no(1)).await;
                assert_eq!(status, Some(OrderStatus::Refunded), "{point}");
                assert_eq!(fixture.units().await, (2, 0, 0), "{point}");
            },
        )
        .await;
    }
}

#[tokio::test]
async fn all_events_are_delivered_in_order_after_the_sender_crashes() {
    let endpoint = FakeEndpoint::default();
    crash_at_every_call(
        2,
        async |fixture| {
            set_enabled(&fixture.sql, true).await.unwrap();
            fixture.paid_order(1, "ada").await;
            endpoint.clear();
        },
        async |fixture| {
            for _ in 0..3 {
                deliver_due(&crashing(fixture, &endpoint), &fixture.sql, TARGET, || NOW).await?;
            }
            Ok(())
        },
        async |fixture, point| {
            for minutes in 1..10 {
                deliver_due(&endpoint, &fixture.sql, TARGET, || NOW.plus(minutes * 60_000)).await.unwrap();
            }
            let mut ids = endpoint.event_ids();
            ids.dedup();
            let ulid = fixture.order_no(1).ulid();
            assert_eq!(ids, [format!("evt_{ulid}_pending_payment"), format!("evt_{ulid}_paid")], "{point}");
        },
    )
    .await;
}
