//! Resolves which app is tested and with which secrets.
//!
//! Flags take precedence over the environment (`SPIN_VARIABLE_…`, as the app reads them), and the environment over the
//! env file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};

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
    #[arg(long, env = "STAMPEDE_ADMIN_TOKEN", hide_env_values = true)]
    pub admin_token: Option<String>,

    /// Cron token; without one, the app must be swept by other means [default: from the env file]
    #[arg(long, env = "STAMPEDE_CRON_TOKEN", hide_env_values = true)]
    pub cron_token: Option<String>,

    /// HS256 key to sign buyers in with; without one, they sign in at the sandbox, which is slower
    /// [default: from the env file]
    #[arg(long)]
    pub jwt_key: Option<String>,

    /// Issuer of the tokens [default: from the env file, else stampede]
    #[arg(long)]
    pub jwt_issuer: Option<String>,

    /// Audience of the tokens [default: from the env file, else stampede]
    #[arg(long)]
    pub jwt_audience: Option<String>,
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
}

/// Parameters of an HS256 token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The shared key, as in the app's variable.
    pub key: String,
    /// `iss`.
    pub issuer: String,
    /// `aud`.
    pub audience: String,
}

impl TargetOptions {
    /// Resolves the secrets.
    ///
    /// # Errors
    /// No admin token was found; the message says how to provide one.
    pub fn resolve(&self) -> Result<Target> {
        let file = match std::fs::read_to_string(&self.env_file) {
            Ok(text) => parse_env(&text),
            Err(_) => BTreeMap::new(),
        };
        let lookup = |flag: &Option<String>, name: &str| {
            flag.clone()
                .or_else(|| std::env::var(format!("SPIN_VARIABLE_{name}")).ok())
                .or_else(|| file.get(&format!("SPIN_VARIABLE_{name}")).cloned())
                .filter(|value| !value.is_empty())
        };
        let admin_token = lookup(&self.admin_token, "ADMIN_TOKEN").with_context(|| {
            format!(
                "no admin token: {} has none. Start the app with scripts/up, point --env-file to its \
                 secrets, or pass --admin-token",
                self.env_file.display()
            )
        })?;
        let algorithm = lookup(&None, "JWT_ALGORITHM").unwrap_or_else(|| "HS256".to_owned());
        let jwt =
            lookup(&self.jwt_key, "JWT_KEY").filter(|_| self.jwt_key.is_some() || algorithm == "HS256").map(|key| {
                JwtSettings {
                    key,
                    issuer: lookup(&self.jwt_issuer, "JWT_ISSUER").unwrap_or_else(|| APP_NAME.to_owned()),
                    audience: lookup(&self.jwt_audience, "JWT_AUDIENCE").unwrap_or_else(|| APP_NAME.to_owned()),
                }
            });
        Ok(Target {
            url: self.url.as_deref().unwrap_or(DEFAULT_URL).trim_end_matches('/').to_owned(),
            admin_token,
            cron_token: lookup(&self.cron_token, "CRON_TOKEN"),
            jwt,
        })
    }
}

/// Parses `NAME=value` lines. Ignores `#` comments and one pair of quotes around a value.
fn parse_env(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.strip_prefix("export ").unwrap_or(line).split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), unquote(value.trim()).to_owned()))
        .collect()
}

fn unquote(value: &str) -> &str {
    ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_env_file_is_read_with_comments_quotes_and_equals_signs_in_values() {
        let vars =
            parse_env("# secrets\nSPIN_VARIABLE_ADMIN_TOKEN=a=b==\n\nexport SPIN_VARIABLE_CRON_TOKEN='c d'\nX=\"y\"\n");
        assert_eq!(vars["SPIN_VARIABLE_ADMIN_TOKEN"], "a=b==");
        assert_eq!(vars["SPIN_VARIABLE_CRON_TOKEN"], "c d");
        assert_eq!(vars["X"], "y");
        assert_eq!(vars.len(), 3);
    }
}
