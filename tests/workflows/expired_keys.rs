//! What a sale leaves in Redis when its keys have run out: nothing (F3).

use domain::{activity::State, time::Millis};
use workflows::{
    Redis, Sql,
    keys::{ACTIVITIES, Keys},
    ledger::activities,
    ports::Item,
    queue::order_writer,
    recovery::sweep,
};

use crate::{
    epochs::lose_redis,
    fixture::{LEDGERS, NOW, World, world},
    load_shedding::alone,
};

/// After the end of every test's sale.
const LONG_AFTER: Millis = Millis(4_000_000_000_001);

impl<R: Redis, S: Sql> World<R, S> {
    async fn keys_left(&self) -> Vec<Item> {
        let pattern = format!("{}*", Keys::of(&self.activity).prefix());
        self.redis.command("KEYS", vec![pattern.into()]).await.unwrap()
    }

    async fn is_listed(&self) -> bool {
        let args = vec![ACTIVITIES.into(), self.activity.as_str().into()];
        self.redis.command("SISMEMBER", args).await.unwrap() == [Item::Int(1)]
    }
}

#[tokio::test]
async fn a_sale_whose_keys_ran_out_gets_none_back_from_those_who_look_for_its_orders() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        lose_redis(&world).await;
        let mut report = sweep::Report::default();
        sweep::drain(&world.redis, &world.sql, &world.activity, NOW, &mut report).await.unwrap();
        order_writer::turn(&world.redis, &world.sql, &world.activity, NOW, 2).await.unwrap();
        assert_eq!(world.keys_left().await, [], "{ledger}");
    }
}

#[tokio::test]
async fn orders_of_a_stream_that_lost_its_group_are_written() {
    for ledger in LEDGERS {
        let world = world(ledger, 2, 1).await;
        let stream = Keys::of(&world.activity).named("orders");
        world.redis.command("DEL", vec![stream.into()]).await.unwrap();
        assert_eq!(world.write().await.unwrap().taken, 0, "{ledger}");
        world.reserve(1, "ada", 1).await.unwrap();
        world.recover().await;
        assert_eq!(world.units().await, (1, 1, 0), "{ledger}");
    }
}

#[tokio::test]
async fn a_sale_that_is_over_leaves_the_list_with_its_last_key_and_no_other_does() {
    for ledger in LEDGERS {
        let world = alone(world(ledger, 2, 1).await);
        let forget = async |now| sweep::forget_ended(&world.redis, &world.sql, now).await.unwrap();
        assert_eq!((forget(LONG_AFTER).await, world.is_listed().await), (0, true), "{ledger}: it has a gate");
        world.reserve(1, "ada", 1).await.unwrap();
        let gate = Keys::of(&world.activity).named("gate");
        world.redis.command("DEL", vec![gate.into()]).await.unwrap();
        assert_eq!((forget(LONG_AFTER).await, world.is_listed().await), (0, true), "{ledger}: an order is queued");
        world.write().await.unwrap();
        assert_eq!((forget(NOW).await, world.is_listed().await), (0, true), "{ledger}: it is not over");
        assert_eq!((forget(LONG_AFTER).await, world.is_listed().await), (1, false), "{ledger}");
        // Whoever publishes it again has it listed again.
        let spec = activities::load(&world.sql, &world.activity).await.unwrap().unwrap();
        assert_eq!(spec.state, State::Published);
        world.desk().set_state(&world.activity, State::Published).await.unwrap();
        assert!(world.is_listed().await, "{ledger}");
    }
}
