//! Tests of load shedding (B9), on both ledgers: the ledger holds the switch, every gate a copy.

use domain::http::problem::Code;
use operations::commands::shed;
use stores::{StoreError, ports::RedisValue};

use crate::{
    fixture::{LEDGERS, RealFixture, new_fixture},
    operations::epochs::{rebuild_and_resume, resume},
    orders::order_list::WithoutActivity,
};

async fn is_shed(fixture: &RealFixture, n: u64) -> bool {
    match fixture.refusal(n, &format!("user {n}"), 1).await {
        Some(Code::Overloaded) => true,
        None => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn load_shedding_survives_a_rebuild_and_applies_to_activities_published_later() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 5, 1).await;
        assert_eq!(shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(), 1, "{ledger}");
        assert!(is_shed(&fixture, 1).await, "{ledger}");
        rebuild_and_resume(&fixture).await;
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off after a rebuild");
        fixture.delete_redis_keys().await;
        resume(&fixture).await;
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off after Redis lost its data");

        fixture.publish_another(|_| {}).await;
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off for an activity published during shedding");

        assert_eq!(shed::set(&fixture.redis, &fixture.sql, false).await.unwrap(), 2, "{ledger}");
        assert!(!is_shed(&fixture, 1).await, "{ledger}");
        fixture.write_batch().await.unwrap();
        rebuild_and_resume(&fixture).await;
        assert!(!is_shed(&fixture, 2).await, "{ledger}: requests are shed after shedding was turned off");
    }
}

#[tokio::test]
async fn load_shedding_creates_no_gate() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        fixture.delete_redis_keys().await;
        assert_eq!(shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(), 0, "{ledger}: there is no gate");
        let gate = fixture.key("gate");
        assert_eq!(fixture.run_redis(&["EXISTS", &gate]).await, [RedisValue::Int(0)], "{ledger}");
    }
}

#[tokio::test]
async fn load_shedding_reports_an_unavailable_redis_which_keeps_it_from_no_other_activity_and_can_be_repeated() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 5, 1).await;
        let away = fixture.publish_another(|_| {}).await;
        let redis = WithoutActivity(&fixture.redis, &away);
        let set = shed::set(&redis, &fixture.sql, true).await;
        assert!(matches!(set, Err(StoreError::RedisUnavailable(_))), "{ledger}: {set:?}");
        assert!(is_shed(&fixture, 1).await, "{ledger}");
        assert_eq!(shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(), 2, "{ledger}");
    }
}
