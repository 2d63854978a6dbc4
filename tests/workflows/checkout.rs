//! Checkout, the question before an order is released, and refunds, with a provider in memory, on both ledgers.

use domain::{
    ids::OrderNo,
    order::{Order, Status},
    time::Millis,
};
use workflows::{
    Redis, Sql,
    ledger::{
        addresses, orders, refunds,
        sessions::{self, GRACE_MS, Last},
    },
    payments::{
        callbacks::Applied,
        checkout::{CheckoutError, checkout},
        commands::CommandOutcome,
        provider::Provider,
        sessions::ask,
    },
    recovery::sweep,
};

use crate::{
    fakes::{Refunding, Till},
    fixture::{LEDGERS, NOW, World, world},
};

/// When every order of these tests is due: time to pay, and its extension.
const DUE: Millis = Millis(NOW.0 + 360_000);

impl<R: Redis, S: Sql> World<R, S> {
    /// Checks an order out.
    pub async fn checkout<P: Provider>(
        &self,
        till: &P,
        order_no: &OrderNo,
        sealed: &str,
    ) -> Result<CommandOutcome, CheckoutError> {
        let order = orders::load(&self.sql, order_no).await?.expect("an order").order;
        checkout(&self.redis, &self.sql, till, &order, sealed, NOW).await
    }

    /// An order of one unit that is checked out.
    pub async fn checked_out(&self, till: &Till, n: u64, user: &str) -> (OrderNo, Box<Order>) {
        let order_no = self.order(n, user, 1).await;
        match self.checkout(till, &order_no, "sealed").await.unwrap() {
            CommandOutcome::Done(order) => (order_no, order),
            other => panic!("{other:?}"),
        }
    }

    /// The buyer pays, no callback comes, and the sweeper asks when the order is due.
    pub async fn paid_without_a_callback(&self, till: &Till, order_no: &OrderNo, whence: &str) {
        till.pay(&order_no.to_string());
        assert_eq!(self.sweep_due(till, DUE).await, 0, "{whence}");
        assert_eq!(self.status(order_no).await, Some(Status::Paid), "{whence}");
    }

    /// What a sweep does about orders that are due: first asks, then releases.
    pub async fn sweep_due(&self, till: &Till, now: Millis) -> usize {
        ask(&self.redis, &self.sql, till, now, 100).await.unwrap();
        sweep::expire(&self.redis, &self.sql, now, None).await.unwrap()
    }
}

#[tokio::test]
async fn checking_out_again_gives_the_same_session_and_keeps_the_last_address() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, first) = world.checked_out(&till, 1, "ada").await;
        let CommandOutcome::Done(again) = world.checkout(&till, &order_no, "sealed again").await.unwrap() else {
            panic!()
        };
        assert_eq!((&first.checkout_url, first.pay_by), (&again.checkout_url, again.pay_by), "{ledger}");
        assert!(first.checkout_url.as_ref().unwrap().starts_with("https://till.example/cs-"), "{ledger}");
        assert_eq!(till.calls.get(), 1, "{ledger}: asked once");
        assert_eq!(addresses::load(&world.sql, &order_no).await.unwrap().as_deref(), Some("sealed again"), "{ledger}");
    }
}

#[tokio::test]
async fn many_checkouts_at_once_give_one_session() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        let all = (0..20).map(|_| world.checkout(&till, &order_no, "sealed"));
        for moved in futures::future::join_all(all).await {
            let CommandOutcome::Done(order) = moved.unwrap() else { panic!("{ledger}") };
            assert_eq!(order.pay_by, Some(DUE), "{ledger}: extended once");
        }
        assert_eq!(till.sessions.borrow().len(), 1, "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_cannot_be_paid_keeps_no_address_and_opens_no_session() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        world.cancel(&order_no).await.unwrap();
        assert!(
            matches!(world.checkout(&till, &order_no, "sealed").await.unwrap(), CommandOutcome::Conflict(_)),
            "{ledger}"
        );
        assert_eq!(addresses::load(&world.sql, &order_no).await.unwrap(), None, "{ledger}");
        assert_eq!(till.calls.get(), 0, "{ledger}");
    }
}

