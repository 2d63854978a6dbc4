//! Tests of a long line (H1): what an entry, a join and a release cost, and a Redis that loses it.

use std::cell::RefCell;

use domain::{ids::UserId, money::Money, order::OrderStatus::Queued};
use operations::upkeep::rebuild::RebuildOutcome;
use orders::ledger::line_entries;
use sale::reserve::Position;
use stores::{Sql, reply::Reply};
use support::fixture::WHOLE_REBUILD;

use super::line::{find, join, sold_out, sweep, write_all};
use crate::{
    fixture::{LEDGERS, NOW, RealFixture, new_fixture},
    operations::statistics::Recording,
    query_plans::numbers_to,
};

/// The memory of the line in Redis, in bytes.
async fn line_bytes(fixture: &RealFixture) -> i64 {
    let mut bytes = 0;
    for key in ["line:phone", "entries"] {
        bytes +=
            Reply::new(fixture.run_redis(&["MEMORY", "USAGE", &fixture.key(key), "SAMPLES", "0"]).await).int().unwrap();
    }
    bytes
}

#[tokio::test]
async fn a_redis_that_lost_everything_gets_its_line_of_a_thousand_back() {
    for ledger in LEDGERS {
        let fixture = sold_out(ledger, 1).await;
        fixture.change_spec(|spec| spec.line.max_units = Some(1_000)).await;
        for n in 2..=1_001 {
            // Names of 16 characters.
            fixture.reserve(n, &format!("{:016}", n * 7_919 % 10_007), 1).await.unwrap();
        }
        write_all(&fixture).await;
        let line = fixture.key("line:phone");
        let before = fixture.run_redis(&["ZRANGE", &line, "0", "-1"]).await;
        assert_eq!(before.len(), 1_000, "{ledger}");
        let bytes = line_bytes(&fixture).await;
        println!("{} bytes an entry", bytes / 1_000);
        assert!(bytes <= 320 * 1_000, "{ledger}: {bytes}");
        fixture.delete_redis_keys().await;
        let rebuilt = fixture.rebuild(WHOLE_REBUILD).await.unwrap();
        assert!(matches!(rebuilt, RebuildOutcome::Done { .. }), "{rebuilt:?}");
        assert!(fixture.run_redis(&["ZRANGE", &line, "0", "-1"]).await == before, "{ledger}: another order");
        fixture.restock(1_000).await;
        write_all(&fixture).await;
        assert_eq!(fixture.units().await, (0, 1_001, 0), "{ledger}: each has one");
    }
}

#[tokio::test]
async fn the_writer_looks_up_the_users_of_a_batch_in_a_long_line() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let sql = &fixture.sql;
        let insert = format!(
            "INSERT INTO line_entries {} SELECT ?1 || '.' || n, ?1, 'phone', 'user ' || n, 1, 'EUR', n, 1, n, 'waiting', '', n \
             FROM numbers WHERE 1 = 1 ON CONFLICT DO NOTHING",
            numbers_to(100_000)
        );
        let rows = insert.replace("?1", &format!("'{}'", fixture.activity));
        // Each joins again.
        let entry = |n| line_entries::Entry {
            order_no: fixture.order_no(n),
            user: UserId::parse("user 7").unwrap(),
            sku: fixture.sku.clone(),
            money: Money::new(1, "EUR"),
            created_at: NOW,
            place: Position { epoch: 1, sequence: 100_000 + n as i64 },
            ended: String::new(),
            again: false,
        };
        // Also with an empty table and without statistics, as at the start of a rush.
        for (n, before) in (1..).zip(["SELECT 1", &rows, "ANALYZE"]) {
            sql.run(before, Vec::new()).await.unwrap();
            let recording = Recording(sql, RefCell::default());
            line_entries::write(&recording, &fixture.activity, &[&entry(n)], NOW).await.unwrap();
            let explain = if ledger == "sqlite" { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
            for (statement, params) in recording.1.take() {
                let plan = format!("{:?}", sql.run(&format!("{explain} {statement}"), params).await.unwrap());
                let of_activity = format!("Index Cond: (activity = '{}'::text)\"", fixture.activity);
                let reads_all = ["SCAN line_entries", "SCAN earlier", "line_entries_in_order", &of_activity];
                assert!(!reads_all.iter().any(|step| plan.contains(step)), "{ledger}: {plan}");
                let is_small = before == "SELECT 1";
                assert!(is_small || !plan.contains("Seq Scan on line_entries"), "{ledger}: {plan}");
            }
        }
        let waiting = "SELECT order_no FROM line_entries WHERE user_id = 'user 7' AND state = 'waiting'";
        assert_eq!(sql.run(waiting, Vec::new()).await.unwrap(), [[fixture.order_no(3).to_string().into()]], "{ledger}");
    }
}

/// Releases `count` units one after the other, each to the head of the line, whose place a new buyer takes at its end. Returns
/// the time of Redis's scripts for a release, in microseconds. `head` is the next ticket to be served, `tail` the last one.
async fn release(fixture: &RealFixture, head: u64, tail: u64, count: u64) -> f64 {
    let script_time = async || {
        let info = fixture.run_redis(&["INFO", "commandstats"]).await;
        let info = Reply::new(info).text().unwrap();
        let of_scripts = info.split("cmdstat_evalsha:calls=").nth(1).and_then(|rest| rest.split("usec=").nth(1));
        of_scripts.and_then(|rest| rest.split(',').next()).and_then(|usec| usec.parse::<f64>().ok()).unwrap()
    };
    let mut used = 0.0;
    for n in 0..count {
        write_all(fixture).await;
        let before = script_time().await;
        fixture.cancel(&fixture.order_no(head + n - 1)).await.unwrap();
        used += script_time().await - before;
        assert_eq!(find(fixture, head + n).await.status, Queued);
        join(fixture, tail + n + 1).await;
    }
    used / count as f64
}

#[ignore = "a hundred thousand wait, and figures of an idle machine: --long"]
#[tokio::test]
async fn a_release_costs_with_a_hundred_thousand_waiting_what_it_costs_with_ten() {
    let fixture = sold_out("sqlite", 1).await;
    fixture.change_spec(|spec| spec.line.max_units = Some(100_000)).await;
    for n in 2..=11 {
        join(&fixture, n).await;
    }
    let few = release(&fixture, 2, 11, 200).await;
    for n in 212..=100_201 {
        join(&fixture, n).await;
        if n % 500 == 0 {
            write_all(&fixture).await;
        }
    }
    let many = release(&fixture, 202, 100_201, 200).await;
    println!("scripts of a release: {few:.0} µs with 10 waiting, {many:.0} with 100,000: {:.2}", many / few);
    println!("{} bytes an entry", line_bytes(&fixture).await / 99_800);
    sweep(&fixture).await;
}
