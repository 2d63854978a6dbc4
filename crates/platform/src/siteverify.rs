//! Verifies the token of a hosted human check at its service (B5).

use std::{cell::Cell, net::IpAddr};

use domain::{
    siteverify::{MAX_TOKEN_BYTES, Verdict, verdict},
    time::Millis,
};
use form_urlencoded::Serializer;
use stores::http_client::{HttpClient, HttpRequest};

/// Time to wait for the provider, in milliseconds: a visitor waits for it, before the rush.
const TIMEOUT_MS: i64 = 3_000;

/// How long after a request that got no answer this instance does not ask again, in milliseconds: requests that wait hold
/// their lane.
const SILENCE_MS: i64 = 10_000;

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
    /// When this instance last asked in vain. An answer that a visitor can provoke, such as a complaint, is not in vain.
    pub silent_at: &'a Cell<Option<Millis>>,
}

impl<C: HttpClient> Siteverify<'_, C> {
    /// Asks the provider about a token. It accepts each token once. A missing response is [`Verdict::Unknown`], and
    /// [`Verdict::NotAsked`] for a while after that.
    pub async fn verify(&self, token: &str, client: Option<IpAddr>, now: Millis) -> Verdict {
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
            return Verdict::Failed;
        }
        if self.silent_at.get().is_some_and(|at| (0..SILENCE_MS).contains(&(now.0 - at.0))) {
            return Verdict::NotAsked;
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
            Err(error) => {
                self.silent_at.set(Some(now));
                Verdict::Unknown(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stores::http_client::{HttpResponse, NoResponse};

    /// A provider that answers nothing, or this.
    #[derive(Default)]
    struct Provider {
        body: Cell<Option<&'static str>>,
        calls: Cell<u32>,
    }

    impl HttpClient for &Provider {
        async fn send(&self, _: HttpRequest) -> Result<HttpResponse, NoResponse> {
            self.calls.set(self.calls.get() + 1);
            let body = self.body.get().ok_or_else(|| NoResponse("silence".to_owned()))?;
            Ok(HttpResponse { status: 200, headers: Vec::new(), body: body.as_bytes().to_vec() })
        }
    }

    #[test]
    fn a_silent_provider_is_asked_again_after_ten_seconds_and_one_that_complains_at_once() {
        let (provider, silent_at) = (Provider::default(), Cell::default());
        let siteverify = Siteverify {
            http_client: &provider,
            url: "https://check.example",
            secret: "secret",
            hostnames: "shop.example",
            silent_at: &silent_at,
        };
        let verify = |now: i64| futures::executor::block_on(siteverify.verify("token", None, Millis(now)));
        assert_eq!(verify(1_000), Verdict::Unknown("no answer: silence".to_owned()));
        assert_eq!([verify(1_001), verify(10_999)], [Verdict::NotAsked, Verdict::NotAsked]);
        assert_eq!(provider.calls.get(), 1);
        // A visitor may send a token that makes the provider complain: that closes nothing.
        provider.body.set(Some(r#"{"success":false,"error-codes":["bad-request"]}"#));
        for now in [11_000, 11_001] {
            assert_eq!(verify(now), Verdict::Unknown("bad-request".to_owned()));
        }
        provider.body.set(Some(r#"{"success":true,"hostname":"shop.example"}"#));
        assert_eq!(verify(11_002), Verdict::Passed);
        // A clock that went back.
        silent_at.set(Some(Millis(20_000)));
        assert_eq!(verify(11_003), Verdict::Passed);
    }
}