#[tokio::test]
async fn a_provider_that_says_nothing_leaves_the_order_waiting() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        till.silent.set(true);
        let silent = world.checkout(&till, &order_no, "sealed").await;
        assert!(matches!(silent, Err(CheckoutError::Provider(_))), "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}");
        till.silent.set(false);
        assert!(
            matches!(world.checkout(&till, &order_no, "sealed").await.unwrap(), CommandOutcome::Done(_)),
            "{ledger}"
        );
        assert_eq!(till.sessions.borrow().len(), 1, "{ledger}: the first answer was lost, its session was not");
    }
}

#[tokio::test]
async fn an_address_is_erased_when_its_order_has_not_moved_for_long() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 2).await, Till::default());
        let (paid, _) = world.checked_out(&till, 1, "ada").await;
        world.paid(&paid, "e").await.unwrap();
        let (waiting, _) = world.checked_out(&till, 2, "bob").await;
        assert_eq!(addresses::erase(&world.sql, NOW.plus(-1), 100).await.unwrap(), 0, "{ledger}: too young");
        assert_eq!(addresses::erase(&world.sql, NOW, 100).await.unwrap(), 1, "{ledger}");
        assert_eq!(addresses::load(&world.sql, &paid).await.unwrap(), None, "{ledger}");
        assert!(addresses::load(&world.sql, &waiting).await.unwrap().is_some(), "{ledger}: still to be paid");
    }
}

#[tokio::test]
async fn a_due_order_is_released_when_the_provider_says_that_nobody_paid() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        assert_eq!(world.sweep_due(&till, DUE.plus(-1)).await, 0, "{ledger}: not due");
        assert_eq!(till.calls.get(), 1, "{ledger}: and not asked");
        assert_eq!(world.sweep_due(&till, DUE).await, 1, "{ledger}");
        assert_eq!(till.ended.borrow().len(), 1, "{ledger}: the session is ended");
        assert_eq!(world.status(&order_no).await, Some(Status::Expired), "{ledger}");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_due_order_that_was_paid_without_a_callback_is_paid() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        world.paid_without_a_callback(&till, &order_no, ledger).await;
        // The callback comes after all.
        assert_eq!(world.paid(&order_no, "e").await.unwrap(), Applied::Duplicate, "{ledger}");
        assert_eq!(world.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn a_due_order_waits_for_a_silent_provider_and_not_for_ever() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        till.pay(&order_no.to_string());
        till.silent.set(true);
        assert_eq!(world.sweep_due(&till, DUE).await, 0, "{ledger}");
        assert_eq!(world.sweep_due(&till, DUE.plus(GRACE_MS - 1)).await, 0, "{ledger}");
        assert_eq!(world.sweep_due(&till, DUE.plus(GRACE_MS)).await, 1, "{ledger}");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}");
        // It speaks again, and the money was there: the unit is taken again.
        till.silent.set(false);
        world.sweep_due(&till, DUE.plus(GRACE_MS + 100_000)).await;
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn the_session_of_a_cancelled_order_is_ended() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        world.cancel(&order_no).await.unwrap();
        world.sweep_due(&till, NOW).await;
        assert_eq!(till.ended.borrow().len(), 1, "{ledger}");
        world.sweep_due(&till, DUE).await;
        assert_eq!(till.ended.borrow().len(), 1, "{ledger}: once");
    }
}

