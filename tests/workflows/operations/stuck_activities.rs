//! Tests of sweeps while a store fails on one activity (G3, E3): the others go on.

use std::{collections::BTreeSet, time::Duration};

use domain::{ids::ActivityId, order::OrderStatus, webhook::ProviderCallback};
use operations::upkeep::{passes, report::Report};
use orders::ledger::order_rows;
use payments::{
    callbacks,
    ledger::callback_rows::{self, RecordIf},
};
use stores::{Sql, ledger::leases, ports::SqlValue};

use crate::{
    fixture::{LEDGERS, NOW, check_gates, new_fixture},
    stores::{RealLedger, failing},
};

/// A ledger that is unavailable for the statements about one activity, as with a lock on its rows. The rows of its callbacks
/// are not locked.
fn locked_for<'a>(sql: &'a RealLedger, activity: &ActivityId) -> impl Sql + 'a {
    let (id, order_prefix) = (activity.to_string(), format!("{activity}."));
    failing(sql, move |statement, params| {
        let about =
            |param: &SqlValue| matches!(param, SqlValue::Text(text) if *text == id || text.contains(&order_prefix));
        let is_of_sweeper = statement.contains("leases SET") || statement.contains("next_try_at");
        !is_of_sweeper && params.iter().any(about)
    })
}

#[tokio::test]
async fn an_activity_that_a_store_fails_on_is_reported_and_delays_no_other() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 3, 3).await;
        let due = fixture.pending_order(1, "ada", 1).await;
        let stuck = fixture.publish_another(|_| {}).await;
        let other_due = fixture.pending_order(1, "bob", 1).await;
        fixture.reserve(2, "cyd", 1).await.unwrap();
        let locked = locked_for(&fixture.sql, &stuck);
        let later = NOW.plus(3_600_000);
        let mut lease = leases::acquire(&fixture.sql, passes::LEASE, "a", later, 1_000).await.unwrap().expect("free");
        let mut report = Report::default();
        let listed = [stuck.clone(), fixture.activity.clone()];
        let with_messages = check_gates(&fixture.redis, &locked, &listed, later, &mut report).await;
        assert_eq!(with_messages, BTreeSet::from([fixture.activity.clone()]), "{ledger}");
        let time: (&dyn Fn() -> Duration, _) = (&|| Duration::ZERO, Duration::from_secs(60));
        passes::work_in_passes(&fixture.redis, &locked, &mut lease, &with_messages, later, time, &mut report)
            .await
            .unwrap();
        assert_eq!(report.stuck, BTreeSet::from([stuck.clone()]), "{ledger}");
        assert_eq!((report.expired, report.written), (1, 1), "{ledger}");
        assert_eq!(fixture.ledger_status(&other_due).await, Some(OrderStatus::Expired), "{ledger}");
        assert_eq!(fixture.ledger_status(&due).await, Some(OrderStatus::PendingPayment), "{ledger}");
        // The next sweep, with an available ledger, finishes it.
        let mut report = Report::default();
        passes::work_in_passes(&fixture.redis, &fixture.sql, &mut lease, &with_messages, later, time, &mut report)
            .await
            .unwrap();
        assert_eq!(fixture.ledger_status(&due).await, Some(OrderStatus::Expired), "{ledger}");
    }
}

#[tokio::test]
async fn a_callback_that_a_store_fails_on_delays_no_other_activity() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 3, 3).await;
        let [stuck_order, stuck_too] =
            [fixture.pending_order(1, "ada", 1).await, fixture.pending_order(2, "ada", 1).await];
        let stuck = fixture.publish_another(|_| {}).await;
        let other = fixture.pending_order(1, "bob", 1).await;
        for (order_no, at) in [(&stuck_order, 0), (&stuck_too, 1), (&other, 2)] {
            fixture.record_payment(order_no, NOW.plus(at)).await;
        }
        let locked = locked_for(&fixture.sql, &stuck);
        let (later, none) = (NOW.plus(60_000), BTreeSet::new());
        let round = callbacks::apply_pending(&fixture.redis, &locked, later, 10, &none).await.unwrap();
        assert_eq!(round.applied, 1, "{ledger}");
        let failed_on: Vec<_> = round.failures.into_iter().map(|(_, activity, _)| activity).collect();
        assert_eq!(failed_on, [Some(stuck)], "{ledger}");
        assert_eq!(fixture.ledger_status(&other).await, Some(OrderStatus::Paid), "{ledger}");
        // The callback that was not tried is due in the next sweep, the one that failed waits.
        let round = callbacks::apply_pending(&fixture.redis, &fixture.sql, later, 10, &none).await.unwrap();
        assert_eq!(round.applied, 0, "{ledger}: in the same sweep");
        callbacks::apply_pending(&fixture.redis, &fixture.sql, later.plus(1), 10, &none).await.unwrap();
        assert_eq!(fixture.ledger_status(&stuck_too).await, Some(OrderStatus::Paid), "{ledger}");
        assert_eq!(fixture.ledger_status(&stuck_order).await, Some(OrderStatus::PendingPayment), "{ledger}");
    }
}

/// A refund made at the provider failed, whose payment is looked for among all orders.
#[tokio::test]
async fn a_callback_without_an_order_that_the_ledger_fails_on_delays_no_other() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 3, 3).await;
        let stuck = fixture.publish_another(|_| {}).await;
        let other = fixture.pending_order(1, "bob", 1).await;
        let failed = ProviderCallback {
            id: "failed".to_owned(),
            kind: "refund.failed".to_owned(),
            payment_id: format!("{stuck}."),
            ..ProviderCallback::default()
        };
        callback_rows::record(&fixture.sql, &failed, RecordIf::Always, NOW).await.unwrap();
        fixture.record_payment(&other, NOW.plus(1)).await;
        let (locked, later) = (locked_for(&fixture.sql, &stuck), NOW.plus(60_000));
        let round = callbacks::apply_pending(&fixture.redis, &locked, later, 10, &BTreeSet::new()).await.unwrap();
        assert_eq!(round.applied, 1, "{ledger}");
        let failed: Vec<_> = round.failures.iter().map(|(id, activity, _)| (id.as_str(), activity)).collect();
        assert_eq!(failed, [("failed", &None)], "{ledger}");
        assert_eq!(fixture.ledger_status(&other).await, Some(OrderStatus::Paid), "{ledger}");
    }
}

#[tokio::test]
async fn the_time_to_pay_starts_when_a_sweep_writes_the_order_not_when_the_sweep_starts() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        let written_at_once = fixture.pending_order(1, "ada", 1).await;
        fixture.reserve(2, "bob", 1).await.unwrap();
        let mut lease = leases::acquire(&fixture.sql, passes::LEASE, "a", NOW, 60_000).await.unwrap().expect("free");
        let queued = BTreeSet::from([fixture.activity.clone()]);
        let time: (&dyn Fn() -> Duration, _) = (&|| Duration::from_secs(5), Duration::from_secs(60));
        passes::work_in_passes(&fixture.redis, &fixture.sql, &mut lease, &queued, NOW, time, &mut Report::default())
            .await
            .unwrap();
        let pay_by = async |order_no| {
            let row = order_rows::load(&fixture.sql, order_no).await.unwrap().expect("a written order");
            row.order.pay_by.expect("a deadline")
        };
        let later = pay_by(&fixture.order_no(2)).await.0 - pay_by(&written_at_once).await.0;
        assert!(later >= 5_000, "{ledger}: {later} ms later");
    }
}
