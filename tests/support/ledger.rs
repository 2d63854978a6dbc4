//! Queries on the ledger, bypassing the app.

use rusqlite::{Connection, OpenFlags};
use tokio_postgres::{NoTls, Row};

use super::TestApp;

impl TestApp {
    /// Runs a query that returns one integer, on SQLite or PostgreSQL.
    pub async fn query_ledger_i64(&self, query: &str) -> i64 {
        match self.variables.get("ledger") {
            "sqlite" => {
                let ledger = self.open_sqlite(OpenFlags::SQLITE_OPEN_READ_ONLY);
                ledger.query_row(query, [], |row| row.get(0)).expect(query)
            }
            url => query_postgres(url, query).await[0].get(0),
        }
    }

    /// Runs a query that returns rows of one text.
    pub async fn query_ledger_texts(&self, query: &str) -> Vec<String> {
        match self.variables.get("ledger") {
            "sqlite" => {
                let ledger = self.open_sqlite(OpenFlags::SQLITE_OPEN_READ_ONLY);
                let mut statement = ledger.prepare(query).expect(query);
                let rows = statement.query_map([], |row| row.get(0)).expect(query);
                rows.collect::<Result<_, _>>().expect(query)
            }
            url => query_postgres(url, query).await.iter().map(|row| row.get(0)).collect(),
        }
    }

    /// Runs a statement that changes rows.
    pub async fn change_ledger(&self, statement: &str) {
        match self.variables.get("ledger") {
            "sqlite" => {
                let ledger = self.open_sqlite(OpenFlags::SQLITE_OPEN_READ_WRITE);
                ledger.execute(statement, []).expect(statement);
            }
            url => drop(query_postgres(url, statement).await),
        }
    }

    fn open_sqlite(&self, flags: OpenFlags) -> Connection {
        let ledger = Connection::open_with_flags(self.ledger_file(), flags).expect("the ledger");
        ledger.busy_timeout(std::time::Duration::from_secs(10)).expect("a busy timeout");
        ledger
    }

    /// Counts an activity's orders in the ledger that meet an SQL condition; `1 = 1` counts all.
    pub async fn count_orders(&self, activity_id: &str, condition: &str) -> i64 {
        self.query_ledger_i64(&format!("SELECT COUNT(*) FROM orders WHERE activity = '{activity_id}' AND {condition}"))
            .await
    }
}

async fn query_postgres(url: &str, query: &str) -> Vec<Row> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the ledger");
    let driver = tokio::spawn(connection);
    let rows = client.query(query, &[]).await.expect(query);
    drop(client);
    driver.await.expect("the driver").expect("the connection");
    rows
}
