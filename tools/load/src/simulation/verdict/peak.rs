//! Units that were certainly alive at the same time.

use std::time::Duration;

use super::super::observations::ObservedOrder;

/// The most units that were alive at one moment.
///
/// Only what is certain counts: from when an answer had come that showed the order alive until another such answer had
/// been asked for. So this never accuses a sale that only resold a returned unit.
pub(super) fn peak_live_units<'a>(orders: impl Iterator<Item = &'a ObservedOrder>) -> i64 {
    let mut changes: Vec<(Duration, i64)> = Vec::new();
    for (order, span) in orders.flat_map(|order| order.alive.iter().map(move |span| (order, span))) {
        if span.until > span.from {
            changes.push((span.from, order.quantity.into()));
            changes.push((span.until, -i64::from(order.quantity)));
        }
    }
    // At the same instant returns come first: tuples sort negative units before positive ones.
    changes.sort_unstable();
    let mut alive = 0;
    let mut peak = 0;
    for (_, units) in changes {
        alive += units;
        peak = peak.max(alive);
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{Interval, correct_sale};
    use super::*;

    #[test]
    fn a_unit_returned_and_sold_again_counts_once() {
        let mut orders = correct_sale().orders;
        orders[1].alive[0] = Interval { from: Duration::from_secs(2), until: Duration::from_secs(3) };
        assert_eq!(peak_live_units(orders[..2].iter()), 2);
        orders[1].alive[0].from = Duration::from_millis(1999);
        assert_eq!(peak_live_units(orders[..2].iter()), 3);
    }
}
