//! Tests of the history of a sale: what sweeps recorded of its stock (G2, G22).

use std::cell::RefCell;

use operations::ledger::history::{self, HistoryEntry};
use stores::{Sql, ports::SqlValue};

use crate::{
    fixture::{LEDGERS, NOW, RealFixture, Services, completed, new_fixture, sweeper},
    operations::statistics::Recording,
};

const MAX_ROWS: i64 = 720;

const INSERT: &str = "INSERT INTO sale_history (activity, sku, recorded_at, units_left, held, sold) \
     VALUES (?1, ?2, ?3, 0, 0, 0)";

/// The left, held and sold units of each entry, newest first.
async fn units(fixture: &RealFixture) -> Vec<(i64, i64, i64)> {
    let entries = history::list(&fixture.sql, &fixture.activity, None, 10_000).await.unwrap();
    entries.into_iter().map(|HistoryEntry { left, held, sold, .. }| (left, held, sold)).collect()
}

#[tokio::test]
async fn a_sweep_records_the_units_that_changed_in_one_statement() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let sweep = async |ms| {
            let (services, sql) = (Services::accepting(), Recording(&fixture.sql, RefCell::default()));
            let now = NOW.plus(ms);
            completed(sweeper((&fixture.redis, &sql), &services, &|| now).run(now).await);
            let of_history = |(statement, _): &(String, _)| statement.contains("sale_history");
            assert_eq!(sql.1.take().iter().filter(|call| of_history(call)).count(), 1, "{ledger}");
        };
        sweep(0).await;
        sweep(1).await;
        assert_eq!(units(&fixture).await, [(5, 0, 0)], "{ledger}: nothing changed");
        fixture.paid_order(1, "ada").await;
        fixture.pending_order(2, "ada", 2).await;
        sweep(2).await;
        assert_eq!(units(&fixture).await, [(2, 2, 1), (5, 0, 0)], "{ledger}");
        fixture.restock(4).await;
        sweep(3).await;
        fixture.cancel(&fixture.order_no(2)).await.unwrap();
        sweep(4).await;
        assert_eq!(units(&fixture).await, [(8, 0, 1), (6, 2, 1), (2, 2, 1), (5, 0, 0)], "{ledger}");
        fixture.restock(-8).await;
        sweep(5).await;
        assert_eq!(units(&fixture).await[0], (0, 0, 1), "{ledger}");
    }
}

#[tokio::test]
async fn an_unlimited_sku_has_minus_one_left() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, -1, 5).await;
        fixture.paid_order(1, "ada").await;
        history::record(&fixture.sql, std::slice::from_ref(&fixture.activity), NOW).await.unwrap();
        assert_eq!(units(&fixture).await, [(-1, 0, 1)], "{ledger}");
    }
}

#[tokio::test]
async fn the_rows_of_a_sku_stay_few_and_the_first_and_the_last_ones_stay() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let times = async || {
            let entries = history::list(&fixture.sql, &fixture.activity, None, 10_000).await.unwrap();
            entries.into_iter().filter(|entry| entry.sku == "phone").map(|entry| entry.time.0).rev().collect::<Vec<_>>()
        };
        for n in 1..=2 * MAX_ROWS {
            for sku in ["phone", "other"] {
                if sku == "phone" || n == 1 {
                    let params: Vec<SqlValue> = vec![fixture.activity.as_str().into(), sku.into(), n.into()];
                    fixture.sql.run(INSERT, params).await.unwrap();
                }
            }
            if n == MAX_ROWS + 1 {
                let expected = (1..=MAX_ROWS / 2).step_by(2).chain(MAX_ROWS / 2 + 1..=n);
                assert_eq!(times().await, expected.collect::<Vec<_>>(), "{ledger}");
            }
        }
        let kept = times().await;
        assert!((500..=720).contains(&kept.len()), "{ledger}: {}", kept.len());
        assert_eq!((kept[0], kept[kept.len() - 1]), (1, 2 * MAX_ROWS), "{ledger}");
        let widest = kept.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(widest <= Some(32), "{ledger}: {widest:?}");
        let all = history::list(&fixture.sql, &fixture.activity, None, 10_000).await.unwrap();
        assert_eq!(all.iter().filter(|entry| entry.sku == "other").count(), 1, "{ledger}: of each SKU");
    }
}

#[tokio::test]
async fn the_history_of_a_sale_is_paged_newest_first() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 5).await;
        let of_another = format!("{}-b", fixture.activity);
        for (activity, sku, time) in [
            (fixture.activity.as_str(), "phone", 1),
            (fixture.activity.as_str(), "tablet", 1),
            (of_another.as_str(), "phone", 2),
            (fixture.activity.as_str(), "phone", 3),
        ] {
            let params: Vec<SqlValue> = vec![activity.into(), sku.into(), time.into()];
            fixture.sql.run(INSERT, params).await.unwrap();
        }
        let (mut paged, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let before = cursor.as_deref().map(|text| history::parse_cursor(text).unwrap());
            let page = history::list(&fixture.sql, &fixture.activity, before, 1).await.unwrap();
            let Some(last) = page.last() else { break };
            cursor = Some(last.cursor());
            paged.extend(page);
        }
        let found: Vec<_> = paged.iter().map(|entry| (entry.time.0, entry.sku.as_str())).collect();
        assert_eq!(found, [(3, "phone"), (1, "tablet"), (1, "phone")], "{ledger}");
    }
}
