//! Tests that no statement of buyers, providers, operators or sweepers reads all orders.
//!
//! The ledger has many orders of other activities. The workflows run on a ledger that records their statements, and
//! each statement's query plan is checked. On PostgreSQL its own count of sequential scans covers the triggers, too.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use domain::{
    activity::ActivityState,
    ids::{ShortCode, UserId},
    money::Money,
    order::OrderStatus,
    settings::Retention,
    time::Millis,
    webhook::{Dispute, DisputeStatus},
};
use operations::{
    commands::{bans, inbox, stats},
    ledger::{backlog, history, operator_changes, order_times, sales},
    upkeep::{erasure::erase_old, passes, rebuild::RebuildOutcome, report::Report, sweep::Sweeper},
};
use orders::{
    dead_letters::{self, Cursor},
    ledger::{events, line_entries, order_changes, order_rows, order_search::Search},
    message_batch,
    order_record::{NewOrder, Offer},
};
use payments::{
    callbacks::{disputes::receive, parked},
    commands::refund_by_operator,
    ledger::{books, callback_rows, disputes::list_for_orders, refunds, unprocessed},
};
use sale::{ledger::activities, reserve::Position};
use stores::{
    Sql,
    ports::{Dialect, SqlValue},
};

use crate::{
    fakes::FakeKeyValue,
    fixture::{Fixture, LEDGERS, NOW, Services, WHOLE_REBUILD, completed, new_fixture, sweeper},
    operations::{epochs::RealFixture, statistics::Recording},
    orders::events::TARGET,
    payments::disputes,
    stores::{RealLedger, RealRedis},
};

/// When the sweep begins: the fixture's orders are due.
const LATER: Millis = Millis(NOW.0 + 7_200_000);

/// Orders of other activities, in ten activities.
const OTHER_ORDERS: i64 = 100_000;

/// Tables that grow with the number of orders.
const GROWING: [&str; 14] = [
    "orders",
    "line_entries",
    "callbacks",
    "refunds",
    "overpayments",
    "partial_refunds",
    "refund_parts",
    "sessions",
    "addresses",
    "events",
    "dead_letters",
    "order_counts",
    "sale_history",
    "strikes",
];

/// Indexes of rows that wait for something, of which there are few.
const SMALL_INDEXES: [&str; 11] = [
    "orders_due",
    "orders_unsynced",
    "callbacks_open",
    "callbacks_parked",
    "refunds_open",
    "overpayments_open",
    "refund_parts_open",
    "sessions_open",
    "events_waiting",
    "dead_letters_waiting",
    "strikes_at_limit",
];

/// A table `numbers` with the numbers `n` from 1 to `last`, for a statement on either ledger.
pub fn numbers_to(last: i64) -> String {
    format!("WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})")
}

/// Inserts [`OTHER_ORDERS`] orders: most are paid or expired, some wait for payment. One of the activities has an id
/// that begins with the fixture's.
async fn insert_other_orders(fixture: &RealFixture) {
    let sql = &fixture.sql;
    let id = |n| format!("{}-{n}", fixture.activity);
    for n in 0..10 {
        let copy = "INSERT INTO activities SELECT ?1, spec, '[[\"phone\", -1]]', starts_at, ends_at, pay_timeout_ms, pay_extension_ms, \
             per_user, refund_restocks, state, nonce, version, updated_at, announcement FROM activities WHERE id = ?2";
        sql.run(copy, vec![id(n).into(), fixture.activity.as_str().into()]).await.unwrap();
        let hex = match sql.dialect() {
            Dialect::Sqlite => "printf('%023X', n)",
            Dialect::Postgres => "lpad(upper(to_hex(n)), 23, '0')",
        };
        let insert = format!(
            "INSERT INTO orders (order_no, activity, sku, user_id, quantity, amount, currency, status, live, \
             created_at, pay_by, updated_at) {numbers} SELECT CAST(?1 AS TEXT) || '.01J' || {hex}, CAST(?1 AS TEXT), \
             'phone', 'user ' || n, 1, 100, 'EUR', CASE WHEN n % 100 = 0 THEN 'pending_payment' \
             WHEN n % 3 = 0 THEN 'expired' ELSE 'paid' END, CASE WHEN n % 100 <> 0 AND n % 3 = 0 THEN 0 ELSE 1 END, \
             n, {due}, n FROM numbers",
            numbers = numbers_to(OTHER_ORDERS / 10),
            due = i64::MAX / 2,
        );
        sql.run(&insert, vec![id(n).into()]).await.unwrap();
        let waited = "INSERT INTO line_entries SELECT order_no, activity, sku, user_id, amount, currency, created_at, 1, created_at, \
             CASE WHEN created_at % 7 = 0 THEN 'waiting' WHEN created_at % 2 = 0 THEN 'offered' ELSE 'ended' END, '', 1 \
             FROM orders WHERE activity = ?1";
        sql.run(waited, vec![id(n).into()]).await.unwrap();
    }
    sql.run("ANALYZE", Vec::new()).await.unwrap();
}

