//! I8 and I9: freed units go to those who wait, in their order, and every wait has an end.
//!
//! Buyers do not see their place. Certain is: an entry that had its `202` before another request was sent has an earlier
//! place than that one, and an entry that a poll shows as waiting had no unit when the poll was sent.

use std::{collections::BTreeSet, time::Duration};

use super::findings::{CheckResult, Findings};
use crate::{
    simulation::observations::{Confirmation, LastSeen, Observations, ObservedOrder},
    wire::OrderStatus,
};

/// I8: nobody got units of a SKU at once while another buyer waited for it, and a sweep left no unit free. `unoffered` are the
/// SKUs for which one did.
pub(super) fn check_hand_off(observations: &Observations, unoffered: &BTreeSet<String>) -> CheckResult {
    let mut findings = Findings::default();
    for sku in unoffered {
        findings.broken(format!("units of {sku} were free after a sweep while buyers waited"));
    }
    for sku in observations.totals.keys() {
        let line = Line::new(observations, sku);
        for order in observations.orders.iter().filter(|order| order.sku == *sku && order.wait.is_none()) {
            if let Some(passed_over) = line.find_waiting(order.requested_at, order.accepted_at) {
                findings.broken(format!(
                    "{} of {} got units of {sku} while {} waited",
                    order.order_no, order.user, passed_over.order_no
                ));
            }
        }
    }
    let joined = observations.orders.iter().filter(|order| order.wait.is_some()).count();
    if joined == 0 {
        findings.unknown("no buyer waited: the line was not tested");
    }
    if observations.robot_tries == Some(0) {
        findings.unknown("no robot tried to get a unit");
    }
    let at_once = observations.orders.len() - joined;
    findings.into_result("I8", "freed units went to the line", format!("{joined} waited, {at_once} got units at once"))
}

/// I9: of two entries, the earlier one was offered a unit no later. Every entry ended, with a reason.
pub(super) fn check_order(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut offered = 0;
    for sku in observations.totals.keys() {
        let line = Line::new(observations, sku);
        for order in observations.orders.iter().filter(|order| order.sku == *sku) {
            let Some(offered_at) = order.offered_at() else { continue };
            offered += 1;
            if let Some(passed_over) = line.find_waiting(order.requested_at, offered_at) {
                findings.broken(format!("{} was offered a unit before {}", order.order_no, passed_over.order_no));
            }
        }
    }
    let mut ended = 0;
    for order in observations.orders.iter().filter(|order| order.wait.is_some() && order.offered_at().is_none()) {
        match (order.end, order.reason.as_deref()) {
            (LastSeen::Unreadable, _) => findings.unknown(format!("{} could not be read", order.order_no)),
            (LastSeen::Status(OrderStatus::Expired), Some("sale_ended"))
            | (LastSeen::Status(OrderStatus::Cancelled), Some("limit_reached" | "banned")) => ended += 1,
            (LastSeen::Status(OrderStatus::Cancelled), Some("left_line")) if order.cancellation != Confirmation::No => {
                ended += 1;
            }
            (LastSeen::Status(status), reason) => findings.broken(format!(
                "{} waited and is {status} ({})",
                order.order_no,
                reason.unwrap_or("no reason")
            )),
            (LastSeen::Missing, _) => findings.broken(format!("{} waited and is gone", order.order_no)),
        }
    }
    findings.into_result(
        "I9",
        "the line was served in its order",
        format!("{offered} were offered a unit, {ended} waits ended without one"),
    )
}

/// The entries for a SKU by the time of their `202`, each with the longest wait up to it.
struct Line<'a>(Vec<(Duration, &'a ObservedOrder)>);

impl<'a> Line<'a> {
    fn new(observations: &'a Observations, sku: &str) -> Self {
        let mut entries: Vec<_> =
            observations.orders.iter().filter(|order| order.sku == sku && order.wait.is_some()).collect();
        entries.sort_by_key(|order| order.accepted_at);
        let mut longest: Option<&ObservedOrder> = None;
        Self(
            entries
                .into_iter()
                .map(|order| {
                    let known = longest.filter(|known| waited_until(known) >= waited_until(order)).unwrap_or(order);
                    longest = Some(known);
                    (order.accepted_at, known)
                })
                .collect(),
        )
    }

