//! Tests of the ledger's constraints, dead letters and bans (B6, C5, D4; I2, I3).
//!
//! The constraints hold even if Redis is wrong.

use std::collections::BTreeSet;

use domain::{
    ids::{ActivityId, UserId},
    order::OrderStatus,
    time::Millis,
};
use operations::commands::{
    activities::OperationOutcome,
    bans::{self, BanSubject},
};
use orders::{
    order_record::{OrderState, Transition},
    sync::{SyncOutcome, apply_transitions},
};
use sale::ledger::activities;
use stores::{Sql, StoreError, ledger::schema, ports::SqlValue};

use crate::fixture::{Fixture, LEDGERS, NOW, new_fixture};

#[tokio::test]
async fn migrating_again_changes_nothing() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        schema::migrate(&fixture.sql).await.unwrap();
        let version = schema::current_version(&fixture.sql).await.unwrap();
        assert_eq!(version, schema::required_version(fixture.sql.dialect()));
    }
}

/// A text of an earlier build, or of another program, may be one that this build cannot read.
#[tokio::test]
async fn an_activity_that_cannot_be_read_hides_no_other_one() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let (sql, readable) = (&fixture.sql, &fixture.activity);
        let mut activity = activities::load(sql, readable).await.unwrap().unwrap();
        activity.spec.title = "A\0B".to_owned();
        for (name, spec) in [("nul", None), ("cut", Some("{")), ("untitled", Some("{}"))] {
            activity.id = ActivityId::parse(name).unwrap();
            assert!(activities::save(sql, &activity, None, NOW).await.unwrap(), "{ledger}");
            if let Some(spec) = spec {
                let update = "UPDATE activities SET spec = ?2 WHERE id = ?1";
                sql.run(update, vec![name.into(), spec.into()]).await.unwrap();
            }
        }
        let published = activities::list_published(sql, NOW).await.unwrap();
        let listed = activities::list(sql, NOW).await.unwrap();
        let found: BTreeSet<_> = published.activities.iter().map(|activity| activity.id.as_str()).collect();
        assert_eq!(found, BTreeSet::from([readable.as_str(), "nul"]), "{ledger}");
        assert_eq!(found, listed.activities.iter().map(|activity| activity.id.as_str()).collect(), "{ledger}");
        for mut unreadable in [published.unreadable, listed.unreadable] {
            unreadable.sort();
            assert_eq!(unreadable, ["cut", "untitled"], "{ledger}");
        }
    }
}

#[tokio::test]
async fn a_wrong_stock_in_redis_cannot_oversell() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        fixture.set_stock(100).await;
        fixture.queue_orders(0..10).await;
        let written = fixture.write_batch().await.unwrap();
        assert_eq!((written.written, written.failed), (3, 7), "{ledger}");
        for n in 3..10 {
            assert_eq!(fixture.redis_status(&fixture.order_no(n)).await, Some(OrderStatus::Failed), "{ledger}");
        }
    }
}

#[tokio::test]
async fn an_order_that_another_writer_wrote_cannot_be_marked_failed() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        let failed = OrderState {
            refunded: 0,
            epoch: 1,
            status: OrderStatus::Failed,
            live: false,
            pay_by: Millis(0),
            paid_at: Millis(0),
            reason: "undeliverable".to_owned(),
        };
        let late = Transition { order_no: order_no.clone(), state: failed, stream_id: String::new() };
        let applied = apply_transitions(&fixture.redis, &fixture.activity, &[late]).await.unwrap();
        assert_eq!(applied, [SyncOutcome::Stale], "{ledger}");
        assert_eq!(fixture.redis_status(&order_no).await, Some(OrderStatus::PendingPayment), "{ledger}");
    }
}

#[tokio::test]
async fn missing_holders_in_redis_cannot_exceed_a_buyers_limit() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 10, 1).await;
        for n in 0..3 {
            fixture.reserve(n, "ada", 1).await.unwrap();
            fixture.run_redis(&["DEL", &fixture.key("holders")]).await;
        }
        let written = fixture.write_batch().await.unwrap();
        assert_eq!((written.written, written.failed), (1, 2), "{ledger}");
    }
}

