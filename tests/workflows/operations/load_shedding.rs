//! Tests of load shedding (B9), on both ledgers: the ledger holds the switch, every gate a copy.

use std::cell::Cell;

use domain::http::problem::Code;
use operations::commands::shed;
use stores::{
    Redis, Sql, StoreError,
    keys::ACTIVITIES,
    ports::{RedisArg, RedisValue},
};

use crate::{
    fixture::{Fixture, LEDGERS, RealFixture, new_fixture},
    operations::epochs::{pause, rebuild_activity, resume},
    stores::{RealLedger, RealRedis},
};

/// Redis that lists only one activity and can be made unavailable.
pub struct IsolatedRedis {
    redis: RealRedis,
    activity: String,
    unavailable: Cell<bool>,
}

impl Redis for IsolatedRedis {
    async fn command(&self, name: &str, args: Vec<RedisArg>) -> Result<Vec<RedisValue>, StoreError> {
        if self.unavailable.get() {
            return Err(StoreError::RedisUnavailable("away".to_owned()));
        }
        if name == "SMEMBERS" {
            let known = self.redis.command("SISMEMBER", vec![ACTIVITIES.into(), self.activity.as_str().into()]).await?;
            return Ok(if known == [RedisValue::Int(1)] {
                vec![RedisValue::Bytes(self.activity.clone().into_bytes())]
            } else {
                vec![]
            });
        }
        self.redis.command(name, args).await
    }
}

/// Hides the other tests' activities from the fixture.
pub fn isolated(fixture: Fixture<RealRedis, RealLedger>) -> Fixture<IsolatedRedis, RealLedger> {
    let activity = fixture.activity.to_string();
    fixture.map_stores(|redis, sql| (IsolatedRedis { redis, activity, unavailable: Cell::new(false) }, sql))
}

/// Undoes [`isolated`].
fn shared(fixture: Fixture<IsolatedRedis, RealLedger>) -> RealFixture {
    fixture.map_stores(|redis, sql| (redis.redis, sql))
}

async fn is_shed<R: Redis, S: Sql>(fixture: &Fixture<R, S>, n: u64) -> bool {
    match fixture.refusal(n, &format!("user {n}"), 1).await {
        Some(Code::Overloaded) => true,
        None => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn load_shedding_survives_a_rebuild_and_applies_to_activities_published_later() {
    for ledger in LEDGERS {
        let fixture = isolated(new_fixture(ledger, 5, 1).await);
        assert_eq!(shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(), 1, "{ledger}");
        assert!(is_shed(&fixture, 1).await, "{ledger}");
        let fixture = shared(fixture);
        pause(&fixture).await;
        rebuild_activity(&fixture).await;
        resume(&fixture).await;
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off after a rebuild");
        fixture.delete_redis_keys().await;
        resume(&fixture).await;
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off after Redis lost its data");

        let mut fixture = fixture;
        fixture.publish_second_activity().await;
        let fixture = isolated(fixture);
        assert!(is_shed(&fixture, 1).await, "{ledger}: shedding is off for an activity published during shedding");

        assert_eq!(shed::set(&fixture.redis, &fixture.sql, false).await.unwrap(), 1, "{ledger}");
        assert!(!is_shed(&fixture, 1).await, "{ledger}");
        let fixture = shared(fixture);
        fixture.write_batch().await.unwrap();
        pause(&fixture).await;
        rebuild_activity(&fixture).await;
        resume(&fixture).await;
        assert!(!is_shed(&fixture, 2).await, "{ledger}: requests are shed after shedding was turned off");
    }
}

#[tokio::test]
async fn load_shedding_creates_no_gate() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 5, 1).await;
        fixture.delete_redis_keys().await;
        let fixture = isolated(fixture);
        assert_eq!(
            shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(),
            0,
            "{ledger}: a gate was changed although none exists"
        );
        let gate = fixture.key("gate");
        assert_eq!(fixture.run_redis(&["EXISTS", &gate]).await, [RedisValue::Int(0)], "{ledger}");
    }
}

#[tokio::test]
async fn load_shedding_reports_an_unavailable_store_and_can_be_repeated() {
    for ledger in LEDGERS {
        let fixture = isolated(new_fixture(ledger, 5, 1).await);
        fixture.redis.unavailable.set(true);
        assert!(
            matches!(shed::set(&fixture.redis, &fixture.sql, true).await, Err(StoreError::RedisUnavailable(_))),
            "{ledger}"
        );
        fixture.redis.unavailable.set(false);
        assert_eq!(shed::set(&fixture.redis, &fixture.sql, true).await.unwrap(), 1, "{ledger}");
        assert!(is_shed(&fixture, 1).await, "{ledger}");
        // The gates are updated even if the ledger cannot store the switch.
        fixture.sql.run("DROP TABLE switches", vec![]).await.unwrap();
        assert!(shed::set(&fixture.redis, &fixture.sql, false).await.is_err(), "{ledger}");
        assert!(!is_shed(&fixture, 1).await, "{ledger}");
    }
}