#[tokio::test]
async fn a_session_that_ended_early_is_shown_to_nobody_and_followed_by_another() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, first) = world.checked_out(&till, 1, "ada").await;
        let ended = till.session(&order_no.to_string());
        assert_eq!(world.hot_url(&order_no).await, first.checkout_url, "{ledger}");
        till.end(&order_no.to_string());
        assert_eq!(world.ended(&order_no, &ended, "e").await.unwrap(), Applied::Changed, "{ledger}");
        assert_eq!(world.hot_url(&order_no).await, None, "{ledger}: polling");
        let mine = orders::of_user(&world.sql, &first.user, None, 10).await.unwrap();
        assert!(mine.iter().all(|order| order.checkout_url.is_none()), "{ledger}: the list of orders");
        assert_eq!(world.status(&order_no).await, Some(Status::PendingPayment), "{ledger}: it still has time");

        let CommandOutcome::Done(second) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
            panic!("{ledger}")
        };
        assert_ne!(second.checkout_url, first.checkout_url, "{ledger}");
        assert_eq!(second.pay_by, first.pay_by, "{ledger}: extended once");
        assert_eq!(world.hot_url(&order_no).await, second.checkout_url, "{ledger}");
        // News of the first one again, under another name: the second one stays.
        world.ended(&order_no, &ended, "again").await.unwrap();
        let CommandOutcome::Done(same) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
            panic!("{ledger}")
        };
        assert_eq!(same.checkout_url, second.checkout_url, "{ledger}");
        assert_eq!(world.hot_url(&order_no).await, second.checkout_url, "{ledger}");
        assert_eq!(till.sessions.borrow().len(), 2, "{ledger}");
        world.paid_without_a_callback(&till, &order_no, ledger).await;
    }
}

#[tokio::test]
async fn many_checkouts_at_once_after_a_session_ended_open_one_other() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        let ended = till.session(&order_no.to_string());
        till.end(&order_no.to_string());
        let (ended, all) = (
            world.ended(&order_no, &ended, "e"),
            futures::future::join_all((0..20).map(|_| world.checkout(&till, &order_no, "sealed"))),
        );
        let (ended, all) = futures::join!(ended, all);
        ended.unwrap();
        assert!(all.into_iter().all(|moved| matches!(moved, Ok(CommandOutcome::Done(_)))), "{ledger}");
        let CommandOutcome::Done(order) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
            panic!("{ledger}")
        };
        assert_eq!(order.checkout_url, Some(format!("https://till.example/cs-{order_no}-2")), "{ledger}");
        assert_eq!(world.hot_url(&order_no).await, order.checkout_url, "{ledger}");
        assert_eq!(till.sessions.borrow().len(), 2, "{ledger}: the first, and one other");
    }
}

#[tokio::test]
async fn news_that_a_session_ended_may_come_before_it_is_kept() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        // It was opened, and whoever opened it died.
        till.silent.set(true);
        assert!(world.checkout(&till, &order_no, "sealed").await.is_err(), "{ledger}");
        till.silent.set(false);
        let lost = till.session(&order_no.to_string());
        till.end(&order_no.to_string());
        world.ended(&order_no, &lost, "e").await.unwrap();
        let CommandOutcome::Done(order) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
            panic!("{ledger}")
        };
        assert_eq!(order.checkout_url, Some(format!("https://till.example/cs-{order_no}-2")), "{ledger}");
        assert_eq!(world.hot_url(&order_no).await, order.checkout_url, "{ledger}");
    }
}

#[tokio::test]
async fn a_session_ended_by_a_question_at_the_last_moment_is_followed_by_another_in_the_extended_time() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.order(1, "ada", 1).await;
        let order = orders::load(&world.sql, &order_no).await.unwrap().unwrap().order;
        let opened = till.open(&order, 1).await.unwrap();
        let due = order.pay_by.unwrap();
        let first = Last { session: opened.session.unwrap(), url: opened.url, attempt: 1, open: true };
        sessions::keep(&world.sql, &order_no, &first, due).await.unwrap();
        // The sweeper asks when the time is up; the buyer's request was a moment before that.
        ask(&world.redis, &world.sql, &till, due, 10).await.unwrap();
        assert_eq!(till.ended.borrow().len(), 1, "{ledger}");
        let CommandOutcome::Done(order) = world.checkout(&till, &order_no, "sealed").await.unwrap() else {
            panic!("{ledger}")
        };
        assert_eq!(order.pay_by, Some(DUE), "{ledger}: extended");
        assert_eq!(order.checkout_url, Some(format!("https://till.example/cs-{order_no}-2")), "{ledger}");
        assert_eq!(sweep::expire(&world.redis, &world.sql, due, None).await.unwrap(), 0, "{ledger}");
        assert_eq!(world.hot_url(&order_no).await, order.checkout_url, "{ledger}");
    }
}