type RecordingFixture<'a> = Fixture<RealRedis, Recording<'a>>;

/// Runs what buyers, providers, operators and sweepers do with orders.
async fn run_workflows(fixture: &RecordingFixture<'_>) {
    let (services, sql) = (Services::accepting(), &fixture.sql);
    let provider = &services.provider;
    events::set_enabled(sql, true).await.unwrap();
    let ada = UserId::parse("ada").unwrap();

    let order_no = fixture.pending_order(1, "ada", 1).await;
    fixture.checkout(provider, &order_no, "sealed").await.unwrap();
    fixture.payment_succeeded(&order_no, "e").await.unwrap();
    fixture.payment_succeeded_with_id(&order_no, "twice").await.unwrap();
    refund_by_operator(sql, &order_no, Some((1, "part")), NOW).await.unwrap();
    refund_by_operator(sql, &order_no, Some((1_000, "more")), NOW).await.unwrap();
    fixture.request_refund(&order_no).await.unwrap();
    fixture.send_refunds(provider, 0).await.unwrap();
    fixture.refund_succeeded(&order_no, "r").await.unwrap();
    let cancelled = fixture.pending_order(2, "ada", 1).await;
    fixture.cancel(&cancelled).await.unwrap();
    fixture.payment_succeeded(&cancelled, "late").await.unwrap();
    fixture.checked_out_order(provider, 3, "bob").await;
    let newest = order_rows::list_for_user(sql, &ada, None, 1, NOW).await.unwrap();
    let before = Some((newest[0].created_at, &newest[0].order_no));
    assert_eq!(order_rows::list_for_user(sql, &ada, before, 1, NOW).await.unwrap().len(), 1);
    activities::list_lately_on_sale(sql, NOW).await.unwrap();
    order_rows::load_many(sql, &[&order_no, &cancelled]).await.unwrap();

    // A sweep.
    let sweeper = Sweeper {
        events: Some(TARGET),
        retention: Retention { address_days: Some(0), activity_days: Some(30) },
        log: &|notice| panic!("{notice:?}"),
        ..sweeper((&fixture.redis, sql), &services, &|| LATER)
    };
    assert_eq!(completed(sweeper.run(LATER).await).expired, 1);

    // Operators.
    bans::load_users_at_limit(sql, NOW).await.unwrap();
    bans::load_strikes(sql, &ada).await.unwrap();
    stats::orders_by_status(sql, &fixture.activity).await.unwrap();
    line_entries::count_offers(sql, &fixture.activity).await.unwrap();
    backlog::load(sql).await.unwrap();
    inbox::load(&fixture.redis, sql, TARGET.url, NOW, Some(0)).await.unwrap();
    sales::load(sql, &[&fixture.activity]).await.unwrap();
    assert_ne!(history::list(sql, &fixture.activity, None, 100).await.unwrap(), []);
    activities::list(sql, NOW).await.unwrap();
    assert_eq!(activities::list_published(sql, NOW).await.unwrap().activities.len(), 11);
    fixture.restock(1).await;
    fixture.apply_callback("payment.succeeded", &cancelled, "wrong", 1).await.unwrap();
    parked::refund(&fixture.redis, sql, &format!("wrong-{cancelled}"), NOW).await.unwrap();
    callback_rows::list_parked(sql, "", 200).await.unwrap();
    callback_rows::list_parked(sql, "e", 200).await.unwrap();
    callback_rows::list_for_order(sql, &order_no).await.unwrap();
    let names_no_order = callback_rows::Callback {
        id: format!("r-{order_no}"),
        payment: "another".to_owned(),
        ..callback_rows::Callback::default()
    };
    callback_rows::name_order(sql, &names_no_order).await.unwrap();
    let dispute = Dispute { order_no: order_no.to_string(), ..disputes::reported("p", DisputeStatus::Open, 0) };
    books::list(sql, &[order_rows::load(sql, &order_no).await.unwrap().unwrap()]).await.unwrap();
    receive(sql, &dispute, true, |_| true).await.unwrap();
    list_for_orders(sql, &[&order_no]).await.unwrap();
    unprocessed::defer(sql, &["a failure"], &["another"], NOW).await.unwrap();
    refunds::list_for_order(sql, &order_no).await.unwrap();
    for before in ["", "orders/x", "overpayments/x"] {
        refunds::list_unconfirmed(sql, before, 200).await.unwrap();
    }
    let activity = Some(fixture.activity.clone());
    let code = ShortCode::parse("12345678").unwrap();
    for search in [
        Search { activity: activity.clone(), ..Search::default() },
        Search { activity: activity.clone(), status: Some(OrderStatus::Paid), ..Search::default() },
        Search { activity: activity.clone(), updated_since: Some(NOW), ..Search::default() },
        Search {
            activity: activity.clone(),
            user: Some(ada.clone()),
            status: Some(OrderStatus::Paid),
            ..Search::default()
        },
        Search { activity, code: Some(code.clone()), updated_since: Some(NOW), ..Search::default() },
        Search { user: Some(ada.clone()), ..Search::default() },
        Search { code: Some(code), ..Search::default() },
    ] {
        let found = search.find(sql, None, 1).await.unwrap();
        let before = found.last().map(|last| search.position(last));
        search.find(sql, before.as_ref(), 1).await.unwrap();
    }
    order_times::load(sql, &order_no).await.unwrap();
    operator_changes::list_of_subjects(sql, &["x", "y"]).await.unwrap();
    operator_changes::list(sql, Some(order_no.activity()), None, 51).await.unwrap();
    events::list_for_order(sql, &order_no).await.unwrap();
    for state in events::EventState::ALL {
        for (r#type, before) in [(None, ""), (Some("order.paid".to_owned()), "x/1")] {
            events::list(sql, &events::EventFilter { state, r#type }, before, 200).await.unwrap();
        }
    }
    events::add_test(sql, NOW).await.unwrap();
    dead_letters::load_failed_order(sql, &order_no).await.unwrap();
    let letter = (order_no.to_string(), "message".to_owned(), "undeliverable");
    dead_letters::record(sql, &[letter], NOW).await.unwrap();
    let letters = dead_letters::list(sql, None, 2).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(dead_letters::list(sql, Some(Cursor::of(&letters[0])), 2).await.unwrap(), []);
    let offered = NewOrder {
        order_no: fixture.order_no(9),
        user: UserId::parse("dan").unwrap(),
        sku: fixture.sku.clone(),
        quantity: 1,
        money: Money::new(100, "EUR"),
        created_at: NOW,
        epoch: 1,
        sequence: 9,
        offer: Some(Offer { place: Position { epoch: 1, sequence: 8 }, pay_ms: 1_000 }),
    };
    line_entries::write(sql, &fixture.activity, &[&offered.entry("").unwrap()], NOW).await.unwrap();
    message_batch::insert(sql, &fixture.activity, &[&offered], NOW).await.unwrap();
    assert_eq!(order_changes::expire(sql, &fixture.activity, LATER, 10, None).await.unwrap().len(), 1);
    fixture.set_state(ActivityState::Paused).await;
    let rebuilt = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
    assert_eq!(rebuilt, RebuildOutcome::Done { orders: 4, epoch: 2 }, "of this activity only");

    let erasing = "UPDATE activities SET state = 'erasing' WHERE id = ?1";
    sql.run(erasing, vec![fixture.activity.as_str().into()]).await.unwrap();
    let erased = erase_old(sql, &FakeKeyValue::default(), Millis(i64::MAX / 2), 100, 100, &|| true).await.unwrap();
    assert_eq!(erased.1, 1);
}

/// The names of [`GROWING`] tables in a statement, with their aliases.
fn growing_tables(statement: &str) -> BTreeMap<String, &'static str> {
    let words: Vec<_> =
        statement.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).collect();
    let mut aliases = BTreeMap::new();
    for (at, word) in words.iter().enumerate() {
        let Some(table) = GROWING.into_iter().find(|table| table == word) else { continue };
        aliases.insert(table.to_owned(), table);
        let alias = words[at + 1..].iter().find(|word| **word != "AS");
        aliases.extend(alias.filter(|word| word.to_lowercase() == **word).map(|word| ((*word).to_owned(), table)));
    }
    aliases
}

