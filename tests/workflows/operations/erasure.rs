//! Tests that old activities are erased, with their orders, only when nothing of them is alive (I4, I6, I7).

use std::cell::Cell;

use domain::{ids::UserId, presale::PresaleCode, settings::Retention, time::Millis};
use operations::{
    commands::activities::{DeleteOutcome, OperationOutcome, delete_draft},
    upkeep::{erasure::erase_old, report::Report, sweep::Sweeper},
};
use orders::{dead_letters, ledger::order_rows};
use payments::ledger::addresses;
use sale::{
    ledger::{
        activities::{self, IN_REDIS_MS},
        presale,
    },
    visitors::CachedActivity,
};
use serde_json::json;
use stores::{Sql, ports::SqlValue, shared_value};

use crate::{
    at_every_call::at_every_call,
    fakes::{FakeKeyValue, FakeProvider},
    fixture::{LEDGERS, NOW, Services, completed, new_fixture, sweeper},
    operations::{epochs::RealFixture, statistics::orders_in_every_status},
    stores::{RealLedger, failing},
};

/// A time before which everything in these tests happened.
pub const LATER: Millis = Millis(NOW.0 + 100_000_000);

/// Tables with rows of activities or orders.
const TABLES: [(&str, &str); 17] = [
    ("activities", "id"),
    ("skus", "activity"),
    ("order_counts", "activity"),
    ("revenue", "activity"),
    ("sale_history", "activity"),
    ("presale_codes", "activity"),
    ("presale_users", "activity"),
    ("orders", "order_no"),
    ("callbacks", "order_no"),
    ("overpayments", "order_no"),
    ("partial_refunds", "order_no"),
    ("refunds", "order_no"),
    ("disputes", "order_no"),
    ("sessions", "order_no"),
    ("addresses", "order_no"),
    ("events", "subject"),
    ("dead_letters", "order_no"),
];

/// A ledger whose process is dead after some calls.
fn dying_after(sql: &RealLedger, calls: usize) -> impl Sql {
    let made = Cell::new(0);
    failing(sql, move |_, _| made.replace(made.get() + 1) >= calls)
}

/// Ends the activity, and deletes its keys as when they have expired.
pub async fn end(fixture: &RealFixture) {
    let ended = "UPDATE activities SET ends_at = ?2 WHERE id = ?1";
    fixture.sql.run(ended, vec![fixture.activity.as_str().into(), NOW.0.into()]).await.unwrap();
    fixture.delete_redis_keys().await;
}

pub async fn erase(fixture: &RealFixture, before: Millis) -> (usize, usize) {
    erase_old(&fixture.sql, &FakeKeyValue::default(), before, 2, 100, &|| true).await.unwrap()
}

/// Sweeps, with this retention time of activities.
pub async fn sweep(fixture: &RealFixture, now: Millis, activity_days: Option<i64>) -> Report {
    let (services, clock) = (Services::accepting(), || now);
    let sweeper = sweeper((&fixture.redis, &fixture.sql), &services, &clock);
    let retention = Retention { address_days: None, activity_days };
    completed(Sweeper { retention, ..sweeper }.run(now).await)
}

/// The number of the activity's rows in each table that has some.
pub async fn rows(fixture: &RealFixture) -> Vec<(&'static str, i64)> {
    let mut found = Vec::new();
    for (table, column) in TABLES {
        let statement = format!("SELECT COUNT(*) FROM {table} WHERE {column} = ?1 OR {column} LIKE ?2");
        let activity = fixture.activity.as_str();
        let rows = fixture.sql.run(&statement, vec![activity.into(), format!("{activity}.%").into()]).await.unwrap();
        match rows[0][0] {
            SqlValue::Int(0) => {}
            SqlValue::Int(count) => found.push((table, count)),
            ref other => panic!("{other:?}"),
        }
    }
    found
}

