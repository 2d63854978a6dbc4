//! How visitors sign in, as the variables say and the pages read it.

use http::Uri;
use serde::Serialize;

use crate::variables::{Fault, Variables};

/// How visitors sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SignIn {
    /// Not through our pages.
    None,
    /// With any name, for development.
    Sandbox,
    /// The shop's own session.
    Shop {
        /// The page to send visitors to.
        sign_in_url: String,
        /// Asked with the shop's cookies; answers `{token}` or `401`.
        session_url: String,
    },
    /// OpenID Connect, in the browser.
    Oidc {
        /// The provider, whose metadata lists its endpoints.
        issuer: String,
        /// The pages' id at the provider.
        client_id: String,
        /// What is asked for, such as `openid offline_access`.
        scope: String,
    },
}

/// How visitors sign in, and the other origins that pages talk to for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignInSettings {
    /// How visitors sign in.
    pub sign_in: SignIn,
    /// Origins that pages send requests to.
    pub connect_origins: Vec<String>,
    /// Origins that a form may lead to.
    pub form_origins: Vec<String>,
}

impl SignInSettings {
    /// The settings of pages without sign-in.
    #[must_use]
    pub fn none() -> Self {
        Self { sign_in: SignIn::None, connect_origins: Vec::new(), form_origins: Vec::new() }
    }

    /// Reads the settings from the variables.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let names =
            ["sign_in_url", "session_url", "oidc_issuer", "oidc_client_id", "oidc_scope", "oidc_origins", "sandbox"];
        let values = names.map(|name| variables.trimmed(name));
        let [sign_in_url, session_url, issuer, client_id, scope, origins, sandbox] = values;
        let is_shop = !(sign_in_url.is_empty() && session_url.is_empty());
        let is_oidc = !(issuer.is_empty() && client_id.is_empty());
        match (is_shop, is_oidc) {
            (true, true) => Err(Fault::new("session_url", "is set, and so is oidc_issuer: use one of them")),
            (true, false) => {
                let form_origins = vec![origin_of("sign_in_url", &sign_in_url)?];
                let connect_origins = vec![origin_of("session_url", &session_url)?];
                Ok(Self { sign_in: SignIn::Shop { sign_in_url, session_url }, connect_origins, form_origins })
            }
            (false, true) => {
                let issuer_origin = origin_of("oidc_issuer", &issuer)?;
                if client_id.is_empty() {
                    return Err(Fault::new("oidc_client_id", "is empty"));
                }
                let mut connect_origins = vec![issuer_origin.clone()];
                for further in origins.split_whitespace() {
                    connect_origins.push(origin_of("oidc_origins", further)?);
                }
                let sign_in = SignIn::Oidc { issuer, client_id, scope };
                Ok(Self { sign_in, connect_origins, form_origins: vec![issuer_origin] })
            }
            (false, false) if sandbox == "on" => Ok(Self { sign_in: SignIn::Sandbox, ..Self::none() }),
            (false, false) => Ok(Self::none()),
        }
    }
}

/// The origin of the URL in the variable `name`.
fn origin_of(name: &'static str, url: &str) -> Result<String, Fault> {
    origin(url).map_err(|reason| Fault::new(name, reason))
}

/// The origin of a URL: its scheme, host and port. Plain HTTP is for this machine only.
pub(crate) fn origin(url: &str) -> Result<String, &'static str> {
    let uri: Option<Uri> = url.parse().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    // A policy separates its parts by spaces, semicolons and commas, and `*` stands for any host.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    match parts {
        Some((scheme, authority)) if is_plain(authority.as_str()) => {
            let is_local = ["127.0.0.1", "localhost", "[::1]"].contains(&authority.host());
            match scheme {
                "https" => Ok(format!("https://{authority}")),
                "http" if is_local => Ok(format!("http://{authority}")),
                _ => Err("is not an https URL"),
            }
        }
        _ => Err("is not a URL with a host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(set: &[(&str, &str)]) -> Result<SignInSettings, Fault> {
        let value = |name: &str| set.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
        SignInSettings::parse(&Variables(&|name| value(name).into()))
    }

    #[test]
    fn the_variables_choose_one_way_to_sign_in() {
        assert_eq!(parse(&[]).expect("settings"), SignInSettings::none());
        assert_eq!(parse(&[("sandbox", "on")]).expect("settings").sign_in, SignIn::Sandbox);
        let shop = [("sign_in_url", "https://shop.example/login?x=1"), ("session_url", "https://api.shop.example/me")];
        let settings = parse(&[&shop[..], &[("sandbox", "on")]].concat()).expect("settings");
        assert_eq!(settings.connect_origins, ["https://api.shop.example"]);
        assert_eq!(settings.form_origins, ["https://shop.example"]);
        let oidc = [("oidc_issuer", "https://id.example:8443/realms/a"), ("oidc_client_id", "pages")];
        let settings = parse(&[&oidc[..], &[("oidc_origins", "https://t.example https://u.example")]].concat());
        let origins = ["https://id.example:8443", "https://t.example", "https://u.example"];
        assert_eq!(settings.expect("settings").connect_origins, origins);
        assert!(parse(&[oidc, shop].concat()).is_err());
        for name in [shop[0], shop[1], oidc[0], oidc[1]] {
            assert!(parse(&[name]).is_err(), "{name:?} alone");
        }
    }

    #[test]
    fn an_origin_cannot_change_the_policy() {
        for url in [
            "http://shop.example",
            "javascript:alert(1)",
            "/login",
            "https://",
            "https://*",
            "https://*.example",
            "https://user:password@shop.example",
            "https://shop.example;script-src",
            "https://shop.example,https://evil.example",
            "https://shop.example https://evil.example",
            "https://shop.example'unsafe-inline'",
        ] {
            let settings = parse(&[("sign_in_url", "https://shop.example"), ("session_url", url)]);
            assert!(settings.is_err_and(|fault| fault.variable == "session_url"), "{url}");
        }
        let local = [("sign_in_url", "http://localhost:1/a"), ("session_url", "http://127.0.0.1:2/b")];
        assert_eq!(parse(&local).expect("settings").connect_origins, ["http://127.0.0.1:2"]);
    }
}
