//! Tests that an activity leaves nothing in Redis after its keys expired.

use domain::{activity::ActivityState, time::Millis};
use operations::upkeep::{gates, passes, report::Report};
use orders::order_writer::{self, DrainBudget};
use stores::{
    Redis, Sql,
    keys::{ACTIVITIES, Keys},
    ports::RedisValue,
};

use crate::{
    fixture::{Fixture, LEDGERS, NOW, RealFixture, new_fixture},
    operations::load_shedding::isolated,
};

/// One millisecond after every test activity ends.
const AFTER_END: Millis = Millis(4_000_000_000_001);

async fn remaining_keys(fixture: &RealFixture) -> Vec<RedisValue> {
    let pattern = format!("{}*", Keys::of(&fixture.activity).prefix());
    fixture.run_redis(&["KEYS", &pattern]).await
}

async fn is_listed<R: Redis, S: Sql>(fixture: &Fixture<R, S>) -> bool {
    fixture.run_redis(&["SISMEMBER", ACTIVITIES, fixture.activity.as_str()]).await == [RedisValue::Int(1)]
}

#[tokio::test]
async fn draining_an_activity_whose_keys_expired_creates_no_keys() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.delete_redis_keys().await;
        let mut report = Report::default();
        passes::drain(&fixture.redis, &fixture.sql, &fixture.activity, NOW, &mut report).await.unwrap();
        order_writer::drain(&fixture.redis, &fixture.sql, &fixture.activity, NOW, DrainBudget::DOORBELL, async || ())
            .await
            .unwrap();
        assert_eq!(remaining_keys(&fixture).await, [], "{ledger}");
    }
}

#[tokio::test]
async fn orders_of_a_stream_that_lost_its_group_are_written() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        fixture.run_redis(&["DEL", &fixture.key("orders")]).await;
        assert_eq!(fixture.write_batch().await.unwrap().messages, 0, "{ledger}");
        fixture.reserve(1, "ada", 1).await.unwrap();
        fixture.recover().await;
        assert_eq!(fixture.units().await, (1, 1, 0), "{ledger}");
    }
}

#[tokio::test]
async fn an_activity_is_unlisted_only_after_it_ended_and_its_keys_expired() {
    for ledger in LEDGERS {
        let fixture = isolated(new_fixture(ledger, 2, 1).await);
        let unlist_ended = async |now| {
            let mut report = Report::default();
            gates::unlist_ended(&fixture.redis, &fixture.sql, now, &mut report).await.unwrap()
        };
        assert_eq!((unlist_ended(AFTER_END).await, is_listed(&fixture).await), (0, true), "{ledger}: it has a gate");
        fixture.reserve(1, "ada", 1).await.unwrap();
        let gate = fixture.key("gate");
        fixture.run_redis(&["DEL", &gate]).await;
        assert_eq!(
            (unlist_ended(AFTER_END).await, is_listed(&fixture).await),
            (0, true),
            "{ledger}: an order is queued"
        );
        fixture.write_batch().await.unwrap();
        assert_eq!((unlist_ended(NOW).await, is_listed(&fixture).await), (0, true), "{ledger}: it is not over");
        assert_eq!((unlist_ended(AFTER_END).await, is_listed(&fixture).await), (1, false), "{ledger}");
        // Publishing the activity again lists it again.
        let activity = fixture.stored().await;
        assert_eq!(activity.state, ActivityState::Published);
        fixture.set_state(ActivityState::Published).await;
        assert!(is_listed(&fixture).await, "{ledger}");
    }
}
