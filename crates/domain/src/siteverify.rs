//! Hosted human checks (B5): their variables, and the response of the service's `siteverify` call.
//!
//! Turnstile and hCaptcha share this call: a `POST` of `secret`, `response` and `remoteip`. Their documents list the
//! members and error codes: <https://developers.cloudflare.com/turnstile/get-started/server-side-validation/>,
//! <https://docs.hcaptcha.com/#verify-the-user-response-server-side>.

use std::rc::Rc;

use http::Uri;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::{
    human_check::{CheckRecord, LIFETIME_MS},
    time::Millis,
    variables::{Fault, Variables},
};

/// The variables of hosted checks.
pub struct HostedChecks {
    /// The service's URL.
    pub url: Rc<str>,
    /// The secret that belongs to the site key.
    pub secret: Rc<str>,
    /// The site key.
    pub site_key: Rc<str>,
    /// The widget's script.
    pub script: Rc<str>,
    /// Hosts of the pages that show the check, separated by spaces.
    pub hostnames: Rc<str>,
}

impl HostedChecks {
    /// Reads the variables `siteverify_…`.
    pub fn parse(variables: &Variables) -> Result<Self, Fault> {
        let required = |name| {
            let value = variables.get(name);
            if value.trim().is_empty() {
                Err(Fault::new(name, "is empty, and there are hosted checks"))
            } else {
                Ok(value)
            }
        };
        let checks = Self {
            url: required("siteverify_url")?,
            secret: required("siteverify_secret")?,
            site_key: required("siteverify_site_key")?,
            script: required("siteverify_script")?,
            hostnames: required("siteverify_hostnames")?,
        };
        for name in ["siteverify_url", "siteverify_script"] {
            variables.parse(name, |url| origin(url).ok_or("is no https:// URL"))?;
        }
        let is_origin = |text: &str| origin(text).is_some_and(|origin| origin == text);
        match variables.get("siteverify_origins").split_ascii_whitespace().all(is_origin) {
            true => Ok(checks),
            false => Err(Fault::new("siteverify_origins", "has an entry that is not like https://host")),
        }
    }
}

/// Maximum length of a widget's token, in bytes; longer ones are refused without a call. Turnstile's have at most 2,048.
pub const MAX_TOKEN_BYTES: usize = 8 * 1024;

/// The action that pages give the widget, so that a token from another form with the same site key is refused.
/// hCaptcha has no actions.
pub const ACTION: &str = "ticket";

/// Error codes of a token that is none. All codes beside these and [`SPENT`] say that the call itself is wrong.
const INVALID: [&str; 2] = ["missing-input-response", "invalid-input-response"];

/// Error codes of a token that was used before, or is too old. The last one is hCaptcha's, which says it of other faulty
/// tokens, too.
const SPENT: [&str; 4] =
    ["timeout-or-duplicate", "expired-input-response", "already-seen-response", "invalid-or-already-seen-response"];

/// What the service's response says about a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Solved on one of the shop's pages.
    Passed,
    /// Not solved, or solved on a page of another host or for another action.
    Failed,
    /// Used before or expired. The visitor may be at no fault: the reply to the first request may be lost.
    Spent,
    /// Not known, for this reason: the visitor is not at fault.
    Unknown(String),
    /// Not known, because the service was silent a moment ago and was not asked.
    NotAsked,
}

#[derive(Deserialize)]
struct Reply {
    success: bool,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    action: Option<String>,
    #[serde(default, rename = "error-codes")]
    error_codes: Vec<String>,
}

/// Reads the service's response. `hostnames` are the hosts of the pages that show the check, separated by spaces.
#[must_use]
pub fn verdict(status: u16, body: &[u8], hostnames: &str) -> Verdict {
    let Ok(reply) = serde_json::from_slice::<Reply>(body) else {
        return Verdict::Unknown(format!("status {status} without a verdict"));
    };
    if !reply.success {
        let codes: Vec<&str> = reply.error_codes.iter().map(String::as_str).collect();
        return match codes.iter().find(|code| !INVALID.contains(code) && !SPENT.contains(code)) {
            Some(code) => Verdict::Unknown(code.chars().filter(char::is_ascii_graphic).take(64).collect()),
            None if codes.iter().any(|code| SPENT.contains(code)) => Verdict::Spent,
            None => Verdict::Failed,
        };
    }
    let hostname = reply.hostname.unwrap_or_default();
    let is_ours = hostnames.split_ascii_whitespace().any(|known| known.eq_ignore_ascii_case(&hostname));
    let is_action = reply.action.is_none_or(|action| action == ACTION);
    if (200..300).contains(&status) && is_ours && is_action { Verdict::Passed } else { Verdict::Failed }
}

/// Returns the record with which a token is marked as used. The services accept a token once, for five minutes at most.
#[must_use]
pub fn record(token: &str, now: Millis) -> CheckRecord {
    CheckRecord { id: hex::encode(&Sha256::digest(token)[..16]), expires_at: now.plus(LIFETIME_MS) }
}

