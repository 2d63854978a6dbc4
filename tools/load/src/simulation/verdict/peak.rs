//! Counts units that were certainly live at the same time.

use std::time::Duration;

use super::super::observations::ObservedOrder;

/// The highest number of units that were live at one moment.
///
/// Counts an order only while it was certainly live: from a response that showed it live until the request of another
/// such response. A returned unit that is sold again is therefore never counted twice.
pub(super) fn peak_live_units<'a>(orders: impl Iterator<Item = &'a ObservedOrder>) -> i64 {
    let mut changes: Vec<(Duration, i64)> = Vec::new();
    for (order, span) in orders.flat_map(|order| order.live_intervals.iter().map(move |span| (order, span))) {
        if span.until > span.from {
            changes.push((span.from, order.quantity.into()));
            changes.push((span.until, -i64::from(order.quantity)));
        }
    }
    // At the same instant returns come first: negative numbers sort before positive ones.
    changes.sort_unstable();
    let mut live = 0;
    let mut peak = 0;
    for (_, units) in changes {
        live += units;
        peak = peak.max(live);
    }
    peak
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{Interval, test_sales::correct_sale};
    use super::*;

    #[test]
    fn a_unit_returned_and_sold_again_counts_once() {
        let mut orders = correct_sale().orders;
        orders[1].live_intervals[0] = Interval { from: Duration::from_secs(2), until: Duration::from_secs(3) };
        assert_eq!(peak_live_units(orders[..2].iter()), 2);
        orders[1].live_intervals[0].from = Duration::from_millis(1999);
        assert_eq!(peak_live_units(orders[..2].iter()), 3);
    }
}
