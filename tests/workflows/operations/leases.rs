//! Tests of leases (G3): one sweeper holds the lease, and a sweeper that lost it changes nothing.

use futures::future::join_all;
use operations::upkeep::passes;
use stores::{lease, ledger::leases};

use crate::fixture::{LEDGERS, NOW, new_fixture};

#[tokio::test]
async fn one_of_twenty_concurrent_sweepers_gets_the_lease() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let owners: Vec<_> = (0..20).map(|n| format!("owner {n}")).collect();
        let acquisitions = owners.iter().map(|owner| leases::acquire(&fixture.sql, "twenty", owner, NOW, 1_000));
        let acquired = join_all(acquisitions).await.into_iter().filter_map(Result::unwrap);
        assert_eq!(acquired.map(|lease| lease.token).collect::<Vec<_>>(), [1], "{ledger}");
    }
}

#[tokio::test]
async fn a_lease_passes_on_with_its_cursor_and_a_higher_token() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let acquire = async |owner, after_ms| {
            leases::acquire(&fixture.sql, "cursor", owner, NOW.plus(after_ms), 1_000).await.unwrap()
        };
        let mut first = acquire("a", 0).await.expect("free");
        // The clock of another owner may be behind.
        for after_ms in [500, -5, -60_000] {
            assert_eq!(acquire("b", after_ms).await, None, "{ledger}: after {after_ms} ms");
        }
        first.resume_after = "sale-7".to_owned();
        assert!(leases::renew(&fixture.sql, &first, NOW.plus(2_000)).await.unwrap(), "{ledger}");
        assert_eq!(acquire("b", 1_500).await, None, "{ledger}: a renewed lease was acquired by another owner");
        let second = acquire("b", 2_000).await.expect("run out");
        assert_eq!((second.token, second.resume_after.as_str()), (2, "sale-7"), "{ledger}");
        assert!(!leases::renew(&fixture.sql, &first, NOW.plus(9_000)).await.unwrap(), "{ledger}: of another owner");
        assert!(leases::release(&fixture.sql, &second).await.unwrap(), "{ledger}");
        assert_eq!(acquire("c", 2_001).await.expect("given up").token, 3, "{ledger}");
    }
}

#[tokio::test]
async fn a_sweeper_that_lost_its_lease_expires_nothing() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 3, 3).await;
        fixture.pending_order(1, "ada", 3).await;
        let later = NOW.plus(3_600_000);
        let lost = leases::acquire(&fixture.sql, passes::LEASE, "a", NOW, 1_000).await.unwrap().expect("free");
        let held =
            leases::acquire(&fixture.sql, passes::LEASE, "b", NOW.plus(1_000), 1_000).await.unwrap().expect("run out");
        let expire = async |lease| {
            passes::expire(&fixture.redis, &fixture.sql, &fixture.activity, later, Some(lease)).await.unwrap()
        };
        assert_eq!(expire(&lost).await, 0, "{ledger}");
        assert_eq!(fixture.units().await, (0, 3, 0), "{ledger}");
        assert_eq!(expire(&held).await, 1, "{ledger}");
        assert_eq!(fixture.units().await, (3, 0, 0), "{ledger}");
    }
}

#[test]
fn activities_are_swept_in_turn_after_the_last_one_swept() {
    let ids = |names: [&str; 3]| names.map(|name| domain::ids::ActivityId::parse(name).unwrap()).to_vec();
    assert_eq!(passes::rotate_after(ids(["c", "a", "b"]), ""), ids(["a", "b", "c"]));
    assert_eq!(passes::rotate_after(ids(["c", "a", "b"]), "b"), ids(["c", "a", "b"]));
    assert_eq!(passes::rotate_after(ids(["c", "a", "b"]), "bb"), ids(["c", "a", "b"]));
    assert_eq!(passes::rotate_after(ids(["c", "a", "b"]), "c"), ids(["a", "b", "c"]));
}

#[tokio::test]
async fn a_lease_in_redis_is_its_owners_until_it_is_released() {
    let fixture = new_fixture("sqlite", 1, 1).await;
    let key = format!("stampede:{{{}}}:lease", fixture.activity);
    let hold = async |owner| lease::hold(&fixture.redis, &key, owner, 60_000).await.unwrap();
    assert_eq!([hold("a").await, hold("a").await, hold("b").await], [true, true, false]);
    lease::release(&fixture.redis, &key, "b").await;
    assert!(!hold("b").await, "b released the lease of a");
    lease::release(&fixture.redis, &key, "a").await;
    assert!(hold("b").await);
}