/// An ended activity with six closed orders, an address, a session, refunds, callbacks and a dead letter.
pub async fn old_activity(ledger: &str) -> RealFixture {
    let (fixture, provider) = (new_fixture(ledger, 9, 9).await, FakeProvider::default());
    fixture.checked_out_order(&provider, 8, "eve").await;
    fixture.payment_succeeded(&fixture.order_no(8), "e").await.unwrap();
    for n in 1..4 {
        fixture.cancel(&fixture.pending_order(n, "ada", 1).await).await.unwrap();
    }
    for n in [4, 5] {
        let refunded = fixture.refunding_order(n, "bob").await;
        fixture.refund_succeeded(&refunded, "r").await.unwrap();
    }
    let letter = (fixture.order_no(7).to_string(), "message".to_owned(), "undeliverable");
    dead_letters::record(&fixture.sql, &[letter], NOW).await.unwrap();
    for statement in [
        "INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, state, next_try_at) \
         VALUES (?1, 1, 'pending_payment', '', 0, 0, 0, 'delivered', 0)",
        "INSERT INTO overpayments (payment, provider, order_no, amount, currency, state, next_try_at) \
         VALUES ('a second payment of ' || ?1, 'standard', ?1, 1, 'EUR', 'confirmed', 0)",
        "INSERT INTO disputes (dispute, provider, order_no, payment, amount, currency, reason, status, opened_at, changed_at) \
         VALUES ('dispute of ' || ?1, 'stripe', ?1, 'p', 1, 'EUR', '', 'won', 0, 0)",
        "INSERT INTO partial_refunds (payment, refund, order_no, amount) VALUES ('payment of ' || ?1, 're', ?1, 1)",
    ] {
        fixture.sql.run(statement, vec![fixture.order_no(8).to_string().into()]).await.unwrap();
    }
    let restored = "INSERT INTO events (subject, step, status, reason, pay_by, paid_at, happened_at, state, \
         next_try_at) VALUES (?1, 2, 'restored', '', 0, 0, ?2, 'failed', 0)";
    fixture.sql.run(restored, vec![fixture.activity.as_str().into(), NOW.0.into()]).await.unwrap();
    let codes = ["FIRSTCODE", "SECONDCODE", "THIRDCODE"].map(|text| PresaleCode::parse(text).unwrap());
    presale::add(&fixture.sql, &fixture.activity, &codes, 3).await.unwrap().unwrap();
    for user in ["ada", "bob", "eve"] {
        let user = UserId::parse(user).unwrap();
        assert!(presale::claim(&fixture.sql, &fixture.activity, &codes[0], &user).await.unwrap());
    }
    for n in 0..3 {
        let recorded = "INSERT INTO sale_history (activity, sku, recorded_at, units_left, held, sold) \
             VALUES (?1, 'phone', ?2, 0, 0, 0)";
        fixture.sql.run(recorded, vec![fixture.activity.as_str().into(), n.into()]).await.unwrap();
    }
    end(&fixture).await;
    fixture
}

#[tokio::test]
async fn an_old_activity_is_erased_in_steps_that_may_stop_anywhere() {
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        let before: Vec<_> = rows(&fixture).await.into_iter().map(|(table, _)| table).collect();
        assert_eq!(before, TABLES.map(|(table, _)| table));
        let key = CachedActivity::key(&fixture.activity);
        let copies = FakeKeyValue::default();
        let copy =
            json!({"at": NOW, "fresh_until": NOW, "value": "a sale", "error": "", "error_until": NOW}).to_string();
        copies.copies.borrow_mut().insert(key.clone(), copy.into_bytes());
        assert_eq!(shared_value::last::<_, String>(&copies, &key).await.as_deref(), Some("a sale"));
        let mut orders_left = 6;
        for calls in 1.. {
            let sql = dying_after(&fixture.sql, calls);
            if erase_old(&sql, &copies, LATER, 2, 100, &|| true).await.is_ok() {
                break;
            }
            // An operator who deletes it as a draft meanwhile changes nothing.
            let deleted = delete_draft(&fixture.sql, &fixture.activity).await.unwrap();
            assert_ne!(deleted, DeleteOutcome::Deleted, "{ledger}");
            let left = order_rows::load_page(&fixture.sql, &fixture.activity, "", 100).await.unwrap().len();
            assert!(left <= orders_left, "{ledger}");
            orders_left = left;
        }
        assert_eq!(rows(&fixture).await, [], "{ledger}");
        assert_eq!(shared_value::last::<_, String>(&copies, &key).await, None, "{ledger}");
        assert!(!String::from_utf8_lossy(&copies.copies.borrow()[&key]).contains("a sale"), "{ledger}");
        assert_eq!(activities::load(&fixture.sql, &fixture.activity).await.unwrap(), None, "{ledger}");
    }
}

