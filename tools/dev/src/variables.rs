//! The app's variables: random secrets, defaults for development, and the format of the file that keeps them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt::Write as _,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

use anyhow::{Context, Result, anyhow};
use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use url::Url;

/// Prefix of a variable's name in the environment.
const ENV_PREFIX: &str = "SPIN_VARIABLE_";

/// Values by variable name.
///
/// They are passed in the environment, not on the command line, which other users can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Generates fresh secrets and the settings that development and tests need, with the sandbox on. Redis and the
    /// ledger are set separately.
    pub fn generate() -> Result<Self> {
        let mut variables = Self::default();
        for (name, value) in [
            ("jwt_algorithm", "HS256"),
            ("jwt_issuer", "stampede-sandbox"),
            ("jwt_audience", "stampede"),
            ("trusted_hops", "0"),
            ("payment_provider", "sandbox"),
            ("events_url", ""),
            ("sandbox", "on"),
        ] {
            variables.set(name, value);
        }
        for name in ["jwt_key", "ticket_secret", "admin_token", "metrics_token", "cron_token", "address_key"] {
            variables.set(name, BASE64_URL_SAFE_NO_PAD.encode(random_bytes()?));
        }
        for name in ["webhook_secrets", "stripe_secret", "events_secret"] {
            variables.set(name, format!("whsec_{}", BASE64_STANDARD.encode(random_bytes()?)));
        }
        Ok(variables)
    }

    /// Reads the variables that an environment exports.
    pub fn exported(environment: impl Iterator<Item = (OsString, OsString)>) -> Result<Self> {
        let mut variables = Self::default();
        for (name, value) in environment {
            if let Some(name) = name.to_str().and_then(|name| name.strip_prefix(ENV_PREFIX)) {
                let value = value.into_string().map_err(|_| anyhow!("{ENV_PREFIX}{name} is not UTF-8"))?;
                variables.set(&name.to_ascii_lowercase(), value);
            }
        }
        Ok(variables)
    }

    /// Adds exported variables, which replace others. A default of [`Variables::generate`] that an exported variable
    /// excludes is off, unless it is exported, too. Returns a description of what replaces what, without values.
    pub fn add_exported(&mut self, exported: &Self) -> String {
        let mut names: BTreeMap<&str, String> = exported.iter().map(|(name, _)| (name, name.to_owned())).collect();
        let provider = exported.find("payment_provider").is_some_and(|provider| provider != "sandbox");
        let key_set = exported.find("jwt_jwks_url").is_some_and(|url| !url.is_empty());
        for (name, excludes, excluded, off) in
            [("payment_provider", provider, "sandbox", "off"), ("jwt_jwks_url", key_set, "jwt_key", "")]
        {
            if excludes && exported.find(excluded).is_none() {
                self.set(excluded, off);
                names.insert(name, format!("{name} (so {excluded} is off)"));
            }
        }
        exported.iter().for_each(|(name, value)| self.set(name, value));
        names.into_values().collect::<Vec<_>>().join(", ")
    }

    /// Sets a variable.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// Removes a variable.
    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// The value of a variable; empty if it is not set.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// The value of a variable, if it is set.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Sets the variables for a Redis server, or for the seeds of a cluster, separated by spaces. The doorbell's is the
    /// first of them. Removes `redis_host` where they differ in host or port, since none of them says what else to allow.
    pub fn set_redis(&mut self, urls: &str) -> Result<()> {
        let mut hosts = urls.split_whitespace().map(redis_host).collect::<Result<Vec<_>>>()?;
        hosts.dedup();
        self.set("doorbell_url", urls.split_whitespace().next().context("the URL of Redis is empty")?);
        self.set("redis_url", urls);
        match hosts.pop().filter(|_| hosts.is_empty()) {
            Some(host) => self.set("redis_host", host),
            None => self.remove("redis_host"),
        }
        Ok(())
    }

    /// Sets the variables for a ledger: `sqlite`, or a PostgreSQL URL.
    pub fn set_ledger(&mut self, ledger: &str) -> Result<()> {
        let host = match ledger {
            // The allow-list needs a host; no server listens on this port.
            "sqlite" => "postgres://127.0.0.1:1".to_owned(),
            url => allow_list_host(url, &["postgres", "postgresql"])?.replacen("postgresql:", "postgres:", 1),
        };
        self.set("ledger_host", host);
        self.set("ledger", ledger);
        Ok(())
    }

    /// Sets where buyers see the shop, unless it is set: at the app's address.
    pub fn set_shop_url(&mut self, mut listen: SocketAddr) {
        if listen.ip().is_unspecified() {
            listen.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        self.set_default("shop_url", &format!("http://{listen}"));
    }

    /// Sets a variable, unless it is set.
    pub fn set_default(&mut self, name: &str, value: &str) {
        self.0.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }

    /// Adds the variables to the environment of `command`.
    pub fn apply_to(&self, command: &mut Command) {
        for (name, value) in &self.0 {
            command.env(env_name(name), value);
        }
    }

    /// Formats the variables as lines `SPIN_VARIABLE_<NAME>=<value>`.
    pub fn to_lines(&self) -> String {
        self.0.iter().fold(String::new(), |mut lines, (name, value)| {
            let _ = writeln!(lines, "{}={value}", env_name(name));
            lines
        })
    }

    /// Adds variables from lines in the format of [`Variables::to_lines`]. Empty lines and lines that start with `#`
    /// are skipped.
    pub fn read_lines(&mut self, text: &str) -> Result<()> {
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.strip_prefix(ENV_PREFIX).and_then(|rest| rest.split_once('='));
            let (name, value) =
                pair.with_context(|| format!("line {} is not {ENV_PREFIX}<NAME>=<value>", index + 1))?;
            self.set(&name.to_ascii_lowercase(), value);
        }
        Ok(())
    }
}