#[tokio::test]
async fn money_for_a_session_that_was_called_ended_and_for_the_next_one_goes_back_once() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let (order_no, _) = world.checked_out(&till, 1, "ada").await;
        let ended = till.session(&order_no.to_string());
        world.ended(&order_no, &ended, "e").await.unwrap();
        world.checkout(&till, &order_no, "sealed").await.unwrap();
        world.paid_without_a_callback(&till, &order_no, ledger).await;
        world.another_payment(&order_no, "first").await.unwrap();
        let back = refunds::open(&world.sql).await.unwrap();
        assert_eq!(back.iter().map(|refund| refund.payment.as_str()).collect::<Vec<_>>(), ["first"], "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Paid), "{ledger}");
        assert_eq!(world.units().await, (4, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_order_without_a_session_is_asked_after_by_nobody() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        world.order(1, "ada", 1).await;
        assert_eq!(world.sweep_due(&till, DUE).await, 1, "{ledger}");
        assert_eq!(till.calls.get(), 0, "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_is_sent_until_it_is_confirmed_and_is_one_refund() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.refunding_order(1, "ada").await;
        let send = async |ms| world.send_refunds(&till, ms).await.unwrap();
        till.silent.set(true);
        let silent = send(0).await;
        assert_eq!((silent.tried, silent.untaken.len()), (1, 1), "{ledger}: unknown is not failed");
        assert_eq!(send(4_999).await.tried, 0, "{ledger}: not before its time");
        till.silent.set(false);
        assert_eq!(send(5_000).await.untaken, [], "{ledger}");
        assert_eq!(till.refunds.borrow().len(), 1, "{ledger}: the same one");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunding), "{ledger}: taken is not done");
        till.refunding.set(Refunding::AtOnce);
        assert_eq!(send(10_000_000).await.tried, 1, "{ledger}");
        assert_eq!(world.status(&order_no).await, Some(Status::Refunded), "{ledger}");
        assert_eq!(send(100_000_000).await.tried, 0, "{ledger}: confirmed is the end");
        assert_eq!(till.refunds.borrow().len(), 1, "{ledger}");
        assert_eq!(world.units().await, (5, 0, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_refund_that_failed_is_asked_for_anew_and_seen_by_operators() {
    for ledger in LEDGERS {
        let (world, till) = (world(ledger, 5, 1).await, Till::default());
        let order_no = world.refunding_order(1, "ada").await;
        till.refunding.set(Refunding::Never);
        assert_eq!(world.send_refunds(&till, 0).await.unwrap().untaken[0].because, "the card is gone", "{ledger}");
        let stuck = refunds::open(&world.sql).await.unwrap();
        assert_eq!(stuck.len(), 1, "{ledger}");
        assert_eq!((stuck[0].failures, stuck[0].last_error.as_str()), (1, "the card is gone"), "{ledger}");
        till.refunding.set(Refunding::Later);
        assert_eq!(world.send_refunds(&till, 60_000).await.unwrap().tried, 1, "{ledger}");
        assert_eq!(till.refunds.borrow().len(), 2, "{ledger}: a new try is a new refund");
        // News of the first one comes late, and again: the second one is not given up.
        let (of, later) = (order_no.to_string(), NOW.plus(60_000));
        refunds::failed(&world.sql, &of, &format!("pay-{of}"), "re_0", later).await.unwrap();
        assert_eq!(refunds::open(&world.sql).await.unwrap()[0].failures, 1, "{ledger}");
        refunds::failed(&world.sql, &of, &format!("pay-{of}"), "re_1", later).await.unwrap();
        assert_eq!(refunds::open(&world.sql).await.unwrap()[0].failures, 2, "{ledger}");
    }
}
