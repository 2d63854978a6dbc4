//! `POST /sandbox/sign-in`: issues a token for any user, without a password.

use domain::{
    http::{
        body,
        problem::{Code, Problem},
    },
    ids::UserId,
};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use platform::{
    clock,
    http::{ApiError, Request, Response},
    settings,
};
use serde::Deserialize;
use serde_json::json;

const TOKEN_LIFETIME_SECONDS: i64 = 12 * 3_600;

#[derive(Deserialize)]
struct Body {
    user: UserId,
    #[serde(default)]
    level: i64,
    #[serde(default)]
    member: bool,
    #[serde(default)]
    groups: Vec<String>,
}

/// Returns a token. Only HS256 is supported, because only its `jwt_key` can sign.
pub async fn post(request: &Request) -> Result<Response, ApiError> {
    let body: Body = body::parse(&request.body)?;
    let signing = settings::load(settings::SANDBOX_SIGNING).await?;
    let Some([secret, issuer, audience]) = &*signing else {
        let detail = "The sandbox signs with HS256 only; take a token from your issuer.";
        return Err(Problem::new(Code::NotReady, detail).into());
    };
    let claims = json!({
        "sub": body.user, "level": body.level, "member": body.member, "groups": body.groups,
        "exp": clock::now().0 / 1000 + TOKEN_LIFETIME_SECONDS,
        "iss": issuer, "aud": audience,
    });
    let token = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret.as_bytes()))
        .map_err(|error| ApiError::Unexpected(error.to_string()))?;
    Ok(Response::json(200, &json!({ "token": token })))
}
