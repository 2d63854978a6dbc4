//! An issuer that publishes its keys.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dev::variables::Variables;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A key and its public part (RFC 8037, appendix A).
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

/// A server that publishes one key under names that a test chooses, and signs tokens with it.
pub struct Issuer {
    port: u16,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The `kid`s of the published keys; `None`: requests get no answer.
    kids: Option<Vec<String>>,
    /// Whether connections of requests that get no answer stay open.
    is_silent: bool,
    requests: usize,
    /// Requests whose client waits for an answer that does not come.
    waiting: usize,
    /// A file with the keys in place of those above.
    file: Option<PathBuf>,
}

impl Issuer {
    /// Starts a server that publishes a key named `kid`.
    pub async fn start(kid: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let issuer = Self { port, state: Arc::default() };
        issuer.publish(kid);
        let state = issuer.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, state.clone()));
            }
        });
        issuer
    }

    /// Sets the variables of an app that trusts this issuer.
    pub fn set_variables(&self, variables: &mut Variables) {
        let host = format!("http://127.0.0.1:{}", self.port);
        variables.remove("jwt_key");
        variables.set("jwt_jwks_url", format!("{host}/jwks"));
        variables.set("jwt_algorithm", "EdDSA RS256");
        variables.set("jwt_issuer", &host);
        variables.set("jwt_jwks_host", host);
    }

    /// Publishes the key under another name only.
    pub fn publish(&self, kid: &str) {
        lock(&self.state).kids = Some(vec![kid.to_owned()]);
    }

    /// Publishes what a file has when it is asked.
    pub fn serve(&self, file: PathBuf) {
        lock(&self.state).file = Some(file);
    }

    /// Closes every connection without an answer from now on.
    pub fn go_away(&self) {
        lock(&self.state).kids = None;
    }

    /// Leaves every connection open without an answer from now on.
    pub fn fall_silent(&self) {
        let mut state = lock(&self.state);
        (state.kids, state.is_silent) = (None, true);
    }

    /// How many requests wait for an answer that does not come.
    pub fn waiting(&self) -> usize {
        lock(&self.state).waiting
    }

    /// How many requests have arrived.
    pub fn requests(&self) -> usize {
        lock(&self.state).requests
    }

    /// A token of a user, signed with the key named `kid`.
    pub fn sign_in(&self, user: &str, kid: &str) -> String {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let issuer = format!("http://127.0.0.1:{}", self.port);
        let claims = json!({"sub": user, "iat": now, "exp": now + 3_600, "iss": issuer, "aud": "stampede"});
        let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::EdDSA) };
        encode(&header, &claims, &EncodingKey::from_ed_pem(PEM.as_bytes()).expect("a key")).expect("a token")
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return,
        }
    }
    let (kids, is_silent, file) = {
        let mut state = lock(&state);
        state.requests += 1;
        (state.kids.clone(), state.is_silent, state.file.clone())
    };
    let Some(kids) = kids else {
        if is_silent {
            lock(&state).waiting += 1;
            let _ = stream.read_u8().await;
            lock(&state).waiting -= 1;
        }
        return;
    };
    let key = |kid: &String| json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": kid, "x": PUBLIC});
    let body = json!({ "keys": kids.iter().map(key).collect::<Vec<Value>>() }).to_string();
    let body = file.map_or(body, |file| std::fs::read_to_string(file).unwrap_or_default());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    let _ = stream.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await;
}