/// Returns the sources that a page's content security policy allows for the widget: the origin of `script`, and those in
/// `origins`, separated by spaces. Empty if there is no script; anything that is no origin is left out.
#[must_use]
pub fn content_sources(script: &str, origins: &str) -> String {
    let all = std::iter::once(script).chain(origins.split_ascii_whitespace());
    all.filter_map(origin).collect::<Vec<_>>().join(" ")
}

/// Returns the origin of an `https://` URL, or of an `http://` URL of this machine. A name may start with `*.`, as in a
/// content security policy; characters that end a source there are refused.
fn origin(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b".-:*".contains(&b);
    let is_secure = scheme == "https" || scheme == "http" && ["127.0.0.1", "localhost"].contains(&authority.host());
    (is_secure && authority.as_str().bytes().all(is_name)).then(|| format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_token_solved_on_a_page_of_the_shop_for_a_ticket_passes() {
        let verdict = |body: &str| verdict(200, body.as_bytes(), "shop.example www.shop.example");
        for passed in [
            r#"{"success":true,"hostname":"shop.example","action":"ticket","error-codes":[],"cdata":"x"}"#,
            r#"{"success":true,"hostname":"WWW.shop.example"}"#,
        ] {
            assert_eq!(verdict(passed), Verdict::Passed, "{passed}");
        }
        for failed in [
            r#"{"success":true}"#,
            r#"{"success":true,"hostname":""}"#,
            r#"{"success":true,"hostname":"shop.example.evil.example"}"#,
            r#"{"success":true,"hostname":"shop.example","action":"login"}"#,
            r#"{"success":true,"hostname":"shop.example","action":""}"#,
            r#"{"success":false}"#,
            r#"{"success":false,"error-codes":["invalid-input-response","missing-input-response"]}"#,
        ] {
            assert_eq!(verdict(failed), Verdict::Failed, "{failed}");
        }
        for code in SPENT {
            let spent = json!({"success": false, "hostname": "shop.example", "error-codes": [code]}).to_string();
            assert_eq!(verdict(&spent), Verdict::Spent, "{code}");
        }
    }

    #[test]
    fn a_response_that_blames_the_call_or_cannot_be_read_is_unknown() {
        for (status, body, reason) in [
            (200, r#"{"success":false,"error-codes":["invalid-input-secret"]}"#, "invalid-input-secret"),
            (200, r#"{"success":false,"error-codes":["sitekey-secret-mismatch"]}"#, "sitekey-secret-mismatch"),
            (
                200,
                r#"{"success":false,"error-codes":["invalid-or-already-seen-response","not-using-dummy-passcode"]}"#,
                "not-using-dummy-passcode",
            ),
            (200, r#"{"success":false,"error-codes":["timeout-or-duplicate","a\r\nb c"]}"#, "abc"),
            (500, "", "status 500 without a verdict"),
            (200, "<html>", "status 200 without a verdict"),
            (200, r#"{"success":"true"}"#, "status 200 without a verdict"),
        ] {
            assert_eq!(verdict(status, body.as_bytes(), "shop.example"), Verdict::Unknown(reason.to_owned()), "{body}");
        }
        let refused = verdict(503, br#"{"success":true,"hostname":"shop.example"}"#, "shop.example");
        assert_eq!(refused, Verdict::Failed);
        let empty = verdict(200, br#"{"success":true,"hostname":""}"#, "");
        assert_eq!(empty, Verdict::Failed, "no page is the shop's");
    }

    #[test]
    fn hosted_checks_need_all_their_variables() {
        let good = |name: &str| match name {
            "siteverify_url" => "https://challenges.cloudflare.com/turnstile/v0/siteverify",
            "siteverify_script" => "https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit",
            "siteverify_origins" => "https://hcaptcha.com https://*.hcaptcha.com",
            _ => "shop.example",
        };
        let changed = |name: &str, value: &'static str| {
            let variables = |known| if known == name { value } else { good(known) }.into();
            HostedChecks::parse(&Variables(&variables)).err().map(|fault| fault.variable)
        };
        assert_eq!(changed("", ""), None);
        assert_eq!(changed("siteverify_origins", ""), None);
        for name in
            ["siteverify_url", "siteverify_secret", "siteverify_site_key", "siteverify_script", "siteverify_hostnames"]
        {
            assert_eq!(changed(name, " "), Some(name));
        }
        for (name, wrong) in [
            ("siteverify_url", "http://shop.example/siteverify"),
            ("siteverify_script", "/api.js"),
            ("siteverify_origins", "https://a.example; script-src *"),
            ("siteverify_origins", "https://a.example/"),
            ("siteverify_origins", "https://a.example,https://b.example"),
            ("siteverify_origins", "* 'unsafe-inline'"),
            ("siteverify_origins", "data:"),
        ] {
            assert_eq!(changed(name, wrong), Some(name), "{wrong}");
        }
    }

    #[test]
    fn a_page_may_load_what_the_widget_needs_and_nothing_else() {
        let script = "https://js.hcaptcha.com/1/api.js?render=explicit";
        assert_eq!(
            content_sources(script, " https://*.hcaptcha.com  ; data: "),
            "https://js.hcaptcha.com https://*.hcaptcha.com"
        );
        assert_eq!(content_sources("http://127.0.0.1:8000/api.js", ""), "http://127.0.0.1:8000");
        assert_eq!(content_sources("", ""), "");
    }
}