    /// An entry that had its `202` before `requested_at`, and still waited at `served_at`.
    fn find_waiting(&self, requested_at: Duration, served_at: Duration) -> Option<&'a ObservedOrder> {
        let before = self.0.partition_point(|(joined_at, _)| *joined_at < requested_at);
        let (_, longest) = self.0[..before].last()?;
        (waited_until(longest) >= served_at).then_some(*longest)
    }
}

/// Until when an entry certainly waited.
fn waited_until(entry: &ObservedOrder) -> Duration {
    match entry.end {
        LastSeen::Status(OrderStatus::Waiting) => Duration::MAX,
        LastSeen::Status(OrderStatus::Expired) if entry.is_entry() => Duration::MAX,
        _ => entry.wait.map_or(Duration::ZERO, |wait| wait.until),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{evaluate, findings::Finding},
        *,
    };
    use crate::simulation::observations::test_sales::sale_with_line;

    /// Asserts that a sale with a line fails the check `id` and no other after `change`. Returns the numbers of the result.
    #[track_caller]
    fn expect_broken(id: &str, change: impl FnOnce(&mut Observations)) -> String {
        let mut sale = sale_with_line();
        change(&mut sale);
        let mut results = evaluate(&sale).results;
        results.retain(|result| result.finding != Finding::Ok);
        let [result] = results.as_slice() else { panic!("{results:#?}") };
        assert_eq!((result.id, result.finding), (id, Finding::Broken), "{}", result.numbers);
        result.numbers.clone()
    }

    #[test]
    fn a_robot_that_is_served_while_a_buyer_waits_breaks_i8() {
        let numbers = expect_broken("I8", |sale| {
            // The last buyer waited from 12.5 s until the end.
            let robot = &mut sale.orders[0];
            robot.user = "robot".to_owned();
            (robot.requested_at, robot.accepted_at) = (Duration::from_secs(14), Duration::from_secs(15));
        });
        assert_eq!(numbers, "s.1 of robot got units of a while s.7 waited");
    }

    #[test]
    fn robots_that_never_try_prove_nothing() {
        let sale = Observations { robot_tries: Some(0), ..sale_with_line() };
        assert_eq!(check_hand_off(&sale, &BTreeSet::new()).finding, Finding::Unknown);
    }

    #[test]
    fn a_request_that_overlaps_with_joining_may_be_served() {
        let mut sale = sale_with_line();
        sale.orders[0].requested_at = Duration::from_secs(9);
        sale.orders[0].accepted_at = Duration::from_secs(30);
        assert_eq!(check_hand_off(&sale, &BTreeSet::new()).finding, Finding::Ok);
    }

    #[test]
    fn a_unit_that_a_sweep_leaves_free_breaks_i8() {
        expect_broken("I8", |sale| sale.unoffered = Some(["a".to_owned()].into()));
    }

    #[test]
    fn an_entry_that_is_passed_over_breaks_i9() {
        let numbers = expect_broken("I9", |sale| {
            // A poll showed the first entry as waiting after the second had been offered a unit.
            sale.orders[3].wait.as_mut().unwrap().until = Duration::from_secs(30);
        });
        assert_eq!(numbers, "s.5 was offered a unit before s.4");
    }

    #[test]
    fn an_entry_that_is_never_served_breaks_i9() {
        expect_broken("I9", |sale| sale.orders[6].accepted_at = Duration::from_micros(9_999_999));
    }

    #[test]
    fn an_entry_without_an_end_breaks_i9() {
        let waits = |sale: &mut Observations| sale.orders[6].end = LastSeen::Status(OrderStatus::Waiting);
        assert_eq!(expect_broken("I9", waits), "s.7 waited and is waiting (sale_ended)");
    }

    #[test]
    fn an_entry_that_ends_without_a_request_breaks_i9() {
        expect_broken("I9", |sale| sale.orders[5].cancellation = Confirmation::No);
    }

    #[test]
    fn a_line_in_which_no_buyer_waited_is_unknown() {
        let sale = crate::simulation::observations::test_sales::correct_sale();
        assert_eq!(check_hand_off(&sale, &BTreeSet::new()).finding, Finding::Unknown);
    }
}