/// Returns the step of the statement's plan that reads a whole table that grows.
async fn full_scan(sql: &RealLedger, statement: &str, params: Vec<SqlValue>) -> Option<String> {
    let growing = growing_tables(statement);
    let explain = if sql.dialect() == Dialect::Sqlite { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
    let plan = sql.run(&format!("{explain} {statement}"), params).await.unwrap();
    let mut steps = plan.iter().map(|row| match row.last() {
        Some(SqlValue::Text(step)) => step.as_str(),
        other => panic!("{other:?}"),
    });
    let step = steps.find(|step| match sql.dialect() {
        Dialect::Sqlite => {
            let table = step.strip_prefix("SCAN ").and_then(|rest| rest.split(' ').next());
            table.is_some_and(|table| growing.contains_key(table))
                && !SMALL_INDEXES.iter().any(|index| step.ends_with(&format!("INDEX {index}")))
        }
        // The other tables are too small here for the planner to prefer an index.
        Dialect::Postgres => step.contains("Seq Scan on orders") || step.contains("Seq Scan on line_entries"),
    });
    step.map(str::to_owned)
}

#[tokio::test]
async fn no_statement_reads_all_orders() {
    for ledger in LEDGERS {
        let real = new_fixture(ledger, 3, 3).await;
        insert_other_orders(&real).await;
        let scans = async || match real.sql.dialect() {
            Dialect::Sqlite => 0,
            Dialect::Postgres => {
                real.sql.run("SELECT 1 FROM pg_stat_force_next_flush()", Vec::new()).await.unwrap();
                let count = "SELECT CAST(SUM(seq_scan) AS BIGINT) FROM pg_stat_user_tables \
                     WHERE relname IN ('orders', 'line_entries') AND schemaname = current_schema()";
                match real.sql.run(count, Vec::new()).await.unwrap()[0][0] {
                    SqlValue::Int(scans) => scans,
                    ref other => panic!("{other:?}"),
                }
            }
        };
        let scans_before = scans().await;
        let fixture = real.with_stores(real.redis.clone(), Recording(&real.sql, RefCell::default()));
        run_workflows(&fixture).await;
        let statements: BTreeMap<_, _> = fixture.sql.1.take().into_iter().collect();
        assert!(statements.len() > 50, "{}", statements.len());
        let mut found = Vec::new();
        for (statement, params) in statements {
            if let Some(step) = full_scan(&real.sql, &statement, params).await {
                found.push(format!("{step} in {statement}"));
            }
        }
        assert!(found.is_empty(), "{ledger}:\n{}", found.join("\n\n"));
        assert_eq!(scans().await, scans_before, "{ledger}: a trigger reads all orders, or the line");
    }
}

#[tokio::test]
async fn a_sweep_reads_no_synced_orders_although_the_statistics_are_from_a_rush() {
    let fixture = new_fixture("postgres", 3, 3).await;
    insert_other_orders(&fixture).await;
    let Fixture { redis, sql, activity, .. } = &fixture;
    // In a rush PostgreSQL sees orders none of which is synced, and may not look again for minutes.
    for statement in ["UPDATE orders SET unsynced_since = 1", "ANALYZE orders", "UPDATE orders SET unsynced_since = 0"]
    {
        sql.run(statement, Vec::new()).await.unwrap();
    }
    let recording = Recording(sql, RefCell::default());
    activities::list_with_due_orders(&recording, NOW, NOW).await.unwrap();
    passes::count_remaining(redis, &recording, std::slice::from_ref(activity), NOW, &mut Report::default())
        .await
        .unwrap();
    for (statement, params) in recording.1.take() {
        let explain = format!("EXPLAIN (ANALYZE, TIMING OFF, COSTS OFF) {statement}");
        let plan = sql.run(&explain, params).await.unwrap();
        let scan = plan.iter().find(|step| {
            matches!(&step[..], [SqlValue::Text(step)] if step.contains("Seq Scan on orders") && !step.contains("never executed"))
        });
        assert_eq!(scan, None, "{statement}");
    }
}

#[tokio::test]
async fn a_sweep_reads_no_processed_callbacks() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let sql = &fixture.sql;
        let insert = format!(
            "INSERT INTO callbacks (id, type, order_no, received_at, outcome, next_try_at) {} \
             SELECT 'processed ' || n, 'payment.failed', 'order ' || n, n, 'no_change', n FROM numbers",
            numbers_to(50_000)
        );
        sql.run(&insert, Vec::new()).await.unwrap();
        sql.run("ANALYZE", Vec::new()).await.unwrap();
        let recording = Recording(sql, RefCell::default());
        assert_eq!(unprocessed::load_due(&recording, LATER, 200).await.unwrap(), []);
        unprocessed::defer(&recording, &["processed 1"], &["processed 2"], LATER).await.unwrap();
        for (statement, params) in recording.1.take() {
            assert_eq!(full_scan(sql, &statement, params.clone()).await, None, "{ledger}: {statement}");
            let explain = if ledger == "sqlite" { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
            let plan = format!("{:?}", sql.run(&format!("{explain} {statement}"), params).await.unwrap());
            assert!(!plan.contains("Seq Scan on callbacks"), "{ledger}: {plan}");
            assert!(!statement.starts_with("SELECT") || plan.contains("callbacks_open"), "{ledger}: {plan}");
        }
    }
}

