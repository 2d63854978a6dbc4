//! Tests of the events about sales, on both ledgers (E7): each change of a sale or of its stock is told once.

use std::cell::RefCell;

use domain::{activity::ActivityState, time::Millis};
use futures::future::{join, join_all};
use operations::{ledger::sale_states, upkeep::sweep::Sweeper};
use orders::ledger::events::set_enabled;
use serde_json::json;
use stores::{
    Sql, StoreError,
    ports::{Dialect, SqlValue},
};

use crate::{
    crash_points::{CrashingFixture, crash_at_every_call_and_recover},
    fakes::FakeEndpoint,
    fixture::{
        Fixture, LEDGERS, NOW, RealFixture, Services, commit_when_blocking, completed, new_fixture, open_connection,
        sweeper,
    },
    operations::epochs::{pause, resume},
    orders::events::{LATER, TARGET, deliver_all},
};

/// After the end of the fixture's activity.
const AFTER_END: Millis = Millis(4_000_000_000_000);

async fn record<R, S: Sql>(fixture: &Fixture<R, S>, now: Millis) -> Result<(), StoreError> {
    sale_states::record(&fixture.sql, std::slice::from_ref(&fixture.activity), now).await
}

async fn texts(sql: &impl Sql, query: &str, activity: &str) -> Vec<String> {
    let rows = sql.run(query, vec![activity.into()]).await.unwrap();
    let text = |row: Vec<SqlValue>| match row.into_iter().next() {
        Some(SqlValue::Text(text)) => text,
        other => panic!("{other:?}"),
    };
    rows.into_iter().map(text).collect()
}

/// What the shop is told of the sale, in order. The events are numbered without gaps.
async fn told(fixture: &RealFixture) -> Vec<String> {
    let numbers = "SELECT CAST(step AS TEXT) FROM events WHERE subject = ?1";
    let mut numbers: Vec<i64> = texts(&fixture.sql, numbers, fixture.activity.as_str())
        .await
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    let first = numbers.first().copied().unwrap_or_default();
    assert_eq!(numbers, (first..first + numbers.len() as i64).collect::<Vec<_>>());
    texts(&fixture.sql, "SELECT status FROM events WHERE subject = ?1 ORDER BY step", fixture.activity.as_str()).await
}

#[tokio::test]
async fn each_change_of_a_sale_is_told_once_and_in_order() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 2).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let twice = async |now| {
            for _ in 0..2 {
                record(&fixture, now).await.unwrap();
            }
        };
        twice(NOW).await;
        let order_no = fixture.pending_order(1, "ada", 2).await;
        twice(NOW).await;
        pause(&fixture).await;
        twice(NOW).await;
        resume(&fixture).await;
        twice(NOW).await;
        fixture.cancel(&order_no).await.unwrap();
        twice(NOW).await;
        fixture.pending_order(2, "ada", 2).await;
        twice(AFTER_END).await;
        fixture.set_state(ActivityState::Closed).await;
        twice(AFTER_END).await;
        let expected = ["opened", "sold_out", "paused", "published", "opened", "back", "ended"];
        assert_eq!(told(&fixture).await, expected, "{ledger}: nothing is sold after the end");

        let endpoint = FakeEndpoint::default();
        deliver_all(&fixture, &endpoint, AFTER_END).await;
        let sale = fixture.activity.as_str();
        let documents = endpoint.documents();
        let of_sale: Vec<_> = documents.iter().filter(|document| document["data"].get("order_no").is_none()).collect();
        let types: Vec<_> = of_sale.iter().map(|document| document["type"].as_str().unwrap()).collect();
        let expected = [
            "activity.opened",
            "sku.sold_out",
            "activity.paused",
            "activity.published",
            "activity.opened",
            "sku.back",
            "activity.ended",
        ];
        assert_eq!(types, expected, "{ledger}");
        assert_eq!(of_sale[0]["data"], json!({ "activity": sale }), "{ledger}");
        assert_eq!(of_sale[1]["data"], json!({ "activity": sale, "sku": "phone", "name": "Phone" }), "{ledger}");
        let mut ids = endpoint.event_ids();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), documents.len(), "{ledger}: an id of two events");
    }
}

#[tokio::test]
async fn a_sku_that_flips_between_two_sweeps_is_told_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        record(&fixture, NOW).await.unwrap();
        for n in 0..3 {
            let order_no = fixture.pending_order(n, &format!("user {n}"), 1).await;
            fixture.cancel(&order_no).await.unwrap();
        }
        record(&fixture, NOW).await.unwrap();
        assert_eq!(told(&fixture).await, ["opened"], "{ledger}");
        fixture.pending_order(3, "ada", 1).await;
        record(&fixture, NOW).await.unwrap();
        fixture.restock(1).await;
        record(&fixture, NOW).await.unwrap();
        assert_eq!(told(&fixture).await, ["opened", "sold_out", "back"], "{ledger}");
    }
}

