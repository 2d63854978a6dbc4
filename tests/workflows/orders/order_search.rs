//! Tests of operators' searches and lists of orders (G2).

use domain::{
    ids::{OrderNo, ShortCode, UserId},
    order::OrderStatus,
    time::Millis,
};
use orders::ledger::{
    order_rows,
    order_search::{Position, STATUSES, Search},
};
use stores::Sql;

use crate::fixture::{LEDGERS, NOW, RealFixture, new_fixture};

/// All orders of a search, in pages of `limit`.
async fn paged(fixture: &RealFixture, search: &Search, limit: i64) -> Vec<OrderNo> {
    let (mut found, mut before) = (Vec::new(), None::<Position>);
    loop {
        let page = search.find(&fixture.sql, before.as_ref(), limit).await.unwrap();
        let Some(last) = page.last() else { return found };
        // As the next request has it.
        before = Some(Position::parse(&search.position(last).to_string()).unwrap());
        found.extend(page.into_iter().map(|row| row.order.order_no));
    }
}

#[tokio::test]
async fn every_search_finds_its_orders_once_in_pages_of_any_size() {
    for ledger in LEDGERS {
        let mut fixture = new_fixture(ledger, 30, 30).await;
        let mut orders = Vec::new();
        for n in 0..12 {
            orders.push(fixture.pending_order(n, ["ada", "bob"][n as usize % 2], 1).await);
        }
        for (n, order_no) in orders.iter().enumerate() {
            match n % 4 {
                0 => drop(fixture.payment_succeeded(order_no, "e").await.unwrap()),
                1 => drop(fixture.cancel(order_no).await.unwrap()),
                _ => {}
            }
        }
        // All were written in few statements: many have the same times.
        let change = "UPDATE orders SET updated_at = ?2 WHERE order_no = ?1";
        for order_no in &orders[..4] {
            let params = vec![order_no.to_string().into(), NOW.plus(5).0.into()];
            fixture.sql.run(change, params).await.unwrap();
        }
        let first = fixture.publish_another(|_| {}).await;
        // The same tickets in another sale: orders with the same codes.
        let other = fixture.pending_order(3, "ada", 1).await;
        let ada = UserId::parse("ada").unwrap();
        let code = ShortCode::parse(&orders[3].to_string()[orders[3].to_string().len() - 8..].to_lowercase()).unwrap();
        let of_first = Search { activity: Some(first), ..Search::default() };
        let since = Some(NOW.plus(5));
        let mut searches = vec![
            (of_first.clone(), 12),
            (Search { updated_since: since, ..of_first.clone() }, 4),
            (Search { updated_since: Some(NOW), ..of_first.clone() }, 12),
            (Search { updated_since: Some(NOW.plus(6)), ..of_first.clone() }, 0),
            (Search { updated_since: since, status: Some(OrderStatus::Paid), ..of_first.clone() }, 1),
            (Search { user: Some(ada.clone()), ..Search::default() }, 7),
            (Search { user: Some(ada.clone()), ..of_first.clone() }, 6),
            (Search { user: Some(ada), updated_since: since, ..of_first.clone() }, 2),
            (Search { code: Some(code.clone()), ..Search::default() }, 2),
            (Search { code: Some(code.clone()), ..of_first.clone() }, 1),
            (Search { code: Some(code), status: Some(OrderStatus::Paid), ..Search::default() }, 0),
        ];
        let by_status = [6, 3, 3, 0, 0, 0];
        for (status, number) in STATUSES.into_iter().zip(by_status) {
            searches.push((Search { status: Some(status), ..of_first.clone() }, number));
        }
        for (search, number) in searches {
            let whole = paged(&fixture, &search, 50).await;
            assert_eq!(whole.len(), number, "{ledger}: {search:?}");
            let mut distinct: Vec<_> = whole.iter().map(ToString::to_string).collect();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), number, "{ledger}: {search:?}");
            for limit in [1, 3] {
                assert_eq!(paged(&fixture, &search, limit).await, whole, "{ledger}: {search:?} by {limit}");
            }
        }
        let of_ada = Search { user: Some(UserId::parse("ada").unwrap()), ..Search::default() };
        assert!(paged(&fixture, &of_ada, 9).await.contains(&other), "{ledger}");
        let by_change = Search { updated_since: Some(Millis(1)), ..of_first };
        let rows = by_change.find(&fixture.sql, None, 20).await.unwrap();
        let waiting = rows.iter().take_while(|row| row.order.status == OrderStatus::PendingPayment).count();
        assert_eq!(waiting, 6, "{ledger}: those that wait for payment come first");
        assert!(rows[waiting..].is_sorted_by(|a, b| a.updated_at >= b.updated_at), "{ledger}");
    }
}

#[tokio::test]
async fn the_orders_of_an_activity_are_paged_by_number_whatever_the_collation() {
    for ledger in ["sqlite", "postgres", "postgres in English"] {
        let mut fixture = new_fixture(ledger, 20, 20).await;
        let mut expected = Vec::new();
        for n in 0..6 {
            expected.push(fixture.pending_order(n, "ada", 1).await);
        }
        // Its id begins with the id of the first; English ignores the hyphen when it sorts.
        let first = fixture.publish_another(|_| {}).await;
        for n in 0..6 {
            fixture.pending_order(n, "bob", 1).await;
        }
        let (mut paged, mut after) = (Vec::new(), String::new());
        loop {
            let page = order_rows::load_page(&fixture.sql, &first, &after, 4).await.unwrap();
            let Some(last) = page.last() else { break };
            after = last.order.order_no.to_string();
            paged.extend(page.into_iter().map(|row| row.order.order_no));
        }
        assert_eq!(paged, expected, "{ledger}");
        let (mut paged, mut before) = (Vec::new(), String::new());
        while let Some(row) = order_rows::list_newest(&fixture.sql, &first, &before, 1).await.unwrap().pop() {
            before = row.order.order_no.to_string();
            paged.insert(0, row.order.order_no);
        }
        assert_eq!(paged, expected, "{ledger}");
        let mut newest_first = expected.clone();
        newest_first.sort_by_key(|order_no| std::cmp::Reverse(order_no.ulid()));
        let ada = UserId::parse("ada").unwrap();
        fixture.sql.run("UPDATE orders SET created_at = 1", Vec::new()).await.unwrap();
        let listed = order_rows::list_for_user(&fixture.sql, &ada, None, 20, NOW).await.unwrap();
        assert_eq!(listed.into_iter().map(|order| order.order_no).collect::<Vec<_>>(), newest_first, "{ledger}");
    }
}
