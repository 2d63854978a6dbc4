//! Dying between money and ledger: a provider's or an endpoint's answer is a point to die at like any call to a store
//! (E1, E4, E5, E7; I6).

use domain::order::{Order, Status};
use workflows::{
    http_client::{HttpClient, HttpRequest, HttpResponse, NoResponse},
    ledger::{addresses, events::switch, refunds::Refund},
    payments::{
        commands::CommandOutcome,
        provider::{Closed, Opened, Provider, Refunded, Unknown},
        sessions::ask,
    },
    queue::outbox::{Target, deliver},
    recovery::sweep,
};

use crate::{
    crash_points::{Mortal, Mortals, die_everywhere},
    fakes::{Endpoint, Refunding, Till},
    fixture::NOW,
};

/// What a process loses at some call, beside its stores.
fn mortal<'a, T>(world: &Mortals, outside: &'a T) -> Mortal<&'a T> {
    Mortal { store: outside, death: world.redis.death.clone() }
}

/// Calls `call`, unless the process dies before it, and forgets the answer where it dies after it.
async fn mortally<T, A, E>(mortal: &Mortal<T>, call: impl Future<Output = Result<A, E>>, dead: E) -> Result<A, E> {
    match mortal.death.strikes() {
        (_, true) => Err(dead),
        (true, _) if mortal.death.after => call.await.and(Err(dead)),
        (true, _) => Err(dead),
        _ => call.await,
    }
}

impl Provider for Mortal<&Till> {
    async fn open(&self, order: &Order, attempt: i64) -> Result<Opened, Unknown> {
        mortally(self, self.store.open(order, attempt), Unknown::new("the process is dead")).await
    }

    async fn close(&self, session: &str) -> Result<Closed, Unknown> {
        mortally(self, self.store.close(session), Unknown::new("the process is dead")).await
    }

    async fn refund(&self, refund: &Refund) -> Result<Refunded, Unknown> {
        mortally(self, self.store.refund(refund), Unknown::new("the process is dead")).await
    }
}

impl HttpClient for Mortal<&Endpoint> {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, NoResponse> {
        mortally(self, self.store.send(request), NoResponse("the process is dead".to_owned())).await
    }
}

#[tokio::test]
async fn a_checkout_that_dies_leaves_one_session_and_an_order_that_can_be_paid() {
    let till = Till::default();
    die_everywhere(
        "checkout: a session opened at a provider",
        2,
        async |world| {
            world.order(1, "ada", 1).await;
        },
        async |world| {
            let _ = world.checkout(&mortal(world, &till), &world.order_no(1), "sealed").await;
            Ok(())
        },
        async |world, point| {
            let order_no = world.order_no(1);
            let again = world.checkout(&till, &order_no, "sealed").await.unwrap();
            assert!(matches!(again, CommandOutcome::Done(_)), "{point}: {again:?}");
            let session = till.session(&order_no.to_string());
            let CommandOutcome::Done(order) = again else { return };
            assert_eq!(order.checkout_url, Some(format!("https://till.example/{session}")), "{point}");
            assert!(addresses::load(&world.sql, &order_no).await.unwrap().is_some(), "{point}");
            // What can be paid can be asked about.
            world.paid_without_a_callback(&till, &order_no, point).await;
            assert_eq!(world.units().await, (1, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_session_that_ends_early_is_followed_by_one_other_wherever_somebody_dies() {
    let till = Till::default();
    die_everywhere(
        "payment callback: a session ended, and the order checked out again",
        2,
        async |world| {
            let (order_no, _) = world.checked_out(&till, 1, "ada").await;
            till.end(&order_no.to_string());
        },
        async |world| {
            let order_no = world.order_no(1);
            world.ended(&order_no, &format!("cs-{order_no}-1"), "ended").await?;
            let _ = world.checkout(&mortal(world, &till), &order_no, "sealed").await;
            Ok(())
        },
        async |world, point| {
            let order_no = world.order_no(1);
            world.ended(&order_no, &format!("cs-{order_no}-1"), "ended").await.unwrap();
            let CommandOutcome::Done(order) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
                panic!("{point}")
            };
            assert_eq!(order.checkout_url, Some(format!("https://till.example/cs-{order_no}-2")), "{point}");
            assert_eq!(world.hot_url(&order_no).await, order.checkout_url, "{point}");
            let sessions = till.sessions.borrow().keys().filter(|(of, _)| *of == order_no.to_string()).count();
            assert_eq!(sessions, 2, "{point}");
            world.paid_without_a_callback(&till, &order_no, point).await;
            assert_eq!(world.units().await, (1, 0, 1), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn a_sweeper_that_dies_while_it_asks_releases_nothing_that_was_paid() {
    for paid in [true, false] {
        let till = Till::default();
        die_everywhere(
            if paid {
                "sweeper: a provider asked, who has the money"
            } else {
                "sweeper: a provider asked, who has none"
            },
            2,
            async |world| {
                let (order_no, _) = world.checked_out(&till, 1, "ada").await;
                if paid {
                    till.pay(&order_no.to_string());
                }
            },
            async |world| {
                let due = NOW.plus(360_000);
                ask(&world.redis, &world.sql, &mortal(world, &till), due, 10).await?;
                sweep::expire(&world.redis, &world.sql, due, None).await.map(|_| ())
            },
            async |world, point| {
                // Before the time is over for which a silent provider is waited for.
                world.sweep_due(&till, NOW.plus(400_000)).await;
                let status = world.status(&world.order_no(1)).await;
                let expected = if paid { (Status::Paid, (1, 0, 1)) } else { (Status::Expired, (2, 0, 0)) };
                assert_eq!((status, world.units().await), (Some(expected.0), expected.1), "{point}");
            },
        )
        .await;
    }
}

#[tokio::test]
async fn a_refund_whose_sender_dies_is_one_refund() {
    let till = Till::default();
    till.refunding.set(Refunding::AtOnce);
    die_everywhere(
        "sweeper: a refund sent to a provider",
        2,
        async |world| {
            world.refunding_order(1, "ada").await;
        },
        async |world| world.send_refunds(&mortal(world, &till), 0).await.map(|_| ()),
        async |world, point| {
            world.send_refunds(&till, 100_000).await.unwrap();
            let order_no = world.order_no(1);
            assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{point}");
            let payment = format!("pay-{order_no}");
            let refunds = till.refunds.borrow().keys().filter(|(of, _)| *of == payment).count();
            assert_eq!(refunds, 1, "{point}: the buyer has the money once");
            assert_eq!(world.units().await, (2, 0, 0), "{point}");
        },
    )
    .await;
}

#[tokio::test]
async fn events_whose_sender_dies_all_arrive_in_order() {
    const TARGET: Target<'static> =
        Target { url: "https://shop.example", secrets: "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD" };
    let shop = Endpoint::default();
    die_everywhere(
        "sweeper: events sent",
        2,
        async |world| {
            switch(&world.sql, true).await.unwrap();
            world.paid_order(1, "ada").await;
            shop.forget();
        },
        async |world| {
            for _ in 0..3 {
                deliver(&mortal(world, &shop), &world.sql, TARGET, || NOW).await?;
            }
            Ok(())
        },
        async |world, point| {
            for minutes in 1..10 {
                deliver(&shop, &world.sql, TARGET, || NOW.plus(minutes * 60_000)).await.unwrap();
            }
            let mut ids = shop.ids();
            ids.dedup();
            let ulid = world.order_no(1).ulid();
            assert_eq!(ids, [format!("evt_{ulid}_pending_payment"), format!("evt_{ulid}_paid")], "{point}");
        },
    )
    .await;
}
