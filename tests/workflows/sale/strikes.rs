//! Tests of strikes: who leaves orders unpaid, or cancels late or again and again (B8).

use domain::{
    ids::{OrderNo, UserId},
    order::OrderStatus,
    time::Millis,
};
use futures::future::join;
use operations::commands::bans;
use orders::ledger::order_changes::{self, Canceller};
use payments::commands;
use stores::Sql;

use crate::{
    fakes::FakeProvider,
    fixture::{DUE, Fixture, LEDGERS, NOW, commit_when_blocking, new_fixture, open_connection},
    operations::epochs::RealFixture,
};

async fn strikes(fixture: &RealFixture, user: &UserId) -> i64 {
    bans::load_strikes(&fixture.sql, user).await.unwrap().0
}

/// Reserving, cancelling late and reserving again holds units as long as leaving the orders unpaid.
#[tokio::test]
async fn a_cancel_in_the_second_half_of_the_first_time_to_pay_is_a_strike() {
    for ledger in LEDGERS {
        for (case, expected) in [
            ("early", 0),
            ("late", 1),
            ("late after a checkout", 1),
            ("early of a longer time", 0),
            ("by a rebuild", 0),
        ] {
            let fixture = new_fixture(ledger, 5, 5).await;
            let user = UserId::parse(&format!("hoarder of {}", fixture.activity)).unwrap();
            let order_no = fixture.pending_order(1, user.as_str(), 1).await;
            match case {
                // A checkout extends the time to pay, and must not extend the time in which a cancel is free.
                "late after a checkout" => {
                    fixture.checkout(&FakeProvider::default(), &order_no, "sealed").await.unwrap();
                }
                // Orders keep the time to pay that they were written with.
                "early of a longer time" => {
                    let lengthen = "UPDATE activities SET pay_timeout_ms = pay_timeout_ms * 2";
                    fixture.sql.run(lengthen, Vec::new()).await.unwrap();
                }
                _ => {}
            }
            if case == "by a rebuild" {
                // It repeats a cancel that a restored ledger has forgotten, at a time of its own.
                let late = NOW.plus(fixture.stored().await.spec.pay_timeout_seconds * 900);
                let released = order_changes::release(&fixture.sql, &order_no, OrderStatus::Cancelled, "", late).await;
                released.unwrap().expect("cancelled");
            } else {
                let late_ms = if case.starts_with("late") { 1_000 } else { -1_000 };
                cancel_around_half_time(&fixture, &order_no, late_ms).await;
            }
            assert_eq!(strikes(&fixture, &user).await, expected, "{ledger}, {case}");
        }
    }
}

/// Cancels an order `late_ms` after half of its time to pay.
async fn cancel_around_half_time(fixture: &RealFixture, order_no: &OrderNo, late_ms: i64) {
    let spec = fixture.stored().await.spec;
    let now = NOW.plus(spec.pay_timeout_seconds * 1_000 / 2 + late_ms);
    commands::cancel(&fixture.sql, order_no, Canceller::Buyer, now).await.unwrap().sync(&fixture.redis).await;
}

/// Not even a late one, and the buyer's own first cancel is still free.
#[tokio::test]
async fn a_cancel_of_an_operator_is_no_strike() {
    for ledger in LEDGERS {
        for by_a_rebuild in [false, true] {
            let fixture = new_fixture(ledger, 5, 5).await;
            let user = UserId::parse(&format!("customer of {}", fixture.activity)).unwrap();
            let late = NOW.plus(fixture.stored().await.spec.pay_timeout_seconds * 900);
            for n in 1..3 {
                let order_no = fixture.pending_order(n, user.as_str(), 1).await;
                let reason = Canceller::Operator.as_str();
                let cancelled = match by_a_rebuild {
                    true => order_changes::release(&fixture.sql, &order_no, OrderStatus::Cancelled, reason, late).await,
                    false => order_changes::cancel(&fixture.sql, &order_no, Canceller::Operator, late).await,
                };
                assert_eq!(cancelled.unwrap().unwrap().order.reason.as_deref(), Some(reason), "{ledger}");
            }
            let own = fixture.pending_order(3, user.as_str(), 1).await;
            cancel_around_half_time(&fixture, &own, -1_000).await;
            assert_eq!(strikes(&fixture, &user).await, 0, "{ledger}");
            let second = fixture.pending_order(4, user.as_str(), 1).await;
            cancel_around_half_time(&fixture, &second, -1_000).await;
            assert_eq!(strikes(&fixture, &user).await, 1, "{ledger}");
        }
    }
}

/// A buyer who pays a cancelled order of which no unit is left gets the money back, and would cancel for free again.
#[tokio::test]
async fn a_cancelled_order_that_is_paid_too_late_is_still_the_first_cancel() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let user = UserId::parse(&format!("payer of {}", fixture.activity)).unwrap();
        let first = fixture.pending_order(1, user.as_str(), 1).await;
        cancel_around_half_time(&fixture, &first, -1_000).await;
        let other = fixture.pending_order(2, "ben", 1).await;
        fixture.payment_succeeded(&first, "late").await.unwrap();
        assert_eq!(fixture.ledger_status(&first).await, Some(OrderStatus::Refunding), "{ledger}");
        cancel_around_half_time(&fixture, &other, -1_000).await;
        let second = fixture.pending_order(3, user.as_str(), 1).await;
        cancel_around_half_time(&fixture, &second, -1_000).await;
        assert_eq!(strikes(&fixture, &user).await, 1, "{ledger}");
    }
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test]
async fn of_two_concurrent_cancels_one_is_a_strike() {
    let fixture = new_fixture("postgres", 5, 5).await;
    let user = UserId::parse(&format!("parallel of {}", fixture.activity)).unwrap();
    let first = fixture.pending_order(1, user.as_str(), 1).await;
    let second = fixture.pending_order(2, user.as_str(), 1).await;
    let other = open_connection(&fixture).await;
    other.run("BEGIN", Vec::new()).await.unwrap();
    order_changes::cancel(&other, &first, Canceller::Buyer, NOW).await.unwrap().expect("cancelled");
    // The other cancel waits for this one.
    let cancelling = order_changes::cancel(&fixture.sql, &second, Canceller::Buyer, NOW);
    let (cancelled, ()) = join(cancelling, commit_when_blocking(&other)).await;
    cancelled.unwrap().expect("cancelled");
    assert_eq!(strikes(&fixture, &user).await, 1);
}

