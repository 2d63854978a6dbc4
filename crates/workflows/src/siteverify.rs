//! Verifies the token of a hosted human check at its provider (B5).

use std::net::IpAddr;

use domain::siteverify::{MAX_TOKEN_BYTES, Verdict, verdict};
use form_urlencoded::Serializer;

use crate::http_client::{HttpClient, HttpRequest};

/// Time to wait for the provider, in milliseconds: a visitor waits for it, before the rush.
const TIMEOUT_MS: i64 = 3_000;

/// A provider of hosted checks.
pub struct Siteverify<'a, C> {
    /// The HTTP client.
    pub http_client: C,
    /// The provider's URL.
    pub url: &'a str,
    /// The secret that belongs to the site key.
    pub secret: &'a str,
    /// Hosts of the pages that show the check, separated by spaces.
    pub hostnames: &'a str,
}

impl<C: HttpClient> Siteverify<'_, C> {
    /// Asks the provider about a token. It accepts each token once. A missing response is [`Verdict::Unknown`].
    pub async fn verify(&self, token: &str, client: Option<IpAddr>) -> Verdict {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Verdict::Failed;
        }
        let mut form = Serializer::new(String::new());
        form.append_pair("secret", self.secret).append_pair("response", token);
        if let Some(client) = client {
            form.append_pair("remoteip", &client.to_string());
        }
        let request = HttpRequest {
            method: "POST",
            url: self.url.to_owned(),
            headers: vec![("content-type", "application/x-www-form-urlencoded".to_owned())],
            body: form.finish(),
            timeout_ms: TIMEOUT_MS,
        };
        match self.http_client.send(request).await {
            Ok(response) => verdict(response.status, &response.body, self.hostnames),
            Err(error) => Verdict::Unknown(error.to_string()),
        }
    }
}