#[tokio::test]
async fn an_activity_of_which_something_is_alive_is_kept() {
    for ledger in LEDGERS {
        let kept = async |fixture: &RealFixture, before: Millis, what: &str| {
            let rows_before = rows(fixture).await;
            assert_eq!(erase(fixture, before).await, (0, 0), "{ledger}: {what}");
            assert_eq!(rows(fixture).await, rows_before, "{ledger}: {what}");
        };
        let alive = orders_in_every_status(ledger).await;
        end(&alive).await;
        kept(&alive, LATER, "an unpaid order, and a refund").await;

        let fixture = old_activity(ledger).await;
        kept(&fixture, NOW.plus(-1), "the retention time is not over").await;
        let in_redis = NOW.plus(IN_REDIS_MS - 1);
        assert_eq!(
            sweep(&fixture, in_redis, Some(0)).await.erased_activities,
            0,
            "{ledger}: Redis may have queued orders"
        );
        for (change, undo) in [
            ("UPDATE callbacks SET outcome = 'paid_twice'", "UPDATE callbacks SET outcome = 'paid'"),
            ("UPDATE callbacks SET outcome = ''", "UPDATE callbacks SET outcome = 'paid'"),
            ("UPDATE disputes SET status = 'open'", "UPDATE disputes SET status = 'lost'"),
            ("UPDATE refunds SET state = 'sent'", "UPDATE refunds SET state = 'confirmed'"),
            (
                "UPDATE events SET state = 'waiting' WHERE status = 'restored'",
                "UPDATE events SET state = 'failed' WHERE state = 'waiting'",
            ),
        ] {
            fixture.sql.run(change, Vec::new()).await.unwrap();
            kept(&fixture, LATER, change).await;
            fixture.sql.run(undo, Vec::new()).await.unwrap();
        }
        assert_eq!(erase(&fixture, LATER).await, (6, 1), "{ledger}");
        assert_eq!(rows(&fixture).await, [], "{ledger}");
    }
}

#[tokio::test]
async fn an_order_that_is_paid_late_stays_until_it_is_old_again() {
    for ledger in LEDGERS {
        let fixture = old_activity(ledger).await;
        // The process dies after the activity was marked.
        let sql = dying_after(&fixture.sql, 1);
        erase_old(&sql, &FakeKeyValue::default(), LATER, 2, 100, &|| true).await.unwrap_err();
        let spec = sale::ledger::activities::load(&fixture.sql, &fixture.activity).await.unwrap();
        assert_eq!(spec, None, "{ledger}: operators do not see it any more");
        let resumed = fixture.operator().resume(&fixture.activity).await.unwrap();
        assert!(matches!(resumed, OperationOutcome::NotFound), "{ledger}");
        let paid_at = "UPDATE orders SET updated_at = ?2 WHERE order_no = ?1";
        fixture.payment_succeeded(&fixture.order_no(1), "late").await.unwrap();
        fixture.sql.run(paid_at, vec![fixture.order_no(1).to_string().into(), LATER.plus(1).0.into()]).await.unwrap();
        erase(&fixture, LATER).await;
        let left = order_rows::load_page(&fixture.sql, &fixture.activity, "", 100).await.unwrap();
        assert_eq!(left.len(), 1, "{ledger}: {left:?}");
        assert_eq!(addresses::load(&fixture.sql, &fixture.order_no(8)).await.unwrap(), None, "{ledger}");
        fixture.refund_succeeded(&fixture.order_no(1), "r").await.unwrap();
        assert_eq!(erase(&fixture, Millis(i64::MAX / 2)).await, (1, 1), "{ledger}");
        assert_eq!(rows(&fixture).await, [], "{ledger}");
    }
}

#[tokio::test]
async fn a_payment_at_any_call_of_an_erasure_is_refunded_or_held_for_an_operator() {
    at_every_call(
        old_activity,
        async |_, sql, _| {
            erase_old(sql, &FakeKeyValue::default(), LATER, 2, 100, &|| true).await.unwrap();
        },
        async |fixture| {
            fixture.payment_succeeded(&fixture.order_no(1), "late").await.unwrap();
        },
        async |fixture, point| {
            let found = async |statement: &str, value: &str| {
                fixture.sql.run(statement, vec![value.into()]).await.unwrap().len()
            };
            let order_no = fixture.order_no(1).to_string();
            let refunds = found("SELECT 1 FROM refunds WHERE order_no = ?1 AND state <> 'confirmed'", &order_no).await;
            let held = "SELECT 1 FROM callbacks WHERE order_no = ?1 AND outcome = 'unknown_order'";
            assert_eq!(refunds + found(held, &order_no).await, 1, "{point}");
            let orders = found("SELECT 1 FROM orders WHERE order_no = ?1 AND status = 'refunding'", &order_no).await;
            let activity = "SELECT 1 FROM activities a JOIN skus s ON s.activity = a.id WHERE a.id = ?1";
            assert_eq!((orders, found(activity, fixture.activity.as_str()).await), (refunds, refunds), "{point}");
        },
    )
    .await;
}
