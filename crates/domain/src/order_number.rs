//! Order numbers that only this app can make: a number that it never issued is refused without a store (F3).
//!
//! Of the 80 random bits of an order's ULID the last 32 are a MAC of the activity, the timestamp and the other 48 bits.
//! A guess passes once in 2³² times, and then costs what an unknown number costs; it reveals nothing.

use ulid::Ulid;

use crate::{
    ids::{ActivityId, OrderNo},
    secret,
    signer::Signer,
    time::Millis,
};

/// The keys of order numbers, derived from the ticket secrets: the first one signs, all of them verify, the retired ones
/// too.
pub struct OrderNumberKeys(Vec<Signer>);

impl OrderNumberKeys {
    /// Reads the secrets of the variable `ticket_secret`, newest first.
    #[must_use]
    pub fn new(secrets: &str) -> Self {
        Self(secret::all(secrets).filter_map(|secret| Signer::new(secret, "stampede order number")).collect())
    }

    /// Makes the ULID of a new ticket, which is that of its order. Uses 48 bits of `random`. `None` if there is no secret.
    #[must_use]
    pub fn issue(&self, activity: &ActivityId, now: Millis, random: u128) -> Option<Ulid> {
        let signed = Ulid::from_parts(now.0.unsigned_abs(), random << 32).0 >> 32;
        Some(Ulid(signed << 32 | u128::from(mac(self.0.first()?, activity, signed))))
    }

    /// Whether one of the secrets made this number.
    #[must_use]
    pub fn verify(&self, order_no: &OrderNo) -> bool {
        let signed = order_no.ulid().0 >> 32;
        let expected = |signer| signed << 32 | u128::from(mac(signer, order_no.activity(), signed));
        self.0.iter().any(|signer| expected(signer) == order_no.ulid().0)
    }
}

/// 32 bits of the MAC of an activity and the first 96 bits of a ULID.
fn mac(signer: &Signer, activity: &ActivityId, signed: u128) -> u64 {
    signer.hash_u64(&format!("{activity}.{signed:x}")) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "kX9v2mQ7Lr4tY8wZ1nB6cD3fG5hJ0pS-";
    const NEW: &str = "Zt5-new-new-9Qw7e2r4u6i8o0p1a3s5d7f";

    fn activity(id: &str) -> ActivityId {
        ActivityId::parse(id).expect("id")
    }

    fn order_no(secrets: &str, random: u128) -> OrderNo {
        let ulid = OrderNumberKeys::new(secrets).issue(&activity("demo"), Millis(1_700_000_000_000), random);
        OrderNo::new(activity("demo"), ulid.expect("a secret"))
    }

    #[test]
    fn only_a_number_issued_for_its_activity_is_verified() {
        let keys = OrderNumberKeys::new(NEW);
        let issued = order_no(NEW, u128::MAX / 3);
        assert_eq!(issued.ulid().timestamp_ms(), 1_700_000_000_000);
        assert!(keys.verify(&issued));
        assert!(!keys.verify(&OrderNo::new(activity("other"), issued.ulid())));
        assert!(![OLD, ""].iter().any(|secrets| OrderNumberKeys::new(secrets).verify(&issued)));
    }

    #[test]
    fn numbers_differ_by_48_random_bits() {
        assert_eq!(order_no(NEW, 5), order_no(NEW, 5 | 1 << 48));
        assert_ne!(order_no(NEW, 5), order_no(NEW, 5 | 1 << 47));
    }

    #[test]
    fn numbers_of_an_old_and_of_a_retired_secret_are_verified_and_new_ones_use_the_first() {
        let old = order_no(OLD, 1);
        for secrets in [format!("{NEW} {OLD}"), format!("{NEW} retired:{OLD}"), format!("retired:{OLD} {NEW}")] {
            let keys = OrderNumberKeys::new(&secrets);
            assert!(keys.verify(&old) && keys.verify(&order_no(NEW, 1)), "{secrets}");
        }
        assert_eq!(order_no(&format!("{NEW} retired:{OLD}"), 1), order_no(NEW, 1));
    }
}
