//! Remembers who was banned a moment ago (B6): an instance refuses their next requests before it verifies a signature.

use std::collections::HashMap;

use domain::{
    ids::{ActivityId, UserId},
    time::Millis,
};

/// How long a refusal is repeated from memory, in milliseconds: lifting a ban takes effect within this time.
const MAX_AGE_MS: i64 = 1_000;

/// Maximum number of entries. When it is reached, the next one discards all of them.
const MAX_ENTRIES: usize = 256;

/// The users whom Redis refused as banned, by activity and client address.
#[derive(Debug, Default)]
pub struct RecentBans(HashMap<(ActivityId, UserId, String), Millis>);

impl RecentBans {
    /// Records that Redis refused a user, whose token was verified, at `now`.
    pub fn record(&mut self, activity: &ActivityId, user: &UserId, ip: &str, now: Millis) {
        if self.0.len() >= MAX_ENTRIES {
            self.0.clear();
        }
        self.0.insert((activity.clone(), user.clone(), ip.to_owned()), now);
    }

    /// Whether a request is refused from memory. `user` may be unverified: a forged token is refused in any case, with
    /// another code.
    #[must_use]
    pub fn contains(&self, activity: &ActivityId, user: &UserId, ip: &str, now: Millis) -> bool {
        let at = self.0.get(&(activity.clone(), user.clone(), ip.to_owned()));
        at.is_some_and(|at| (0..MAX_AGE_MS).contains(&(now.0 - at.0)))
    }

    /// Whether no user is remembered, so that a token need not be read twice.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_remembered_for_a_second_for_its_user_address_and_activity() {
        let activity = |text: &str| ActivityId::parse(text).expect("id");
        let user = |text: &str| UserId::parse(text).expect("id");
        let mut bans = RecentBans::default();
        assert!(bans.is_empty());
        bans.record(&activity("sale"), &user("eve"), "192.0.2.1", Millis(5_000));
        let found =
            |sale: &str, name: &str, ip: &str, now| bans.contains(&activity(sale), &user(name), ip, Millis(now));
        assert!(found("sale", "eve", "192.0.2.1", 5_000) && found("sale", "eve", "192.0.2.1", 5_999));
        for (sale, name, ip, now) in [
            ("sale", "eve", "192.0.2.1", 6_000),
            ("sale", "eve", "192.0.2.1", 4_999),
            ("sale", "eve", "192.0.2.2", 5_000),
            ("sale", "ada", "192.0.2.1", 5_000),
            ("other", "eve", "192.0.2.1", 5_000),
        ] {
            assert!(!found(sale, name, ip, now), "{sale} {name} {ip} {now}");
        }
    }

    #[test]
    fn the_memory_is_bounded() {
        let (mut bans, activity) = (RecentBans::default(), ActivityId::parse("sale").expect("id"));
        for n in 0..10 * MAX_ENTRIES {
            bans.record(&activity, &UserId::parse(&n.to_string()).expect("id"), "192.0.2.1", Millis(0));
            assert!(bans.0.len() <= MAX_ENTRIES);
        }
    }
}
