//! Tests that what a sale earned is counted, not summed, and equals its orders and the parts of their payments (G2).
//! `Fixture::units` compares them after every other workflow.

use domain::ids::OrderNo;
use operations::ledger::sales::{self, Revenue, SaleFigures};
use stores::{
    Sql,
    ledger::schema,
    ports::{Dialect, SqlValue},
};

use crate::{
    fixture::{LEDGERS, RealFixture, new_fixture},
    operations::statistics::orders_in_every_status,
};

async fn figures(fixture: &RealFixture) -> SaleFigures {
    fixture.units().await;
    sales::load(&fixture.sql, &[&fixture.activity]).await.unwrap().remove(&fixture.activity).unwrap_or_default()
}

async fn revenue(fixture: &RealFixture) -> (i64, i64) {
    match &figures(fixture).await.revenue[..] {
        [Revenue { currency, sold, refunded }] if currency == "EUR" => (*sold, *refunded),
        other => panic!("{other:?}"),
    }
}

/// Runs a statement about a part of an order's payment.
async fn change_part(fixture: &RealFixture, statement: &str, order_no: &OrderNo, payment: &str) {
    let params: Vec<SqlValue> = vec![payment.into(), order_no.to_string().into()];
    fixture.sql.run(statement, params).await.unwrap();
}

const ADD: &str = "INSERT INTO partial_refunds (payment, refund, order_no, amount) VALUES (?1, 're', ?2, 30)";

#[tokio::test]
async fn every_payment_is_sold_and_what_was_given_back_is_refunded() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        let expected = SaleFigures {
            total: 7,
            held_units: 5,
            sold_units: 2,
            revenue: vec![Revenue { currency: "EUR".to_owned(), sold: 400, refunded: 100 }],
        };
        assert_eq!(figures(&fixture).await, expected, "{ledger}");
        fixture.payment_succeeded(&fixture.order_no(6), "e").await.unwrap();
        assert_eq!(revenue(&fixture).await, (900, 100), "{ledger}: five units");
        fixture.refund_succeeded(&fixture.order_no(5), "r").await.unwrap();
        assert_eq!(revenue(&fixture).await, (900, 200), "{ledger}");
    }
}

#[tokio::test]
async fn the_parts_of_a_payment_are_refunded_until_the_whole_is() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 7, 7).await;
        let order_no = fixture.paid_order(1, "ada").await;
        let payment = format!("pay-{order_no}");
        let steps = [
            (ADD, payment.as_str(), 30),
            ("UPDATE partial_refunds SET amount = 45 WHERE payment = ?1 AND order_no = ?2", &payment, 45),
            // A second payment of the order is not what it earned.
            (ADD, "overpayment", 45),
            ("DELETE FROM partial_refunds WHERE payment = ?1 AND order_no = ?2", "overpayment", 45),
            ("DELETE FROM partial_refunds WHERE payment = ?1 AND order_no = ?2", &payment, 0),
            (ADD, &payment, 30),
        ];
        for (statement, payment, refunded) in steps {
            change_part(&fixture, statement, &order_no, payment).await;
            assert_eq!(revenue(&fixture).await, (100, refunded), "{ledger}: {statement}");
        }
        fixture.request_refund(&order_no).await.unwrap();
        assert_eq!(revenue(&fixture).await, (100, 30), "{ledger}: the rest is on its way");
        fixture.refund_succeeded(&order_no, "r").await.unwrap();
        assert_eq!(revenue(&fixture).await, (100, 100), "{ledger}");
        change_part(&fixture, "DELETE FROM partial_refunds WHERE payment = ?1 AND order_no = ?2", &order_no, &payment)
            .await;
        assert_eq!(revenue(&fixture).await, (100, 100), "{ledger}: it is given back as a whole");
    }
}

/// Version 1 had no counters of amounts.
#[tokio::test]
async fn a_ledger_of_version_one_gets_counters_of_the_orders_that_it_has() {
    for ledger in LEDGERS {
        let fixture = orders_in_every_status(ledger).await;
        let part = fixture.order_no(1);
        change_part(&fixture, ADD, &part, &format!("pay-{part}")).await;
        let expected = figures(&fixture).await;
        assert_eq!(expected.revenue[0].refunded, 130, "{ledger}");
        let triggers = [
            ("revenue_of_new", "orders"),
            ("revenue_of_moves", "orders"),
            ("revenue_of_part", "partial_refunds"),
            ("revenue_of_larger_part", "partial_refunds"),
            ("revenue_of_failed_part", "partial_refunds"),
            ("revenue_of_parts", "partial_refunds"),
            ("revenue_ends", "activities"),
        ];
        for (trigger, table) in triggers {
            let on_table =
                if fixture.sql.dialect() == Dialect::Sqlite { String::new() } else { format!(" ON {table}") };
            fixture.sql.run(&format!("DROP TRIGGER IF EXISTS {trigger}{on_table}"), vec![]).await.unwrap();
        }
        for statement in ["DROP TABLE revenue", "DROP TABLE sale_history"] {
            fixture.sql.run(statement, vec![]).await.unwrap();
        }
        // A migration may run twice.
        for _ in 0..2 {
            fixture.sql.run("DELETE FROM schema_versions WHERE version = 2", vec![]).await.unwrap();
            schema::migrate(&fixture.sql).await.unwrap();
            assert_eq!(figures(&fixture).await, expected, "{ledger}");
        }
        fixture.refund_succeeded(&fixture.order_no(5), "r").await.unwrap();
        assert_eq!(revenue(&fixture).await, (400, 230), "{ledger}: the triggers are back");
    }
}
