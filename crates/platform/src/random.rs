//! Random bits from the system.

use workflows::StoreError;

/// Returns 128 random bits.
///
/// # Errors
/// `Malformed` if the system's random source fails: a ticket or a key made from the clock could be guessed.
pub fn bits() -> Result<u128, StoreError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| StoreError::Malformed(format!("no randomness: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}
