//! Tests that a writer, payments, a sweeper and an operator who update the same SKUs never deadlock (C5; I2, I3).
//!
//! PostgreSQL only: it locks rows, and aborts one of the transactions in a deadlock.

use domain::{
    ids::{ActivityId, OrderNo, SkuId, UserId},
    money::Money,
    time::Millis,
};
use orders::{ledger::order_changes, order_record::NewOrder};
use payments::ledger::callback_rows::{self, RecordIf};
use sale::ledger::activities;
use stores::{Sql, StoreError, ports::SqlValue};
use ulid::Ulid;

use crate::{
    fixture::{NOW, new_fixture, open_connection},
    operations::epochs::RealFixture,
    payments::report,
    stores::RealLedger,
};

/// The SKUs of the activity, listed in another order than that of their names.
const SKUS: [&str; 5] = ["phone", "kettle", "lamp", "axe", "pan"];

/// Units of each SKU.
const TOTAL: i64 = 300;

const BATCH: u64 = 20;

/// A published activity with all [`SKUS`].
async fn new_activity() -> RealFixture {
    let fixture = new_fixture("postgres", TOTAL, 2).await;
    let read = fixture.stored().await;
    let (mut changed, first) = (read.clone(), read.spec.skus[0].clone());
    let named = |sku| domain::activity::Sku { sku: SkuId::parse(sku).unwrap(), ..first.clone() };
    changed.spec.skus = SKUS.map(named).into();
    changed.version += 1;
    assert!(activities::save(&fixture.sql, &changed, Some(&read), NOW).await.unwrap());
    fixture
}

/// Writes batches as the order writer does, and order by order where the ledger refuses a batch.
async fn write_batches(sql: &RealLedger, activity: &ActivityId, writer: u64, batches: u64) -> Result<(), StoreError> {
    let mut rng = fastrand::Rng::with_seed(writer);
    for batch in 0..batches {
        let order = |n| NewOrder {
            order_no: OrderNo::new(activity.clone(), Ulid::from_parts(1 + writer, u128::from(batch * BATCH + n))),
            user: UserId::parse(&format!("user {}", rng.u32(0..600))).unwrap(),
            sku: SkuId::parse(SKUS[rng.usize(0..SKUS.len())]).unwrap(),
            quantity: 1,
            money: Money::new(100, "EUR"),
            created_at: NOW,
            epoch: 1,
            sequence: 0,
            offer: None,
        };
        let batch: Vec<_> = (0..BATCH).map(order).collect();
        match order_changes::insert(sql, activity, &batch.iter().collect::<Vec<_>>(), NOW).await {
            Err(StoreError::LedgerRefused(_)) => {}
            other => {
                other?;
                continue;
            }
        }
        for order in &batch {
            match order_changes::insert(sql, activity, &[order], NOW).await {
                Ok(()) | Err(StoreError::LedgerRefused(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// Returns the live units. Asserts that each SKU's count equals its live orders, and that I2 and I3 hold.
async fn live_units(fixture: &RealFixture) -> i64 {
    let count = async |statement: &str| match fixture.sql.run(statement, Vec::new()).await.unwrap()[0][0] {
        SqlValue::Int(number) => number,
        ref other => panic!("{other:?}"),
    };
    let units = "SELECT CAST(COALESCE(SUM(quantity), 0) AS BIGINT) FROM orders WHERE live = 1";
    let miscounted =
        format!("SELECT COUNT(*) FROM skus WHERE live > total OR live <> ({units} AND orders.sku = skus.sku)");
    assert_eq!(count(&miscounted).await, 0, "I2");
    let orders = "SELECT COUNT(*) FROM orders WHERE orders.sku = c.sku AND orders.status = c.status";
    let miscounted = format!(
        "SELECT COUNT(*) FROM (SELECT sku, status, SUM(orders) AS orders FROM order_counts GROUP BY sku, status) AS c \
         WHERE c.orders <> ({orders})"
    );
    assert_eq!(count(&miscounted).await, 0, "the counters differ from the orders");
    let over_limit = "SELECT COUNT(*) FROM (SELECT 1 FROM orders WHERE live = 1 GROUP BY user_id, sku \
         HAVING SUM(quantity) > 2) AS greedy";
    assert_eq!(count(over_limit).await, 0, "I3");
    count(units).await
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_a_sweeper_and_an_operator_never_deadlock_with_a_writer() {
    let fixture = new_activity().await;
    let [sweeper, operator, writer, payer] = [(); 4].map(|()| open_connection(&fixture));
    let (sweeper, operator, writer, payer) = (sweeper.await, operator.await, writer.await, payer.await);
    let paying = async {
        for n in 0..300 {
            let order_no = OrderNo::new(fixture.activity.clone(), Ulid::from_parts(2, u128::from(n * 6 % 2_000_u64)));
            let callback = report("payment.succeeded", &order_no, &format!("pay {n}"));
            callback_rows::record(&payer, &callback, RecordIf::Always, NOW).await?;
            if n % 2 == 0 {
                callback_rows::request_refund(&payer, &order_no, callback_rows::EVER, NOW).await?;
            }
        }
        Ok::<_, StoreError>(())
    };
    let sweeping = async {
        for _ in 0..300 {
            order_changes::expire(&sweeper, &fixture.activity, Millis(i64::MAX / 2), 7, None).await?;
        }
        Ok::<_, StoreError>(())
    };
    let operating = async {
        for _ in 0..100 {
            let stored = activities::load(&operator, &fixture.activity).await?.expect("a sale");
            activities::save(&operator, &stored, Some(&stored), NOW).await?;
        }
        Ok::<_, StoreError>(())
    };
    let (swept, operated, written, paid) =
        futures::join!(sweeping, operating, write_batches(&writer, &fixture.activity, 1, 100), paying);
    paid.unwrap();
    swept.unwrap();
    operated.unwrap();
    written.unwrap();
    live_units(&fixture).await;
    while !order_changes::expire(&sweeper, &fixture.activity, Millis(i64::MAX / 2), 100, None).await.unwrap().is_empty()
    {
    }
    let paid = fixture.stored().await.live_units;
    assert!(paid.iter().all(|sku| sku.pending == 0), "every unpaid unit came back");
    assert_eq!(live_units(&fixture).await, paid.iter().map(|sku| sku.sold).sum::<i64>());
}