/// Reserving and cancelling early again and again keeps units from others as well.
#[tokio::test]
async fn the_second_cancel_of_a_user_in_an_activity_is_a_strike_however_early() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let other_activity = new_fixture(ledger, 5, 5).await;
        let user = UserId::parse(&format!("regular of {}", fixture.activity)).unwrap();
        for (n, (fixture, expected)) in
            [(&fixture, 0), (&other_activity, 0), (&fixture, 1), (&fixture, 2)].into_iter().enumerate()
        {
            let order_no = fixture.pending_order(n as u64, user.as_str(), 1).await;
            cancel_around_half_time(fixture, &order_no, -1_000).await;
            assert_eq!(strikes(fixture, &user).await, expected, "{ledger}, cancel {n}");
        }
    }
}

#[tokio::test]
async fn an_expired_order_is_a_strike() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let user = UserId::parse(&format!("striker of {}", fixture.activity)).unwrap();
        for n in 0..3 {
            fixture.pending_order(n, user.as_str(), 1).await;
        }
        fixture.expire_orders().await.unwrap();
        assert_eq!(strikes(&fixture, &user).await, 3, "{ledger}");
        let lapse = "UPDATE strikes SET last_at = last_at - ?2 WHERE user_id = ?1";
        fixture.sql.run(lapse, vec![user.as_str().into(), bans::STRIKE_TTL_MS.into()]).await.unwrap();
        fixture.pending_order(4, user.as_str(), 1).await;
        fixture.expire_orders().await.unwrap();
        assert_eq!(strikes(&fixture, &user).await, 1, "{ledger}: lapsed strikes count again");
        bans::clear_strikes(&fixture.sql, &user).await.unwrap();
        assert_eq!(strikes(&fixture, &user).await, 0, "{ledger}");
    }
}

/// The provider refused its payment, or did not answer.
#[tokio::test]
async fn an_order_that_its_buyer_could_not_pay_is_no_strike() {
    for ledger in LEDGERS {
        for (n, (case, expected)) in
            (1..).zip([("refused", 0), ("silent", 0), ("refused, then opened", 1), ("cancelled late", 0)])
        {
            let (fixture, provider) = (new_fixture(ledger, 5, 5).await, FakeProvider::default());
            let user = UserId::parse(&format!("payer {n} of {}", fixture.activity)).unwrap();
            let order_no = fixture.pending_order(1, user.as_str(), 1).await;
            provider.refuses_sessions.set(case != "silent");
            provider.drops_responses.set(case == "silent");
            fixture.checkout(&provider, &order_no, "sealed").await.unwrap_err();
            if case == "refused, then opened" {
                provider.refuses_sessions.set(false);
                fixture.checkout(&provider, &order_no, "sealed").await.unwrap();
            }
            if case == "cancelled late" {
                cancel_around_half_time(&fixture, &order_no, 1_000).await;
                let next = fixture.pending_order(2, user.as_str(), 1).await;
                cancel_around_half_time(&fixture, &next, -1_000).await;
            } else {
                assert_eq!(fixture.sweep_due(&provider, DUE).await, 1, "{ledger}, {case}");
            }
            assert_eq!(strikes(&fixture, &user).await, expected, "{ledger}, {case}");
        }
    }
}

#[tokio::test]
async fn users_at_the_strike_limit_are_listed_unless_they_are_many() {
    for ledger in LEDGERS {
        let Fixture { sql, activity, .. } = new_fixture(ledger, 5, 5).await;
        let user = |name: &str| UserId::parse(&format!("{name} of {activity}")).unwrap();
        for (name, strikes) in [("nine", 9), ("ten", 10), ("eleven", 11)] {
            let insert = "INSERT INTO strikes (user_id, count, last_at) VALUES (?1, ?2, ?2)";
            sql.run(insert, vec![user(name).as_str().into(), strikes.into()]).await.unwrap();
        }
        let users = bans::load_users_at_limit(&sql, Millis(10)).await.unwrap().expect("few users");
        let found = ["nine", "ten", "eleven"].map(|name| users.get(&user(name)).copied());
        assert_eq!(found, [None, Some(Millis(10)), Some(Millis(11))], "{ledger}");

        let lapsed = Millis(11 + bans::STRIKE_TTL_MS);
        let users = bans::load_users_at_limit(&sql, lapsed).await.unwrap().expect("few users");
        assert!(!users.contains_key(&user("eleven")), "{ledger}");

        let many = "INSERT INTO strikes (user_id, count, last_at) WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL \
             SELECT n + 1 FROM numbers WHERE n < 1000) SELECT CAST(?1 AS TEXT) || n, 10, 10 FROM numbers";
        sql.run(many, vec![user("one").as_str().into()]).await.unwrap();
        assert_eq!(bans::load_users_at_limit(&sql, Millis(10)).await.unwrap(), None, "{ledger}");
        sql.run("DELETE FROM strikes WHERE count >= 10", Vec::new()).await.unwrap();
    }
}
