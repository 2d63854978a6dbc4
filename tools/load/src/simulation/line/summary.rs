//! How a line went, as its buyers saw it.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::super::observations::{Confirmation, ObservedOrder};
use crate::wire::OrderStatus;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineSummary {
    pub joined: usize,
    /// A unit was offered to them.
    pub offered: usize,
    /// They left, or were removed.
    pub left: usize,
    /// They waited until the sale ended.
    pub until_end: usize,
    /// From the end of an order that freed a unit to the first poll that showed an offer.
    pub release_to_offer: Option<Delays>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delays {
    pub count: usize,
    pub median_ms: u128,
    pub p95_ms: u128,
}

impl LineSummary {
    pub fn of(orders: &[ObservedOrder]) -> Self {
        let joined: Vec<_> = orders.iter().filter(|order| order.wait.is_some()).collect();
        let ended_as =
            |status| joined.iter().filter(|order| order.is_entry() && order.status() == Some(status)).count();
        Self {
            joined: joined.len(),
            offered: joined.iter().filter(|order| order.offered_at().is_some()).count(),
            left: ended_as(OrderStatus::Cancelled),
            until_end: ended_as(OrderStatus::Expired),
            release_to_offer: Delays::of(release_to_offer(orders)),
        }
    }
}

impl fmt::Display for LineSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { joined, offered, left, until_end, release_to_offer } = self;
        write!(f, "{joined} joined, {offered} were offered a unit, {left} left, {until_end} waited until the end")?;
        match release_to_offer {
            None => Ok(()),
            Some(Delays { count, median_ms, p95_ms }) => write!(
                f,
                "; from a release to the poll that showed the offer: median {median_ms} ms, p95 {p95_ms} ms ({count})"
            ),
        }
    }
}

impl Delays {
    /// `None` without delays.
    fn of(mut delays: Vec<Duration>) -> Option<Self> {
        delays.sort_unstable();
        let percentile =
            |percent: usize| Some(delays.get((delays.len() * percent).div_ceil(100).checked_sub(1)?)?.as_millis());
        Some(Self { count: delays.len(), median_ms: percentile(50)?, p95_ms: percentile(95)? })
    }
}

/// Pairs each freed unit with the first offer that was seen later. Units of refunds are left out: their buyers do not see when
/// they are freed.
fn release_to_offer(orders: &[ObservedOrder]) -> Vec<Duration> {
    let mut by_sku: BTreeMap<&str, (Vec<Duration>, Vec<Duration>)> = BTreeMap::new();
    for order in orders {
        let (releases, offers) = by_sku.entry(&order.sku).or_default();
        releases.extend(released_at(order).into_iter().flat_map(|at| std::iter::repeat_n(at, order.quantity as usize)));
        offers.extend(order.offered_at());
    }
    let mut delays = Vec::new();
    for (mut releases, mut offers) in by_sku.into_values() {
        releases.sort_unstable();
        offers.sort_unstable();
        let mut offers = offers.into_iter();
        delays.extend(releases.into_iter().filter_map(|at| Some(offers.find(|offer| *offer > at)? - at)));
    }
    delays
}

/// When the order's units were freed, at the earliest.
fn released_at(order: &ObservedOrder) -> Option<Duration> {
    match order.status()? {
        _ if order.is_entry() => None,
        OrderStatus::Cancelled if order.cancellation == Confirmation::Yes => order.cancelled_at,
        OrderStatus::Expired => Some(order.safe_until),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::observations::test_sales::sale_with_line, *};

    #[test]
    fn a_release_is_paired_with_the_next_offer() {
        let summary = LineSummary::of(&sale_with_line().orders);
        let delays = Some(Delays { count: 2, median_ms: 1_000, p95_ms: 2_000 });
        assert_eq!(
            summary,
            LineSummary { joined: 4, offered: 2, left: 1, until_end: 1, release_to_offer: delays },
            "{summary}"
        );
    }
}
