//! Random bits from the system.

use crate::clock;

/// Returns 128 random bits, or the clock's milliseconds if the system's random source fails. Not for secrets.
#[must_use]
pub fn bits() -> u128 {
    let mut bytes = [0; 16];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        Err(_) => u128::from(clock::now().0.unsigned_abs()),
    }
}
