//! Resolves which app is tested and with which secrets.
//!
//! Flags take precedence over the environment (`SPIN_VARIABLE_…`, as the app reads them), and the environment over the
//! env file.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result};

use crate::sign_in::{BuyerTokens, JwtSettings, SignInOptions};

/// Where `scripts/up` starts the app.
const DEFAULT_URL: &str = "http://127.0.0.1:3000";

/// Default issuer and audience of the app (`spin.toml`).
const APP_NAME: &str = "stampede";

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
    #[arg(long, env = "STAMPEDE_ADMIN_TOKEN", hide_env_values = true, allow_hyphen_values = true)]
    pub admin_token: Option<String>,

    /// Cron token; without one, the app must be swept by other means [default: from the env file]
    #[arg(long, env = "STAMPEDE_CRON_TOKEN", hide_env_values = true, allow_hyphen_values = true)]
    pub cron_token: Option<String>,

    /// How buyers get their tokens.
    #[command(flatten)]
    pub sign_in: SignInOptions,
}

/// The app under test, with the secrets to act as operator, cron and sign-in.
#[derive(Clone)]
pub struct Target {
    /// Base URL without a trailing slash.
    pub url: String,
    /// Bearer token of `/api/admin/…`.
    pub admin_token: String,
    /// Bearer token of `/api/tasks/sweep`.
    pub cron_token: Option<String>,
    /// The buyers' tokens; `None` if buyers sign in at the sandbox, which is slower.
    pub tokens: Option<BuyerTokens>,
    /// The secret of the payment provider, of an app that the benchmark started itself.
    pub webhook_secret: Option<String>,
}

impl TargetOptions {
    /// The app's variables, by their names in capitals: from the environment, or the env file. Empty ones count as absent.
    pub fn variables(&self) -> impl Fn(&str) -> Option<String> {
        // A missing file has no values; a line that is no `NAME=value` is skipped.
        let file: BTreeMap<_, _> =
            dotenvy::from_path_iter(&self.env_file).into_iter().flatten().filter_map(Result::ok).collect();
        move |name| {
            let variable = format!("SPIN_VARIABLE_{name}");
            std::env::var(&variable).ok().or_else(|| file.get(&variable).cloned()).filter(|value| !value.is_empty())
        }
    }

    /// Resolves the secrets. Without an admin token the error says how to provide one.
    pub fn resolve(&self) -> Result<Target> {
        let lookup = self.variables();
        let admin_token = self.admin_token.clone().or_else(|| lookup("ADMIN_TOKEN")).with_context(|| {
            format!(
                "no admin token: {} has none. Start the app with scripts/up, point --env-file to its \
                 secrets, or pass --admin-token",
                self.env_file.display()
            )
        })?;
        let signs_with_key = lookup("JWT_ALGORITHM").is_none_or(|algorithm| algorithm == "HS256");
        let issuer = lookup("JWT_ISSUER").unwrap_or_else(|| APP_NAME.to_owned());
        let audience = lookup("JWT_AUDIENCE").unwrap_or_else(|| APP_NAME.to_owned());
        let tokens = match self.sign_in.tokens(&issuer, &audience)? {
            None => lookup("JWT_KEY")
                .filter(|_| signs_with_key)
                .map(|key| BuyerTokens::Signed(Box::new(JwtSettings::shared_key(&key, issuer, audience)))),
            given => given,
        };
        Ok(Target {
            url: self.url.as_deref().unwrap_or(DEFAULT_URL).trim_end_matches('/').to_owned(),
            admin_token,
            cron_token: self.cron_token.clone().or_else(|| lookup("CRON_TOKEN")),
            tokens,
            webhook_secret: None,
        })
    }
}
