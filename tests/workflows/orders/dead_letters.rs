//! Tests of the paged list of dead letters (D4, I4): unreplayed ones come first, and every one is listed.

use domain::time::Millis;
use orders::dead_letters::{self, Cursor, DeadLetter};
use stores::Sql;

use crate::fixture::{LEDGERS, NOW, RealFixture, new_fixture};

async fn page(fixture: &RealFixture, before: Option<&DeadLetter>, limit: i64) -> Vec<DeadLetter> {
    // As in the URL of the next page.
    let before = before.map(|letter| Cursor::parse(&Cursor::of(letter).to_string()).unwrap());
    dead_letters::list(&fixture.sql, before, limit).await.unwrap()
}

#[tokio::test]
async fn every_dead_letter_is_listed_and_unreplayed_ones_come_first() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        for n in 0..250 {
            // Two in each millisecond, all unreadable: their ids are not order numbers.
            let letter = (format!("{}.{n:03}-0", fixture.activity), "nonsense".to_owned(), "unreadable");
            dead_letters::record(&fixture.sql, &[letter], NOW.plus(n / 2)).await.unwrap();
        }
        let put_back = format!("UPDATE dead_letters SET replayed_at = {} WHERE order_no LIKE '%9-0'", NOW.0 + 1_000);
        fixture.sql.run(&put_back, vec![]).await.unwrap();
        // One of the requeued letters becomes a dead letter again.
        let again = (format!("{}.009-0", fixture.activity), "nonsense".to_owned(), "unreadable");
        dead_letters::record(&fixture.sql, &[again], Millis(NOW.0 + 2_000)).await.unwrap();

        let ends_with_9 = |letter: &DeadLetter| letter.order_no.ends_with("9-0");
        let first = page(&fixture, None, 200).await;
        assert_eq!(first[0].order_no, format!("{}.009-0", fixture.activity), "{ledger}: the newest");
        assert!(!first.iter().skip(1).any(ends_with_9), "{ledger}: a requeued one comes too early");
        let second = page(&fixture, first.last(), 200).await;
        assert_eq!((first.len(), second.len()), (200, 50), "{ledger}");
        assert!(second.iter().rev().take(24).all(ends_with_9), "{ledger}");
        let mut all: Vec<_> = first.into_iter().chain(second).map(|letter| letter.order_no).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 250, "{ledger}: the pages do not list each dead letter once");

        // An operator puts the last of each page back before the next one.
        let mut paged: Vec<DeadLetter> = Vec::new();
        loop {
            let page = page(&fixture, paged.last(), 7).await;
            let Some(last) = page.last() else { break };
            let put_back = format!("UPDATE dead_letters SET replayed_at = {} WHERE order_no = ?1", NOW.0 + 3_000);
            fixture.sql.run(&put_back, vec![last.order_no.as_str().into()]).await.unwrap();
            paged.extend(page);
        }
        paged.sort_unstable_by(|a, b| a.order_no.cmp(&b.order_no));
        paged.dedup_by(|a, b| a.order_no == b.order_no);
        assert_eq!(paged.len(), 250, "{ledger}: small pages do not list all dead letters");
    }
}

#[tokio::test]
async fn a_dismissed_letter_waits_for_nobody_until_it_fails_again() {
    for ledger in LEDGERS {
        let fixture = new_fixture(ledger, 1, 1).await;
        let id = format!("{}.1-0", fixture.activity);
        let fail = async |at| {
            dead_letters::record(&fixture.sql, &[(id.clone(), "nonsense".to_owned(), "unreadable")], at).await.unwrap();
        };
        let dismiss = async || dead_letters::dismiss(&fixture.sql, &id).await.unwrap();
        assert!(!dismiss().await, "{ledger}: there is none");
        for at in [NOW, Millis(i64::from(i32::MAX) * 1_000)] {
            fail(at).await;
            assert!(dismiss().await, "{ledger}, also with a clock that was ahead");
            assert!(!dismiss().await, "{ledger}: it is dismissed");
            let letter = page(&fixture, None, 10).await.remove(0);
            assert!(letter.replayed_at >= letter.died_at, "{ledger}: {letter:?}");
        }
    }
}
