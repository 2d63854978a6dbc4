//! The refusal of a callback whose signature does not verify.

use domain::problem::{Code, Problem};
use platform::http::ApiError;

/// Returns the `signature_invalid` error.
pub fn signature_invalid() -> ApiError {
    Problem::new(Code::SignatureInvalid, "The signature does not hold for this body, secret and time.").into()
}