#[tokio::test]
async fn only_the_transitions_of_the_table_are_possible() {
    let live = |status| i64::from(matches!(status, OrderStatus::PendingPayment | OrderStatus::Paid));
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 100, 100).await;
        let statuses = OrderStatus::ALL.into_iter().filter(|status| status.has_event());
        let pairs = statuses.clone().flat_map(|from| statuses.clone().map(move |to| (from, to)));
        for (n, (from, to)) in pairs.filter(|(from, to)| from != to).enumerate() {
            let order_no = fixture.order_no(n as u64).to_string();
            let insert = "INSERT INTO orders (order_no, activity, sku, user_id, quantity, amount, currency, status, \
                 live, created_at, updated_at) VALUES (?1, ?2, ?3, 'ada', 1, 100, 'EUR', ?4, ?5, 1, 1)";
            let row = [&order_no, fixture.activity.as_str(), fixture.sku.as_str(), from.as_str()];
            let mut params: Vec<SqlValue> = row.map(SqlValue::from).into();
            params.push(live(from).into());
            fixture.sql.run(insert, params).await.unwrap();
            let update = "UPDATE orders SET status = ?2, live = ?3 WHERE order_no = ?1";
            let updated = fixture.sql.run(update, vec![order_no.into(), to.as_str().into(), live(to).into()]).await;
            let case = format!("{ledger}: {from:?} to {to:?}");
            match updated {
                Ok(_) => assert!(from.can_become(to), "{case}"),
                Err(StoreError::LedgerRefused(text)) => {
                    assert!(text.contains("illegal move") && !from.can_become(to), "{case}: {text}");
                }
                Err(error) => panic!("{ledger}: {error}"),
            }
        }
    }
}

#[tokio::test]
async fn an_illegal_transition_and_a_deletion_are_refused() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 1).await;
        let order_no = fixture.pending_order(1, "ada", 1).await;
        for statement in [
            "UPDATE orders SET status = 'refunded' WHERE order_no = ?1",
            "UPDATE orders SET live = 0 WHERE order_no = ?1",
            "UPDATE orders SET status = 'paid', live = 0 WHERE order_no = ?1",
            "DELETE FROM orders WHERE order_no = ?1",
        ] {
            let refused = fixture.sql.run(statement, vec![order_no.to_string().into()]).await;
            assert!(matches!(refused, Err(StoreError::LedgerRefused(_))), "{ledger}: {statement}: {refused:?}");
        }
        assert_eq!(fixture.ledger_status(&order_no).await, Some(OrderStatus::PendingPayment));
    }
}

#[tokio::test]
async fn a_total_stays_between_the_live_units_and_the_maximum() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        for n in 0..4 {
            fixture.pending_order(n, &format!("user {n}"), 1).await;
        }
        let restock = async |by| fixture.restock(by).await;
        for by in [-2, 1_000_000_000, i64::MAX] {
            assert!(matches!(restock(by).await, OperationOutcome::Conflict(_)), "{ledger}: {by}");
        }
        assert_eq!(fixture.units().await, (1, 4, 0), "{ledger}");
        assert!(matches!(restock(-1).await, OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(fixture.units().await, (0, 4, 0), "{ledger}");
        assert!(matches!(restock(6).await, OperationOutcome::Done(_)), "{ledger}");
        assert_eq!(fixture.units().await, (6, 4, 0), "{ledger}");
    }
}

