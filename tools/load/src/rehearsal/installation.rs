//! Requests to the installation, with what a proxy and a certificate add to the answers.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::{HeaderMap, Method};
use reqwest::{redirect::Policy, tls::TlsInfo};
use serde_json::Value;
use time::OffsetDateTime;

use crate::target::Target;

pub struct Installation {
    pub target: Target,
    client: reqwest::Client,
}

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// The server's certificate (DER).
    pub certificate: Option<Vec<u8>>,
    /// The middle of the exchange, by this machine's clock.
    pub at: OffsetDateTime,
}

impl Installation {
    pub fn new(target: Target) -> Result<Self> {
        // An error means that another client has installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(Policy::none())
            .timeout(Duration::from_secs(20))
            .tls_info(true)
            .build()
            .context("no HTTP client: is the package ca-certificates installed?")?;
        Ok(Self { target, client })
    }

    /// Sends a request without a token.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, String)], body: &str) -> Result<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.target.url));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json").body(body.to_owned());
        }
        let sent = OffsetDateTime::now_utc();
        let response = request.send().await.with_context(|| format!("{} does not answer", self.target.url))?;
        let at = sent + (OffsetDateTime::now_utc() - sent) / 2;
        let certificate =
            response.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate).map(<[u8]>::to_vec);
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, text: response.text().await?, certificate, at })
    }

    /// Sends a request with the admin token.
    pub async fn admin(&self, method: Method, path: &str, body: &str) -> Result<Answer> {
        let token = format!("Bearer {}", self.target.admin_token);
        self.send(method, path, &[("authorization", token)], body).await
    }

    /// Reads a document of the admin API.
    pub async fn read(&self, path: &str) -> Result<Value> {
        let answer = self.admin(Method::GET, path, "").await?;
        if answer.status != 200 {
            bail!("{path} is answered {}", answer.describe());
        }
        Ok(answer.json())
    }

    /// The value of a metric without labels; `None` if there is no such metric.
    pub async fn metric(&self, name: &str) -> Result<Option<f64>> {
        let answer = self.admin(Method::GET, "/metrics", "").await?;
        if answer.status != 200 {
            bail!("/metrics is answered {}", answer.describe());
        }
        let value = answer.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
        Ok(value)
    }
}

impl Answer {
    /// The body; `null` if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Status, code and detail.
    pub fn describe(&self) -> String {
        let body = self.json();
        let text = |member: &str| body[member].as_str().unwrap_or_default().to_owned();
        format!("{} {}: {}", self.status, text("code"), text("detail"))
    }
}