fn env_name(name: &str) -> String {
    format!("{ENV_PREFIX}{}", name.to_ascii_uppercase())
}

fn random_bytes() -> Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    Ok(bytes)
}

/// Returns `scheme://host:port` of a Redis URL, without user, password and path.
pub fn redis_host(url: &str) -> Result<String> {
    allow_list_host(url, &["redis", "rediss"])
}

/// Returns `scheme://host:port` of a URL for an allow-list, without user, password and path.
fn allow_list_host(url: &str, schemes: &[&str]) -> Result<String> {
    let parsed = Url::parse(url).ok().filter(|url| schemes.contains(&url.scheme()));
    let parsed =
        parsed.with_context(|| format!("{url:?} is not a URL that starts with {}://", schemes.join(":// or ")))?;
    let scheme = parsed.scheme();
    let host = parsed.host_str().filter(|host| !host.is_empty());
    let host = host.with_context(|| format!("the {scheme} URL names no host"))?;
    // An allow-list entry without a port does not match the scheme's default port.
    let port = parsed.port().unwrap_or(if scheme.starts_with("redis") { 6379 } else { 5432 });
    Ok(format!("{scheme}://{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_is_unique_and_long() {
        let (one, two) = (Variables::generate().expect("random"), Variables::generate().expect("random"));
        let secrets = [
            "jwt_key",
            "ticket_secret",
            "admin_token",
            "metrics_token",
            "cron_token",
            "address_key",
            "webhook_secrets",
            "stripe_secret",
            "events_secret",
        ];
        let mut seen: Vec<&str> = secrets.iter().flat_map(|name| [one.get(name), two.get(name)]).collect();
        assert!(seen.iter().all(|secret| secret.len() >= 43), "{seen:?}");
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 2 * secrets.len());
    }

    #[test]
    fn the_lines_round_trip() {
        let mut variables = Variables::generate().expect("random");
        variables.set("redis_url", "redis://127.0.0.1:7000/?a=b=c");
        let mut reloaded = Variables::default();
        reloaded.read_lines(&format!("# secrets\n\n{}", variables.to_lines())).expect("its own lines");
        assert_eq!(reloaded, variables);
        let error = reloaded.read_lines("# one\nexport X=1\n").expect_err("not such a line");
        assert_eq!(error.to_string(), "line 2 is not SPIN_VARIABLE_<NAME>=<value>");
    }

    fn exported(variables: &[(&str, &str)]) -> Variables {
        let environment = variables.iter().chain(&[("PATH", "/bin")]).map(|(name, value)| (name.into(), value.into()));
        Variables::exported(environment).expect("UTF-8")
    }

    #[test]
    fn an_exported_variable_replaces_the_saved_one_and_its_value_is_not_described() {
        let mut variables = Variables::generate().expect("random");
        let saved = variables.clone();
        let exported = exported(&[("SPIN_VARIABLE_TRUSTED_HOPS", "2"), ("SPIN_VARIABLE_EVENTS_URL", "")]);
        assert_eq!(variables.add_exported(&exported), "events_url, trusted_hops");
        assert_eq!((variables.get("trusted_hops"), variables.get("jwt_key")), ("2", saved.get("jwt_key")));
        assert_eq!(variables.iter().count(), saved.iter().count());
    }

    #[test]
    fn a_default_that_an_exported_variable_excludes_is_off_unless_it_is_exported_too() {
        let add = |list: &[(&str, &str)]| {
            let mut variables = Variables::generate().expect("random");
            let description = variables.add_exported(&exported(list));
            (variables.get("sandbox").to_owned(), variables.get("jwt_key").is_empty(), description)
        };
        let provider = ("SPIN_VARIABLE_PAYMENT_PROVIDER", "webhook");
        let set = ("SPIN_VARIABLE_JWT_JWKS_URL", "https://id.example/keys");
        let off = "jwt_jwks_url (so jwt_key is off), payment_provider (so sandbox is off)";
        assert_eq!(add(&[provider, set]), ("off".to_owned(), true, off.to_owned()));
        let both = add(&[provider, ("SPIN_VARIABLE_SANDBOX", "on")]);
        assert_eq!(both, ("on".to_owned(), false, "payment_provider, sandbox".to_owned()));
        let same = add(&[(provider.0, "sandbox"), (set.0, "")]);
        assert_eq!(same, ("on".to_owned(), false, "jwt_jwks_url, payment_provider".to_owned()));
    }

    #[test]
    fn the_shop_is_where_the_app_listens_unless_it_is_set() {
        for (set, listen, expected) in [
            (None, "127.0.0.1:4000", "http://127.0.0.1:4000"),
            (None, "0.0.0.0:4000", "http://127.0.0.1:4000"),
            (Some("https://shop.example"), "127.0.0.1:4000", "https://shop.example"),
        ] {
            let mut variables = Variables::default();
            set.into_iter().for_each(|url| variables.set("shop_url", url));
            variables.set_shop_url(listen.parse().expect("an address"));
            assert_eq!(variables.get("shop_url"), expected);
        }
    }

    #[test]
    fn the_allow_list_host_has_no_password_and_no_path() {
        let mut variables = Variables::default();
        for (url, host) in [
            ("redis://127.0.0.1:7000", "redis://127.0.0.1:7000"),
            ("rediss://user:p@ss@cache.example/0", "rediss://cache.example:6379"),
            ("redis://[::1]/1", "redis://[::1]:6379"),
        ] {
            variables.set_redis(url).expect(url);
            let set = ["redis_url", "doorbell_url", "redis_host"].map(|name| variables.get(name));
            assert_eq!(set, [url, url, host]);
        }
        variables.set_redis("redis://10.1.0.3 redis://:pw@10.1.0.3/0").expect("the same host twice");
        assert_eq!(variables.find("redis_host"), Some("redis://10.1.0.3:6379"));
        let seeds = "redis://:pw@10.1.0.3 redis://:pw@10.1.0.4";
        variables.set_redis(seeds).expect("two hosts");
        assert_eq!((variables.get("redis_url"), variables.get("doorbell_url")), (seeds, "redis://:pw@10.1.0.3"));
        assert_eq!(variables.find("redis_host"), None, "a saved value would be that of another Redis");
        variables.set_ledger("postgresql://shop:pw@db.example/shop?sslmode=require").expect("a URL");
        assert_eq!(variables.get("ledger_host"), "postgres://db.example:5432");
        variables.set_ledger("sqlite").expect("a word");
        for wrong in ["", "localhost:6379", "http://x", "redis:///0", "redis://a b"] {
            assert!(variables.set_redis(wrong).is_err(), "{wrong} was accepted");
        }
        assert!(variables.set_ledger("mysql://x").is_err());
    }
}
