//! Tests of the paged list of dead letters (D4, I4): unreplayed ones come first, and every one is listed.

use domain::time::Millis;
use orders::dead_letters;
use stores::Sql;

use crate::fixture::{LEDGERS, NOW, RealFixture, new_fixture};

async fn page(fixture: &RealFixture, before: &str, limit: i64) -> Vec<String> {
    let page = dead_letters::list(&fixture.sql, before, limit).await.unwrap();
    page.into_iter().map(|letter| letter.order_no).collect()
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

        let first = page(&fixture, "", 200).await;
        assert_eq!(first[0], format!("{}.009-0", fixture.activity), "{ledger}: the newest");
        assert!(first.iter().skip(1).all(|name| !name.ends_with("9-0")), "{ledger}: a requeued one comes too early");
        let second = page(&fixture, first.last().unwrap(), 200).await;
        assert_eq!((first.len(), second.len()), (200, 50), "{ledger}");
        assert!(second.iter().rev().take(24).all(|name| name.ends_with("9-0")), "{ledger}");
        let mut all: Vec<_> = first.into_iter().chain(second).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 250, "{ledger}: the pages do not list each dead letter once");

        let (mut before, mut paged) = (String::new(), Vec::new());
        loop {
            let page = page(&fixture, &before, 7).await;
            let Some(last) = page.last() else { break };
            before = last.clone();
            paged.extend(page);
        }
        assert_eq!(paged.len(), 250, "{ledger}: small pages do not list all dead letters");
        assert_eq!(page(&fixture, "nobody.1-0", 200).await, Vec::<String>::new(), "{ledger}: nothing after the cursor");
    }
}
