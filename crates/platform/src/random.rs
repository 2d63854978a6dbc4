//! Random bits from the system.

use spin_sdk::wasip3::random::random::get_random_u64;

/// Returns 128 random bits.
#[must_use]
pub fn bits() -> u128 {
    (u128::from(get_random_u64()) << 64) | u128::from(get_random_u64())
}

/// Returns random bytes.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&get_random_u64().to_le_bytes()[..chunk.len()]);
    }
    bytes
}
