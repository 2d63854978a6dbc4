//! Tests of the connections that PostgreSQL has left (G6).

use dev::postgres::Postgres;
use operations::commands::readiness;
use stores::{Sql, StoreError};

use crate::stores::RealLedger;

#[tokio::test]
async fn a_postgresql_that_has_few_connections_left_is_named() {
    let server = Postgres::ephemeral().expect("PostgreSQL");
    let connect = async || RealLedger::postgres(&server.url(), "public").await;
    let mut others = vec![connect().await];
    for statement in ["CREATE ROLE shop LOGIN", "GRANT CREATE ON DATABASE postgres TO shop"] {
        others[0].run(statement, Vec::new()).await.expect("done");
    }
    // The app's role has no privileges, and sees little of other roles' connections.
    let ledger = RealLedger::postgres(&server.url().replace("postgres@", "shop@"), "public").await;
    assert_eq!(readiness::connections_fault(&ledger).await, Ok(None));
    let fault = loop {
        if let Some(fault) = readiness::connections_fault(&ledger).await.expect("an answer") {
            break fault;
        }
        others.push(connect().await);
    };
    // Three of the server's 200 are reserved.
    assert!(fault.starts_with("has 178 of 197 connections in use: raise max_connections"), "{fault}");
    assert_eq!(others.len() + 1, 178);
}

#[test]
fn a_postgresql_that_refuses_a_connection_is_named() {
    let unavailable = |text: &str| StoreError::LedgerUnavailable(text.to_owned());
    let fault = readiness::refused_connection_fault(&unavailable("FATAL: sorry, too many clients already"));
    assert!(fault.is_some_and(|fault| fault.starts_with("refuses connections")));
    assert_eq!(readiness::refused_connection_fault(&unavailable("connection refused")), None);
}
