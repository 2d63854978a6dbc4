//! Tests that an activity leaves nothing in Redis after its keys expired, and is listed until then.

use operations::upkeep::{passes, report::Report};
use orders::order_writer::{self, DrainBudget};
use sale::ledger::activities::{self, IN_REDIS_MS};
use stores::{
    Sql,
    keys::Keys,
    ports::{RedisValue, SqlValue},
};

use crate::fixture::{LEDGERS, NOW, RealFixture, new_fixture};

async fn remaining_keys(fixture: &RealFixture) -> Vec<RedisValue> {
    let pattern = format!("{}*", Keys::of(&fixture.activity).prefix());
    fixture.run_redis(&["KEYS", &pattern]).await
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
async fn an_activity_is_listed_as_long_as_redis_may_have_its_keys() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 2, 1).await;
        let is_listed_after = async |ms: i64| {
            let listed = activities::list_in_redis(&fixture.sql, NOW.plus(ms)).await.unwrap();
            listed == [fixture.activity.clone()]
        };
        let set = async |column: &str, value: SqlValue| {
            let change = format!("UPDATE activities SET {column} = ?1");
            fixture.sql.run(&change, vec![value]).await.unwrap();
        };
        assert!(is_listed_after(IN_REDIS_MS).await, "{ledger}: it is not over");
        set("ends_at", NOW.0.into()).await;
        assert!(is_listed_after(IN_REDIS_MS - 1).await, "{ledger}: it is just over");
        assert!(!is_listed_after(IN_REDIS_MS).await, "{ledger}");
        set("updated_at", NOW.plus(1).0.into()).await;
        assert!(is_listed_after(IN_REDIS_MS).await, "{ledger}: it was changed later");
        for state in ["draft", "erasing"] {
            set("state", state.into()).await;
            assert!(!is_listed_after(0).await, "{ledger}: {state}");
        }
    }
}