#[tokio::test]
async fn bans_are_listed_in_pages_until_they_end() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let user = |name| BanSubject::User(UserId::parse(name).unwrap());
        let address = BanSubject::Ip("2001:db8::/64".to_owned());
        for (subject, until) in [(user("zoe"), 2), (user("a/b"), 2), (address, 2), (user("over"), 1)] {
            bans::ban(&fixture.redis, &fixture.sql, &subject, NOW.plus(until), "a test").await.unwrap();
        }
        let mut listed: Vec<(String, String)> = Vec::new();
        loop {
            let last = listed.last().cloned().unwrap_or_default();
            let page = bans::list(&fixture.sql, (&last.0, &last.1), 2, NOW.plus(1)).await.unwrap();
            if page.is_empty() {
                break;
            }
            assert!(page.iter().all(|ban| ban.reason == "a test" && ban.until == NOW.plus(2)), "{ledger}: {page:?}");
            listed.extend(page.into_iter().map(|ban| (ban.kind.as_str().to_owned(), ban.name)));
        }
        let expected = [("ip", "2001:db8::/64"), ("user", "a/b"), ("user", "zoe")];
        assert_eq!(listed, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())), "{ledger}");
    }
}

#[tokio::test]
async fn ended_bans_and_lapsed_strikes_are_erased() {
    const DAY_MS: i64 = 24 * 3_600 * 1_000;
    for ledger in LEDGERS {
        let Fixture { redis, sql, activity, .. } = new_fixture(ledger, 5, 5).await;
        let user = |n: i64| UserId::parse(&format!("{n} of {activity}")).unwrap();
        for n in 0..4 {
            let ban = BanSubject::User(user(n));
            bans::ban(&redis, &sql, &ban, NOW.plus(n - DAY_MS), "a test").await.unwrap();
            let insert = "INSERT INTO strikes (user_id, count, last_at) VALUES (?1, 3, ?2)";
            let last_at = NOW.plus(n - bans::STRIKE_TTL_MS);
            sql.run(insert, vec![user(n).as_str().into(), last_at.0.into()]).await.unwrap();
        }
        // Of the first three users, in batches of two rows a table.
        let mut erased = vec![];
        for _ in 0..3 {
            erased.push(bans::erase(&sql, NOW.plus(2), 2).await.unwrap());
        }
        assert_eq!(erased, [4, 2, 0], "{ledger}");
        for (table, column) in [("bans", "name"), ("strikes", "user_id")] {
            let left = sql.run(&format!("SELECT {column} FROM {table}"), Vec::new()).await.unwrap();
            assert_eq!(left, [[SqlValue::from(user(3).as_str())]], "{ledger}: {table}");
        }
    }
}

#[tokio::test]
async fn what_operators_changed_is_kept_newest_first_and_never_changed() {
    use operations::ledger::operator_changes::{self, OperatorChange};
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let change = |action: &str| OperatorChange {
            changed_at: NOW,
            operator: "ada".to_owned(),
            action: action.to_owned(),
            subject: format!("{}\0", fixture.activity),
            before: "y".repeat(20_000),
            after: "x".repeat(70_000),
            ..OperatorChange::default()
        };
        for action in ["one", "two", "three"] {
            operator_changes::record(&fixture.sql, &change(action)).await.unwrap();
        }
        let all = operator_changes::list(&fixture.sql, None, None, 1_000).await.unwrap();
        let ours: Vec<_> = all.iter().filter(|change| change.subject == fixture.activity.as_str()).collect();
        assert_eq!(ours.iter().map(|change| change.action.as_str()).collect::<Vec<_>>(), ["three", "two", "one"]);
        assert_eq!(ours[0].before.len(), 20_000, "{ledger}: an activity is kept whole");
        assert!(ours[0].after.starts_with("xxx") && ours[0].after.ends_with("x… (cut)"), "{ledger}");
        assert_eq!(ours[0].after.len(), 64 * 1024 + "… (cut)".len(), "{ledger}");
        let older = operator_changes::list(&fixture.sql, None, Some(ours[0].id), 1).await.unwrap();
        assert!(older[0].id < ours[0].id, "{ledger}: {older:?}");
        let forged = fixture.sql.run("UPDATE operator_changes SET operator = 'eve'", vec![]).await;
        assert!(matches!(forged, Err(StoreError::LedgerRefused(_))), "{ledger}: {forged:?}");
    }
}
