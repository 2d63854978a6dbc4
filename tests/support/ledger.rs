//! Queries on the ledger, bypassing the app.

use rusqlite::{Connection, OpenFlags};
use tokio_postgres::NoTls;

use super::TestApp;

impl TestApp {
    /// Runs a query that returns one integer, on SQLite or PostgreSQL.
    pub async fn query_ledger_i64(&self, query: &str) -> i64 {
        match self.variables.get("ledger") {
            "sqlite" => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
                let ledger = Connection::open_with_flags(self.ledger_file(), flags).expect("the ledger");
                ledger.busy_timeout(std::time::Duration::from_secs(10)).expect("a busy timeout");
                ledger.query_row(query, [], |row| row.get(0)).expect(query)
            }
            url => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the ledger");
                let driver = tokio::spawn(connection);
                let number = client.query_one(query, &[]).await.expect(query).get(0);
                drop(client);
                driver.await.expect("the driver").expect("the connection");
                number
            }
        }
    }

    /// Counts an activity's orders in the ledger that meet an SQL condition; `1 = 1` counts all.
    pub async fn count_orders(&self, activity_id: &str, condition: &str) -> i64 {
        self.query_ledger_i64(&format!("SELECT COUNT(*) FROM orders WHERE activity = '{activity_id}' AND {condition}"))
            .await
    }
}
