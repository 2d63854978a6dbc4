//! Presale codes on both ledgers (B7): a code belongs to the first users who got a ticket with it.

use domain::{ids::UserId, presale::PresaleCode};
use futures::future::join_all;
use sale::ledger::presale::{add, claim, has_code, list_csv, remove};
use stores::Sql;

use crate::fixture::{LEDGERS, RealFixture, new_fixture, open_connection};

fn code(text: &str) -> PresaleCode {
    PresaleCode::parse(text).unwrap()
}

async fn gets(fixture: &RealFixture, sql: &impl Sql, text: &str, user: &str) -> bool {
    claim(sql, &fixture.activity, &code(text), &UserId::parse(user).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_code_belongs_to_its_first_users_who_keep_it() {
    for ledger in LEDGERS {
        let (fixture, other) = (new_fixture(ledger, 5, 1).await, new_fixture(ledger, 5, 1).await);
        let sql = &fixture.sql;
        assert_eq!(add(sql, &fixture.activity, &[code("PAIR-01"), code("ONE-001")], 2).await.unwrap(), Some(2));
        // A second upload changes nothing of what is there.
        assert_eq!(add(sql, &fixture.activity, &[code("PAIR-01"), code("LONELY")], 1).await.unwrap(), Some(1));
        assert_eq!(add(sql, &fixture.activity, &[code("LONELY")], 1).await.unwrap(), Some(0));
        for (text, user, expected) in [
            ("PAIR-02", "ada", false),
            ("PAIR-01", "ada", true),
            ("PAIR-01", "ada", true),
            ("PAIR-01", "ben", true),
            ("PAIR-01", "eve", false),
            ("PAIR-01", "ada", true),
            ("LONELY", "fay", true),
            ("LONELY", "guy", false),
        ] {
            assert_eq!(gets(&fixture, sql, text, user).await, expected, "{ledger}: {text} {user}");
        }
        assert!(!gets(&other, &other.sql, "PAIR-01", "ada").await, "{ledger}: of another activity");
        let csv = list_csv(sql, &fixture.activity).await.unwrap();
        assert_eq!(csv, "code,max_users,users\r\nLONELY,1,1\r\nONE001,2,0\r\nPAIR01,2,2\r\n", "{ledger}");
        for (text, is_there) in [("PAIR-01", true), ("PAIR-01", false), ("ONE-001", true)] {
            assert_eq!(remove(sql, &fixture.activity, &code(text)).await.unwrap(), is_there, "{ledger}: {text}");
        }
        for (user, has) in [("ada", false), ("fay", true)] {
            let user = UserId::parse(user).unwrap();
            assert_eq!(has_code(sql, &fixture.activity, &user).await.unwrap(), has, "{ledger}: {user:?}");
        }
        assert!(!gets(&fixture, sql, "PAIR-01", "ada").await, "{ledger}");
    }
}

#[tokio::test]
async fn of_users_at_once_no_more_get_a_code_than_it_has_room_for() {
    let fixture = new_fixture("postgres", 5, 1).await;
    add(&fixture.sql, &fixture.activity, &[code("TWOONLY")], 2).await.unwrap();
    let connections = join_all((0..6).map(|_| open_connection(&fixture))).await;
    // Each user asks twice at once, as two tabs do.
    let claims = connections.iter().enumerate().map(|(n, sql)| {
        let fixture = &fixture;
        async move { (n / 2, gets(fixture, sql, "TWOONLY", &format!("user {}", n / 2)).await) }
    });
    let claims = join_all(claims).await;
    let got = |user| claims.iter().filter(|claim| **claim == (user, true)).count();
    let mut counts = [got(0), got(1), got(2)];
    counts.sort_unstable();
    assert_eq!(counts, [0, 2, 2], "{claims:?}");
    let csv = list_csv(&fixture.sql, &fixture.activity).await.unwrap();
    assert!(csv.ends_with("TWOONLY,2,2\r\n"), "{csv}");
}
