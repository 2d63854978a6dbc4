//! Leases (G3): one sweeper at a time, and one that lost its lease does no harm.

use futures::future::join_all;
use workflows::{ledger::leases, recovery::sweep};

use crate::fixture::{LEDGERS, NOW, world};

#[tokio::test]
async fn of_twenty_sweepers_at_once_one_works() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let owners: Vec<_> = (0..20).map(|n| format!("owner {n}")).collect();
        let takes = owners.iter().map(|owner| leases::take(&world.sql, "twenty", owner, NOW, 1_000));
        let taken: Vec<_> = join_all(takes).await.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(taken.len(), 1, "{ledger}");
        assert_eq!(taken[0].token, 1, "{ledger}");
    }
}

#[tokio::test]
async fn a_lease_passes_on_with_its_cursor_and_a_higher_token() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let take =
            async |owner, after_ms| leases::take(&world.sql, "cursor", owner, NOW.plus(after_ms), 1_000).await.unwrap();
        let mut first = take("a", 0).await.expect("free");
        assert_eq!(take("b", 500).await, None, "{ledger}");
        first.resume_after = "sale-7".to_owned();
        assert!(leases::keep(&world.sql, &first, NOW.plus(2_000)).await.unwrap(), "{ledger}");
        assert_eq!(take("b", 1_500).await, None, "{ledger}: it was kept");
        let second = take("b", 2_000).await.expect("run out");
        assert_eq!((second.token, second.resume_after.as_str()), (2, "sale-7"), "{ledger}");
        assert!(!leases::keep(&world.sql, &first, NOW.plus(9_000)).await.unwrap(), "{ledger}: it is another's");
        assert!(leases::keep(&world.sql, &second, domain::time::Millis(0)).await.unwrap(), "{ledger}");
        assert_eq!(take("c", 2_001).await.expect("given up").token, 3, "{ledger}");
    }
}

#[tokio::test]
async fn a_lease_from_a_clock_that_was_wrong_counts_for_nothing() {
    for ledger in LEDGERS {
        let world = world(ledger, 1, 1).await;
        let ahead = leases::take(&world.sql, "clock", "a", NOW.plus(3_600_000), 1_000).await.unwrap();
        assert!(ahead.is_some(), "{ledger}");
        assert!(leases::take(&world.sql, "clock", "b", NOW, 1_000).await.unwrap().is_some(), "{ledger}");
    }
}

#[tokio::test]
async fn a_sweeper_whose_lease_was_lost_expires_nothing() {
    for ledger in LEDGERS {
        let world = world(ledger, 3, 3).await;
        world.order(1, "ada", 3).await;
        let later = NOW.plus(3_600_000);
        let lost = leases::take(&world.sql, sweep::LEASE, "a", NOW, 1_000).await.unwrap().expect("free");
        let held = leases::take(&world.sql, sweep::LEASE, "b", NOW.plus(1_000), 1_000).await.unwrap().expect("run out");
        let expire = async |lease| sweep::expire(&world.redis, &world.sql, later, Some(lease)).await.unwrap();
        assert_eq!(expire(&lost).await, 0, "{ledger}");
        assert_eq!(world.units().await, (0, 3, 0), "{ledger}");
        assert_eq!(expire(&held).await, 1, "{ledger}");
        assert_eq!(world.units().await, (3, 0, 0), "{ledger}");
    }
}

#[test]
fn sales_have_their_turn_after_the_one_that_was_last() {
    let ids = |names: [&str; 3]| names.map(|name| domain::ids::ActivityId::parse(name).unwrap()).to_vec();
    assert_eq!(sweep::in_turn(ids(["c", "a", "b"]), ""), ids(["a", "b", "c"]));
    assert_eq!(sweep::in_turn(ids(["c", "a", "b"]), "b"), ids(["c", "a", "b"]));
    assert_eq!(sweep::in_turn(ids(["c", "a", "b"]), "bb"), ids(["c", "a", "b"]));
    assert_eq!(sweep::in_turn(ids(["c", "a", "b"]), "c"), ids(["a", "b", "c"]));
}
