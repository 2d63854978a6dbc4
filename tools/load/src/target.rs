//! Resolves which app is tested and with which secrets.
//!
//! Flags take precedence over the environment (`SPIN_VARIABLE_…`, as the app reads them), and the environment over the
//! env file. Buyers sign in with a token of the app's HS256 key, or without one at the sandbox, which is slower.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::json;
use time::OffsetDateTime;

/// Where `scripts/up` starts the app.
const DEFAULT_URL: &str = "http://127.0.0.1:3000";

/// Default issuer and audience of the app (`spin.toml`).
const APP_NAME: &str = "stampede";

/// Lifetime of a token, in seconds: longer than any simulated sale.
const TOKEN_LIFETIME_SECONDS: i64 = 6 * 3600;

/// Flags that both subcommands share.
#[derive(clap::Args, Debug, Clone)]
pub struct TargetOptions {
    /// URL of the app
    #[arg(long, env = "STAMPEDE_URL")]
    pub url: Option<String>,

    /// The file with the app's secrets, as `scripts/up` writes it
    #[arg(long, env = "STAMPEDE_ENV_FILE", default_value = ".stampede/env")]
    pub env_file: PathBuf,

    /// Admin token [default: from the env file]
    #[arg(long, env = "STAMPEDE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,

    /// Cron token; without one, the app must be swept by other means [default: from the env file]
    #[arg(long, env = "STAMPEDE_CRON_TOKEN", hide_env_values = true)]
    pub cron_token: Option<String>,
}

/// The app under test, with the secrets to act as operator, cron and sign-in.
#[derive(Debug, Clone)]
pub struct Target {
    /// Base URL without a trailing slash.
    pub url: String,
    /// Bearer token of `/api/admin/…`.
    pub admin_token: String,
    /// Bearer token of `/api/tasks/sweep`.
    pub cron_token: Option<String>,
    /// How to sign tokens locally; `None` if buyers sign in at the sandbox.
    pub jwt: Option<JwtSettings>,
    /// The secret of the payment provider, of an app that the benchmark started itself.
    pub webhook_secret: Option<String>,
}

/// Parameters of an HS256 token.
#[derive(Debug, Clone)]
pub struct JwtSettings {
    /// The shared key, as in the app's variable.
    pub key: String,
    pub issuer: String,
    pub audience: String,
}

impl TargetOptions {
    /// Resolves the secrets. Without an admin token the error says how to provide one.
    pub fn resolve(&self) -> Result<Target> {
        // A missing file has no values; a line that is no `NAME=value` is skipped.
        let file: BTreeMap<_, _> =
            dotenvy::from_path_iter(&self.env_file).into_iter().flatten().filter_map(Result::ok).collect();
        let lookup = |name: &str| {
            let variable = format!("SPIN_VARIABLE_{name}");
            std::env::var(&variable).ok().or_else(|| file.get(&variable).cloned()).filter(|value| !value.is_empty())
        };
        let admin_token = self.admin_token.clone().or_else(|| lookup("ADMIN_TOKEN")).with_context(|| {
            format!(
                "no admin token: {} has none. Start the app with scripts/up, point --env-file to its \
                 secrets, or pass --admin-token",
                self.env_file.display()
            )
        })?;
        let signs_with_key = lookup("JWT_ALGORITHM").is_none_or(|algorithm| algorithm == "HS256");
        let jwt = lookup("JWT_KEY").filter(|_| signs_with_key).map(|key| JwtSettings {
            key,
            issuer: lookup("JWT_ISSUER").unwrap_or_else(|| APP_NAME.to_owned()),
            audience: lookup("JWT_AUDIENCE").unwrap_or_else(|| APP_NAME.to_owned()),
        });
        Ok(Target {
            url: self.url.as_deref().unwrap_or(DEFAULT_URL).trim_end_matches('/').to_owned(),
            admin_token,
            cron_token: self.cron_token.clone().or_else(|| lookup("CRON_TOKEN")),
            jwt,
            webhook_secret: None,
        })
    }
}

impl JwtSettings {
    /// Signs a token for `user`, without a request to the app.
    pub fn sign(&self, user: &str) -> Result<String> {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let claims = json!({"sub": user, "iat": now, "exp": now + TOKEN_LIFETIME_SECONDS, "iss": self.issuer,
                            "aud": self.audience});
        Ok(jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(self.key.as_bytes()))?)
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};

    use super::*;

    #[test]
    fn a_signed_token_carries_user_issuer_audience_and_a_valid_signature() {
        let [key, issuer, audience] =
            ["a key that is long enough for HS256", "https://shop.example", "stampede"].map(str::to_owned);
        let token = JwtSettings { key: key.clone(), issuer, audience }.sign("ada").unwrap();

        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&["stampede"]);
        validation.set_issuer(&["https://shop.example"]);
        let key = DecodingKey::from_secret(key.as_bytes());
        let claims: serde_json::Value = jsonwebtoken::decode(&token, &key, &validation).unwrap().claims;
        assert_eq!(claims["sub"], "ada");
        assert!(claims["exp"].as_i64() > Some(OffsetDateTime::now_utc().unix_timestamp() + 3600));
    }
}