#[tokio::test]
async fn a_sweep_tells_the_shop_all_that_it_saw() {
    for ledger in LEDGERS {
        let (fixture, services) = (new_fixture(ledger, 1, 1).await, Services::accepting());
        set_enabled(&fixture.sql, true).await.unwrap();
        fixture.pending_order(1, "ada", 1).await;
        let sweeper = sweeper((&fixture.redis, &fixture.sql), &services, &|| LATER);
        let sweeper = Sweeper { events: Some(TARGET), ..sweeper };
        completed(sweeper.run(NOW).await);
        let delivered = "SELECT status FROM events WHERE subject = ?1 AND state = 'delivered' ORDER BY step";
        let delivered = texts(&fixture.sql, delivered, fixture.activity.as_str()).await;
        assert_eq!(delivered, ["opened", "sold_out"], "{ledger}");
    }
}

#[tokio::test]
async fn a_dead_process_leaves_no_change_untold_and_none_told_twice() {
    let steps = async |fixture: &CrashingFixture| {
        let set_state = async |state| fixture.operator().set_state(&fixture.activity, state).await.map(drop);
        record(fixture, NOW).await?;
        set_state(ActivityState::Paused).await?;
        record(fixture, NOW).await?;
        set_state(ActivityState::Published).await?;
        record(fixture, NOW).await?;
        fixture.reserve(1, "ada", 2).await?;
        fixture.write_batch().await?;
        record(fixture, NOW).await?;
        fixture.cancel(&fixture.order_no(1)).await?;
        record(fixture, NOW).await
    };
    crash_at_every_call_and_recover(
        2,
        async |fixture| set_enabled(&fixture.sql, true).await.unwrap(),
        steps,
        async |fixture| {
            fixture.recover().await;
            record(fixture, NOW).await.unwrap();
        },
        async |fixture, point| {
            let told = told(fixture).await;
            let (of_sku, of_sale): (Vec<_>, Vec<_>) =
                told.iter().map(String::as_str).partition(|status| ["sold_out", "back"].contains(status));
            assert!(["opened", "paused", "published", "opened"].starts_with(&of_sale), "{point}: {told:?}");
            assert!(["sold_out", "back"].starts_with(&of_sku), "{point}: {told:?}");
            let activity = fixture.stored().await;
            let is_paused = activity.state == ActivityState::Paused;
            assert_eq!(of_sale.last(), Some(&if is_paused { "paused" } else { "opened" }), "{point}: {told:?}");
            let is_sold_out = fixture.units().await.0 == 0;
            assert_eq!(of_sku.last() == Some(&"sold_out"), is_sold_out, "{point}: {told:?}");
        },
    )
    .await;
}

/// PostgreSQL only: SQLite has one writer.
#[tokio::test]
async fn a_sweep_does_not_tell_what_an_operator_changes_meanwhile() {
    let fixture = new_fixture("postgres", 2, 2).await;
    set_enabled(&fixture.sql, true).await.unwrap();
    let other = open_connection(&fixture).await;
    other.run("BEGIN", Vec::new()).await.unwrap();
    other.run("UPDATE activities SET state = 'paused'", Vec::new()).await.unwrap();
    // The sweep sees the sale as open, and waits for the operator.
    let (recorded, ()) = join(record(&fixture, NOW), commit_when_blocking(&other)).await;
    recorded.unwrap();
    record(&fixture, NOW).await.unwrap();
    assert_eq!(told(&fixture).await, ["paused"]);
}

/// The concurrent twin: many sweeps, and an operator who pauses and resumes.
#[tokio::test]
async fn concurrent_sweeps_tell_each_change_once() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        set_enabled(&fixture.sql, true).await.unwrap();
        let mut connections = Vec::new();
        if fixture.sql.dialect() == Dialect::Postgres {
            for _ in 0..4 {
                connections.push(open_connection(&fixture).await);
            }
        }
        fixture.pending_order(1, "ada", 1).await;
        let done = RefCell::new(false);
        let sweeps = connections.iter().chain([&fixture.sql]).map(async |sql| {
            while !*done.borrow() {
                sale_states::record(sql, std::slice::from_ref(&fixture.activity), NOW).await.unwrap();
                // SQLite answers at once.
                tokio::task::yield_now().await;
            }
        });
        let operator = async {
            for _ in 0..10 {
                pause(&fixture).await;
                resume(&fixture).await;
            }
            *done.borrow_mut() = true;
        };
        join(join_all(sweeps), operator).await;
        let told = told(&fixture).await;
        let count = |status: &str| told.iter().filter(|told| *told == status).count();
        assert_eq!((count("paused"), count("published"), count("sold_out")), (10, 10, 1), "{ledger}: {told:?}");
        let of_sale: Vec<_> = told.iter().filter(|status| *status != "sold_out").collect();
        for pair in of_sale.windows(2) {
            let follows =
                [("opened", "paused"), ("paused", "published"), ("published", "opened"), ("published", "paused")];
            assert!(follows.contains(&(pair[0].as_str(), pair[1].as_str())), "{ledger}: {told:?}");
        }
    }
}
