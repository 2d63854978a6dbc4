//! Encrypts delivery addresses with the key of the variable `address_key`.

use domain::{
    address::{Address, AddressCipher},
    ids::OrderNo,
};

use crate::{config, http::ApiError, random};

/// Builds the cipher from the variable `address_key`.
///
/// # Errors
/// `not_ready` if the variable is empty or a secret in it is weak; [`ApiError::Unexpected`] if no key can be derived.
pub async fn from_config() -> Result<AddressCipher, ApiError> {
    let secret = config::secret("address_key").await?;
    AddressCipher::new(&secret).ok_or_else(|| ApiError::Unexpected("address_key holds no key".to_owned()))
}

/// Encrypts an order's delivery address with a random nonce; the ciphertext is bound to `order_no`.
///
/// # Errors
/// Those of [`from_config`]; [`ApiError::Unexpected`] if the encryption fails.
pub async fn seal(order_no: &OrderNo, address: &Address) -> Result<String, ApiError> {
    let sealed = from_config().await?.seal(order_no, address, random::bytes());
    sealed.ok_or_else(|| ApiError::Unexpected("an address could not be sealed".to_owned()))
}
