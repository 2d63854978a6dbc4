//! What an instance decides without Redis, counted until its next Redis call: forged tickets and tokens by client address
//! (B6), and refusals by code and sign-in tokens by the reason of their refusal (G2).
//!
//! The counts are sent as arguments of the next script that another request runs anyway, so a flood of forged tickets,
//! or of reservations of a sold-out SKU, costs no Redis call. Counts that were not sent when the instance ends, and those of
//! a call that fails, are lost: a client that sends only forged tickets may never be banned, but its requests get no further than the signature
//! check.

use std::collections::HashMap;

use domain::{http::problem::Code, ids::ActivityId};

/// Maximum number of pairs of activity and client address counted at once, and of activities with refusals. When it is
/// reached, the next pair discards all of them, and the next activity the one with the fewest refusals: a client can
/// invent activities.
const MAX_ENTRIES: usize = 256;

/// Maximum number of client addresses reported in one Redis call.
const MAX_REPORTED: usize = 8;

/// What a refusal is counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The code of the response.
    Code(Code),
    /// Why a sign-in token is refused; its response is counted by its code, too.
    SignIn(&'static str),
}

/// The counts of one instance.
#[derive(Debug, Default)]
pub struct InstanceCounts {
    abuse: HashMap<(ActivityId, String), i64>,
    refusals: HashMap<ActivityId, HashMap<Refusal, i64>>,
}

impl InstanceCounts {
    /// Counts one forged ticket or token for `activity` that came from the client address `ip`.
    pub fn record_abuse(&mut self, activity: &ActivityId, ip: String) {
        if self.abuse.len() >= MAX_ENTRIES {
            self.abuse.clear();
        }
        *self.abuse.entry((activity.clone(), ip)).or_default() += 1;
    }

    /// Counts one refusal of a request for `activity`.
    pub fn record_refusal(&mut self, activity: &ActivityId, refusal: Refusal) {
        if let Some(refusals) = self.refusals.get_mut(activity) {
            *refusals.entry(refusal).or_default() += 1;
            return;
        }
        if self.refusals.len() >= MAX_ENTRIES {
            let total = |(_, refusals): &(&ActivityId, &HashMap<Refusal, i64>)| refusals.values().sum::<i64>();
            let smallest = self.refusals.iter().min_by_key(total).map(|(activity, _)| activity.clone());
            smallest.and_then(|activity| self.refusals.remove(&activity));
        }
        self.refusals.insert(activity.clone(), HashMap::from([(refusal, 1)]));
    }

    /// Removes and returns counts of `activity`, for the arguments of a script (`record_counts` in
    /// `crates/stores/lua/limits.lua`): those of up to 8 client addresses, and those of all refusals, as
    /// `refused:<code>` and `refused:sign_in:<reason>`.
    pub fn take(&mut self, activity: &ActivityId) -> Vec<(String, i64)> {
        let refusals = self.refusals.remove(activity).into_iter().flatten();
        let name = |refusal| match refusal {
            Refusal::Code(code) => format!("refused:{}", code.as_str()),
            Refusal::SignIn(reason) => format!("refused:sign_in:{reason}"),
        };
        let mut counts: Vec<_> = refusals.map(|(refusal, count)| (name(refusal), count)).collect();
        if !self.abuse.is_empty() {
            let keys = self.abuse.keys().filter(|(of, _)| of == activity).take(MAX_REPORTED).cloned();
            let keys = keys.collect::<Vec<_>>();
            counts.extend(keys.into_iter().filter_map(|key| Some((key.1.clone(), self.abuse.remove(&key)?))));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ActivityId {
        ActivityId::parse(text).expect("id")
    }

    #[test]
    fn one_call_reports_eight_addresses_and_the_next_ones_the_rest() {
        let (mut counts, sale) = (InstanceCounts::default(), id("sale"));
        (0..20).for_each(|n| counts.record_abuse(&sale, format!("192.0.2.{n}")));
        let taken: Vec<_> = (0..4).map(|_| counts.take(&sale).len()).collect();
        assert_eq!(taken, [8, 8, 4, 0]);
    }

    #[test]
    fn counts_are_bounded() {
        let mut counts = InstanceCounts::default();
        for n in 0..10 * MAX_ENTRIES {
            counts.record_abuse(&id("sale"), n.to_string());
            counts.record_refusal(&id(&format!("sale-{n}")), Refusal::Code(Code::SoldOut));
            assert!(counts.abuse.len() <= MAX_ENTRIES && counts.refusals.len() <= MAX_ENTRIES);
        }
    }

    #[test]
    fn invented_activities_do_not_erase_the_refusals_of_a_sale() {
        let mut counts = InstanceCounts::default();
        (0..2).for_each(|_| counts.record_refusal(&id("sale"), Refusal::Code(Code::SoldOut)));
        (0..2 * MAX_ENTRIES)
            .for_each(|n| counts.record_refusal(&id(&format!("x{n}")), Refusal::Code(Code::TicketInvalid)));
        assert_eq!(counts.take(&id("sale")), [("refused:sold_out".to_owned(), 2)]);
    }
}
