//! Stands in for a provider of hosted checks: each token that was bought is good once.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use dev::variables::Variables;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

/// What a token begins with that was bought.
pub const BOUGHT: &str = "bought-";

const HOST: &str = "shop.example";

/// A running provider.
pub struct Provider {
    url: String,
}

/// Starts the provider.
pub async fn start() -> Result<Provider> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    let used = Arc::new(Mutex::new(HashSet::new()));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let used = used.clone();
            let service = service_fn(move |request| answer(used.clone(), request));
            // An error means that the app closed the connection.
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service));
        }
    });
    Ok(Provider { url })
}

impl Provider {
    /// Sets the variables of hosted checks.
    pub fn configure(&self, variables: &mut Variables) {
        for (name, value) in [
            ("siteverify_url", format!("{}/siteverify", self.url)),
            ("siteverify_host", self.url.clone()),
            ("siteverify_secret", "a secret of the provider".to_owned()),
            ("siteverify_site_key", "a-site-key".to_owned()),
            ("siteverify_script", "https://checks.example/api.js".to_owned()),
            ("siteverify_hostnames", HOST.to_owned()),
        ] {
            variables.set(name, value);
        }
    }
}

async fn answer(
    used: Arc<Mutex<HashSet<String>>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let form = request.into_body().collect().await?.to_bytes();
    let form = String::from_utf8_lossy(&form);
    let token = form.split('&').find_map(|pair| pair.strip_prefix("response=")).unwrap_or_default();
    let is_new = used.lock().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned());
    let body = match token.starts_with(BOUGHT) && is_new {
        true => json!({"success": true, "hostname": HOST, "action": "ticket"}),
        false => json!({"success": false, "error-codes": ["invalid-input-response"]}),
    };
    Ok(Response::new(Full::new(Bytes::from(body.to_string()))))
}
