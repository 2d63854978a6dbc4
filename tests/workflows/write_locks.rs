//! Tests that no statement holds the write lock of SQLite while a function reads rows.
//!
//! Spin passes the rows of a statement one by one, and SQLite holds the lock until the last one is read.

use std::cell::RefCell;

use domain::{settings::Retention, time::Millis};
use operations::upkeep::sweep::Sweeper;
use orders::{
    dead_letters,
    ledger::{
        events::{self, set_enabled},
        order_rows,
    },
};
use stores::{
    Sql, StoreError,
    ports::{Dialect, SqlValue},
};

use crate::{
    fixture::{LEDGERS, NOW, Services, completed, new_fixture, sweeper},
    operations::erasure::{LATER, end},
    stores::RealLedger,
};

/// Rows of each kind that a sweep changes: more than the provider's calls and the events of one round.
const ROWS: u64 = 30;

/// A ledger that collects the statements which change rows and return over 20.
struct Watched<'a>(&'a RealLedger, RefCell<Vec<String>>);

impl Sql for Watched<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    async fn run(&self, statement: &str, params: Vec<SqlValue>) -> Result<Vec<Vec<SqlValue>>, StoreError> {
        let rows = self.0.run(statement, params).await?;
        if !statement.starts_with("SELECT") && rows.len() > 20 {
            self.1.borrow_mut().push(format!("{} rows: {statement}", rows.len()));
        }
        Ok(rows)
    }
}

#[tokio::test]
async fn a_statement_that_changes_many_rows_does_not_return_them() {
    for ledger in LEDGERS {
        let (fixture, services) = (new_fixture(ledger, 200, 200).await, Services::accepting());
        set_enabled(&fixture.sql, true).await.unwrap();
        for n in 0..ROWS {
            let (order_no, _) = fixture.checked_out_order(&services.provider, n, "ada").await;
            fixture.payment_succeeded(&order_no, &format!("e{n}")).await.unwrap();
            fixture.pending_order(ROWS + n, "bob", 1).await;
        }
        let letter = |n| (fixture.order_no(n).to_string(), "message".to_owned(), "undeliverable");
        let letters: Vec<_> = (1_000..1_000 + ROWS).map(letter).collect();
        dead_letters::record(&fixture.sql, &letters, NOW).await.unwrap();
        for n in 0..ROWS {
            for statement in [
                format!("INSERT INTO bans (kind, name, until, reason) VALUES ('user', 'user {n}', 1, '')"),
                format!("INSERT INTO strikes (user_id, count, last_at) VALUES ('user {n}', 1, 1)"),
            ] {
                fixture.sql.run(&statement, Vec::new()).await.unwrap();
            }
        }
        let watched = Watched(&fixture.sql, RefCell::default());
        let sweep = async |now: Millis| {
            let clock = || now;
            let sweeper = Sweeper {
                retention: Retention { address_days: Some(0), activity_days: Some(0) },
                log: &|notice| panic!("{notice:?}"),
                ..sweeper((&fixture.redis, &watched), &services, &clock)
            };
            completed(sweeper.run(now).await)
        };
        assert_eq!(sweep(LATER).await.expired as u64, ROWS, "{ledger}");
        fixture.sql.run("UPDATE events SET state = 'failed'", Vec::new()).await.unwrap();
        assert!(events::resend(&watched, None, LATER).await.unwrap().0 as u64 >= ROWS, "{ledger}");
        end(&fixture).await;
        let erased = sweep(Millis(i64::MAX / 2)).await;
        assert_eq!(erased.erased_activities, 1, "{ledger}: {erased:?}");
        assert_eq!(order_rows::load(&fixture.sql, &fixture.order_no(1)).await.unwrap(), None, "{ledger}");
        assert_eq!(watched.1.take(), Vec::<String>::new(), "{ledger}");
    }
}
