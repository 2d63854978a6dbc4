//! Shedding load (B9), on both ledgers: the ledger has the switch, every gate a copy.

use std::cell::Cell;

use domain::{activity::State, problem::Code};
use workflows::{
    Redis, Sql, StoreError,
    hot::reserve::Outcome,
    keys::{ACTIVITIES, Keys},
    ledger::activities,
    operator::activities::OperationOutcome,
    ports::{Arg, Item},
};

use crate::{
    epochs::{lose_redis, pause, rebuilt, resume},
    fixture::{LEDGERS, World, world},
    stores::{RealLedger, RealRedis},
};

/// Redis as if this sale were the only one in it; it can be away.
pub struct Alone {
    redis: RealRedis,
    name: String,
    away: Cell<bool>,
}

impl Redis for Alone {
    async fn command(&self, name: &str, args: Vec<Arg>) -> Result<Vec<Item>, StoreError> {
        if self.away.get() {
            return Err(StoreError::RedisUnavailable("away".to_owned()));
        }
        if name == "SMEMBERS" {
            let args = vec![ACTIVITIES.into(), self.name.as_str().into()];
            let known = self.redis.command("SISMEMBER", args).await?;
            return Ok(if known == [Item::Int(1)] {
                vec![Item::Bytes(self.name.clone().into_bytes())]
            } else {
                vec![]
            });
        }
        self.redis.command(name, args).await
    }
}

/// The sale, alone in its Redis.
pub fn alone(world: World<RealRedis, RealLedger>) -> World<Alone, RealLedger> {
    let World { redis, sql, activity, sku, start_key, per_user } = world;
    let redis = Alone { redis, name: activity.to_string(), away: Cell::new(false) };
    World { redis, sql, activity, sku, start_key, per_user }
}

impl World<Alone, RealLedger> {
    /// The same in its own Redis.
    fn in_its_redis(self) -> World<RealRedis, RealLedger> {
        let World { redis, sql, activity, sku, start_key, per_user } = self;
        World { redis: redis.redis, sql, activity, sku, start_key, per_user }
    }
}

async fn sheds<R: Redis, S: Sql>(world: &World<R, S>, n: u64) -> bool {
    match world.reserve(n, &format!("user {n}"), 1).await.unwrap().outcome {
        Outcome::Refused(Code::Overloaded, _) => true,
        Outcome::Queued(_) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn shedding_outlives_a_rebuild_and_meets_sales_that_are_published_later() {
    for ledger in LEDGERS {
        let world = alone(world(ledger, 5, 1).await);
        assert_eq!(world.desk().shed(true).await.unwrap(), 1, "{ledger}");
        assert!(sheds(&world, 1).await, "{ledger}");
        let world = world.in_its_redis();
        pause(&world).await;
        rebuilt(&world).await;
        resume(&world).await;
        assert!(sheds(&world, 1).await, "{ledger}: after a rebuild");
        lose_redis(&world).await;
        resume(&world).await;
        assert!(sheds(&world, 1).await, "{ledger}: after a loss");

        let mut spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap().spec;
        spec.title = "Another".to_owned();
        let activity = domain::ids::ActivityId::parse(&format!("{}-b", world.activity)).unwrap();
        let world = World { activity, ..world };
        assert!(matches!(world.desk().put(&world.activity, spec, None).await.unwrap(), OperationOutcome::Done(_)));
        assert!(matches!(
            world.desk().set_state(&world.activity, State::Published).await.unwrap(),
            OperationOutcome::Done(_)
        ));
        let start_key = domain::gate::start_key(crate::fixture::SECRET, &world.activity, "nonce").unwrap();
        let world = alone(World { start_key, ..world });
        assert!(sheds(&world, 1).await, "{ledger}: a sale that was published meanwhile");

        assert_eq!(world.desk().shed(false).await.unwrap(), 1, "{ledger}");
        assert!(!sheds(&world, 1).await, "{ledger}");
        let world = world.in_its_redis();
        world.write().await.unwrap();
        pause(&world).await;
        rebuilt(&world).await;
        resume(&world).await;
        assert!(!sheds(&world, 2).await, "{ledger}: off is off");
    }
}

#[tokio::test]
async fn shedding_makes_no_gate_where_there_is_none() {
    for ledger in LEDGERS {
        let world = world(ledger, 5, 1).await;
        lose_redis(&world).await;
        let world = alone(world);
        assert_eq!(world.desk().shed(true).await.unwrap(), 0, "{ledger}: nobody was told");
        let gate = Keys::of(&world.activity).named("gate");
        assert_eq!(world.redis.command("EXISTS", vec![gate.into()]).await.unwrap(), [Item::Int(0)], "{ledger}");
    }
}

#[tokio::test]
async fn shedding_while_a_store_is_away_says_so_and_is_asked_again() {
    for ledger in LEDGERS {
        let world = alone(world(ledger, 5, 1).await);
        world.redis.away.set(true);
        assert!(matches!(world.desk().shed(true).await, Err(StoreError::RedisUnavailable(_))), "{ledger}");
        world.redis.away.set(false);
        assert_eq!(world.desk().shed(true).await.unwrap(), 1, "{ledger}");
        assert!(sheds(&world, 1).await, "{ledger}");
        // Gates are told although the ledger cannot keep it.
        world.sql.run("DROP TABLE switches", vec![]).await.unwrap();
        assert!(world.desk().shed(false).await.is_err(), "{ledger}");
        assert!(!sheds(&world, 1).await, "{ledger}");
    }
}