#[tokio::test]
async fn lists_of_activities_read_as_many_as_they_show() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let copy = format!(
            "INSERT INTO activities {} SELECT id || '-' || n, spec, '[]', starts_at + n, ends_at + n, pay_timeout_ms, \
             pay_extension_ms, per_user, refund_restocks, state, nonce, version, updated_at, announcement FROM activities, numbers",
            numbers_to(2_000)
        );
        let sql = Recording(&fixture.sql, RefCell::default());
        fixture.sql.run(&copy, Vec::new()).await.unwrap();
        fixture.sql.run("ANALYZE activities", Vec::new()).await.unwrap();
        let ends_at = fixture.stored().await.spec.ends_at;
        // So many have ended that the last 50 of them are listed, and those that end next.
        let now = ends_at.plus(1_000);
        let listed = activities::list(&sql, now).await.unwrap().activities;
        let published = activities::list_published(&sql, now).await.unwrap().activities;
        // The copies have the spec of the first, so the order of `listed` means nothing.
        let ids = listed.iter().map(|activity| &activity.id).collect::<BTreeSet<_>>();
        assert_eq!(ids, published.iter().map(|activity| &activity.id).collect(), "{ledger}");
        assert_eq!((published.len(), published[0].ends_at), (200, now.plus(150)), "{ledger}");
        assert_eq!(published[199].ends_at, now.plus(-49), "{ledger}");
        let explain = if sql.dialect() == Dialect::Sqlite { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
        for (statement, params) in sql.1.take() {
            let plan = format!("{:?}", fixture.sql.run(&format!("{explain} {statement}"), params).await.unwrap());
            assert!(plan.contains("activities_by_end") && !plan.contains("TEMP B-TREE"), "{ledger}: {plan}");
        }
    }
}
