//! Units that were certainly alive at the same time.

use std::time::Duration;

use super::super::evidence::OrderSeen;

/// The most units that were alive at one moment.
///
/// An order counts from when its `202` had come until the last answer that showed it alive had been asked for.
/// It lived longer than that, so this never accuses a sale that only resold a returned unit.
pub(super) fn most_alive<'a>(orders: impl Iterator<Item = &'a OrderSeen>) -> i64 {
    let mut changes: Vec<(Duration, i64)> = Vec::new();
    for order in orders.filter(|order| order.alive_until > order.accepted_at) {
        let units = i64::from(order.quantity);
        changes.push((order.accepted_at, units));
        changes.push((order.alive_until, -units));
    }
    // At the same instant returns come first: tuples sort negative units before positive ones.
    changes.sort_unstable();
    let mut alive = 0;
    let mut most = 0;
    for (_, units) in changes {
        alive += units;
        most = most.max(alive);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::super::evidence::honest;
    use super::*;

    #[test]
    fn a_unit_that_was_returned_and_sold_again_counts_once() {
        let mut orders = honest().orders;
        orders[0].alive_until = Duration::from_secs(2);
        orders[1].accepted_at = Duration::from_secs(2);
        orders[1].alive_until = Duration::from_secs(3);
        assert_eq!(most_alive(orders[..2].iter()), 2);
        orders[1].accepted_at = Duration::from_millis(1999);
        assert_eq!(most_alive(orders[..2].iter()), 3);
    }
}
