//! Sales for the tests of the verdict.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{Confirmation, Interval, LastSeen, Observations, ObservedOrder, line::Wait};
use crate::{
    simulation::plan::Intent,
    wire::{LedgerStock, OrderStatus, SkuAudit, SkuStock},
};

/// A correct sale of SKU `a` with 10 units: three orders with five units in total, of which one is paid, one cancelled
/// and one expired. The baseline of the verdict's tests.
pub fn correct_sale() -> Observations {
    let order = |n: u32, quantity, intent, payment, cancellation, status| ObservedOrder {
        live_intervals: vec![Interval { from: Duration::from_secs(1), until: Duration::from_secs(2) }],
        safe_until: Duration::from_secs(2),
        intent,
        payment,
        cancellation,
        end: LastSeen::Status(status),
        ..ObservedOrder::new(format!("s.{n}"), format!("user-{n}"), "a".to_owned(), quantity, Duration::ZERO)
    };
    let stock =
        |left, held, sold| SkuStock { sku: "a".to_owned(), total: 10, left, held, sold, waiting: 0, to_offer: 0 };
    Observations {
        per_user: 2,
        totals: BTreeMap::from([("a".to_owned(), 10)]),
        orders: vec![
            order(1, 2, Intent::Pay, Confirmation::Yes, Confirmation::No, OrderStatus::Paid),
            order(2, 1, Intent::Cancel, Confirmation::No, Confirmation::Yes, OrderStatus::Cancelled),
            order(3, 2, Intent::Leave, Confirmation::No, Confirmation::No, OrderStatus::Expired),
        ],
        orders_by_ticket: vec![
            vec!["s.1".to_owned(), "s.1".to_owned()],
            vec!["s.2".to_owned()],
            vec!["s.3".to_owned()],
        ],
        stock_samples: vec![stock(10, 0, 0), stock(5, 5, 0), stock(8, 0, 2)],
        final_stock: Some(vec![stock(8, 0, 2)]),
        orders_by_status: Some(BTreeMap::from([
            ("paid".to_owned(), 1),
            ("cancelled".to_owned(), 1),
            ("expired".to_owned(), 1),
        ])),
        audit: Some(vec![SkuAudit {
            redis: stock(8, 0, 2),
            ledger: Some(LedgerStock { live: 2, counted: 2, most_per_user: 2 }),
            drift: 0,
        }]),
        dead_letters: Some(BTreeSet::new()),
        ..Observations::default()
    }
}

/// The correct sale and a line: `s.4` and `s.5` were offered a unit and paid, `s.6` left, `s.7` waited until the end.
pub fn sale_with_line() -> Observations {
    let mut sale = correct_sale();
    let second = Duration::from_secs;
    for (n, intent, offered_at, end, reason) in [
        (4, Intent::Pay, Some(27), OrderStatus::Paid, None),
        (5, Intent::Pay, Some(29), OrderStatus::Paid, None),
        (6, Intent::Leave, None, OrderStatus::Cancelled, Some("left_line")),
        (7, Intent::Leave, None, OrderStatus::Expired, Some("sale_ended")),
    ] {
        let confirmed = |yes| if yes { Confirmation::Yes } else { Confirmation::No };
        sale.orders.push(ObservedOrder {
            requested_at: second(n + 5),
            accepted_at: second(n + 5) + Duration::from_millis(500),
            wait: Some(Wait { until: second(25), offered_at: offered_at.map(second) }),
            live_intervals: Vec::new(),
            intent,
            payment: confirmed(offered_at.is_some()),
            cancellation: confirmed(n == 6),
            end: LastSeen::Status(end),
            reason: reason.map(str::to_owned),
            ..ObservedOrder::new(format!("s.{n}"), format!("user-{n}"), "a".to_owned(), 1, Duration::ZERO)
        });
        sale.orders_by_ticket.push(vec![format!("s.{n}")]);
    }
    // Of two units that came back.
    (sale.orders[1].cancelled_at, sale.orders[2].safe_until) = (Some(second(26)), second(27));
    sale.orders[2].quantity = 1;
    let stock = SkuStock { left: 6, sold: 4, ..sale.stock_samples[0].clone() };
    sale.final_stock = Some(vec![stock.clone()]);
    sale.orders_by_status.as_mut().unwrap().insert("paid".to_owned(), 3);
    let audit = &mut sale.audit.as_mut().unwrap()[0];
    (audit.redis, audit.ledger) = (stock, Some(LedgerStock { live: 4, counted: 4, most_per_user: 2 }));
    sale.unoffered = Some(BTreeSet::new());
    sale
}
