//! What seals addresses.

use domain::{
    address::{Address, AddressCipher},
    ids::OrderNo,
};

use crate::{config, http::Failure};

/// The vault of the variable `address_key`.
///
/// # Errors
/// `not_ready` where the key is missing or weak.
pub async fn address_cipher() -> Result<AddressCipher, Failure> {
    let secret = config::secret("address_key").await?;
    AddressCipher::new(&secret).ok_or_else(|| Failure::Unexpected("address_key holds no key".to_owned()))
}

/// Seals an order's address.
///
/// # Errors
/// As [`vault`]; and without randomness nothing is sealed.
pub async fn seal(order_no: &OrderNo, address: &Address) -> Result<String, Failure> {
    let mut nonce = [0; 24];
    getrandom::fill(&mut nonce).map_err(|error| Failure::Unexpected(format!("no randomness: {error}")))?;
    let sealed = address_cipher().await?.seal(order_no, address, nonce);
    sealed.ok_or_else(|| Failure::Unexpected("an address could not be sealed".to_owned()))
}
