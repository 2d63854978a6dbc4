//! A fake app behind nginx: records requests, sends the app's cache headers, and can delay responses or close connections.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use dev::{nginx::Nginx, root};
use support::HttpClient;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

/// A request as the fake app received it.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Request target, query included.
    pub target: String,
    /// Headers, with names in lower case.
    pub headers: HashMap<String, String>,
    /// Length of the body in bytes.
    pub body_length: usize,
}

impl RecordedRequest {
    /// Returns a header by its lower-case name; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// An HTTP server on a free port that responds to every request with `200`.
pub struct FakeApp {
    /// Port on 127.0.0.1.
    pub port: u16,
    state: Arc<State>,
    server: JoinHandle<()>,
}

struct State {
    requests: Mutex<Vec<RecordedRequest>>,
    /// Responses to requests whose target contains one of these are delayed.
    delayed_paths: watch::Sender<Vec<&'static str>>,
    /// Whether connections are closed in place of a response.
    is_failing: AtomicBool,
}

impl FakeApp {
    /// Starts a server that delays no response.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State {
            requests: Mutex::default(),
            delayed_paths: watch::Sender::new(vec![]),
            is_failing: false.into(),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { port, state, server }
    }

    /// Delays the responses to all requests whose target contains one of `parts`, and sends all others. A later call
    /// with other `parts` sends the delayed ones.
    pub fn delay_responses(&self, parts: &[&'static str]) {
        self.state.delayed_paths.send_replace(parts.to_vec());
    }

    /// Returns the requests received so far whose target contains `part`, oldest first.
    pub fn requests_containing(&self, part: &str) -> Vec<RecordedRequest> {
        lock(&self.state).iter().filter(|request| request.target.contains(part)).cloned().collect()
    }

    /// Closes the connection of each request that arrives from now on, in place of a response.
    pub fn fail(&self) {
        self.state.is_failing.store(true, Ordering::SeqCst);
    }

    /// Closes the listener and every connection.
    pub async fn stop(self) {
        self.server.abort();
        let _ = self.server.await;
    }
}

/// nginx with the kit's site in front of fake apps.
pub struct NginxProxy {
    /// Client for nginx.
    pub http: HttpClient,
    /// The nginx process.
    pub server: Nginx,
    _temp_dir: TempDir,
}

impl NginxProxy {
    /// Starts nginx with these apps as its upstream servers.
    pub fn in_front_of(apps: &[&FakeApp]) -> Self {
        Self::in_front_of_ports(&apps.iter().map(|app| app.port).collect::<Vec<_>>())
    }

    /// Starts nginx with the servers at these ports as its upstream servers.
    pub fn in_front_of_ports(ports: &[u16]) -> Self {
        Self::start(ports, Nginx::start)
    }

    /// Like [`NginxProxy::in_front_of_ports`], with the kit's setting for apps on other machines.
    pub fn in_front_of_machines(ports: &[u16]) -> Self {
        Self::start(ports, |directory, root, ports| {
            Nginx::start_with_line(directory, root, ports, "proxy_connect_timeout 300ms;\n")
        })
    }

    /// Like [`NginxProxy::in_front_of`], with a host name for operators.
    pub fn with_desk(app: &FakeApp) -> Self {
        Self::start(&[app.port], Nginx::start_with_desk)
    }

    /// Like [`NginxProxy::in_front_of`], but the header `X-Test-Client` is the client's address.
    pub fn with_client_header(app: &FakeApp) -> Self {
        Self::start(&[app.port], Nginx::start_with_client_header)
    }

    fn start(ports: &[u16], start: fn(&Path, &Path, &[u16]) -> anyhow::Result<Nginx>) -> Self {
        let temp_dir = TempDir::new().expect("a directory");
        let nginx = start(temp_dir.path(), &root::find().expect("the project"), ports);
        let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
        Self { http: HttpClient::of_proxy(&nginx.url()), server: nginx, _temp_dir: temp_dir }
    }
}

fn lock(state: &State) -> MutexGuard<'_, Vec<RecordedRequest>> {
    state.requests.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    // Dropping the set aborts the connections when this task is aborted.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let state = Arc::clone(&state);
        connections.spawn(async move {
            // A client that closes its connection ends only that connection.
            let _ = handle_connection(stream, &state).await;
        });
    }
}

async fn handle_connection(stream: TcpStream, state: &State) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        let mut words = line.split_whitespace().map(str::to_owned);
        let target = words.nth(1).unwrap_or_default();
        let mut headers = HashMap::new();
        loop {
            line.clear();
            stream.read_line(&mut line).await?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        line.clear();
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let request = RecordedRequest { target, headers, body_length: length };
        let response = build_response(&request, {
            let mut all = lock(state);
            all.push(request.clone());
            all.len()
        });
        if state.is_failing.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut delayed_paths = state.delayed_paths.subscribe();
        let no_longer_delayed =
            delayed_paths.wait_for(|paths| !paths.iter().any(|part| request.target.contains(part))).await;
        drop(no_longer_delayed);
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

/// A response with the headers that the app sends for this path. `number` makes every body and ETag unique.
fn build_response(request: &RecordedRequest, number: usize) -> String {
    let path = request.target.split('?').next().unwrap_or_default();
    let (cache_control, content_type) = match path {
        _ if path.starts_with("/api/activities/tomorrow") => {
            ("public, max-age=0, s-maxage=1", "application/problem+json")
        }
        _ if path.contains("/gate.js") || path.ends_with("/api/activities/demo") => {
            ("public, max-age=0, s-maxage=1", "application/json")
        }
        "/api/activities" => ("public, max-age=0, s-maxage=1", "application/json"),
        "/short" => ("public, max-age=1", "text/html"),
        _ if path.starts_with("/api/") => ("no-store", "application/json"),
        _ => ("public, max-age=60", "text/html"),
    };
    let (status, body) = match content_type {
        "application/problem+json" => ("404 Not Found", r#"{"code":"not_found"}"#.to_owned()),
        _ => ("200 OK", format!("{{\"number\":{number}}}")),
    };
    let encoding = match (content_type, request.header("accept-encoding")) {
        ("text/html", encoding @ ("br, gzip" | "gzip")) => {
            format!("vary: accept-encoding\r\nx-variant: {encoding}\r\n")
        }
        _ => String::new(),
    };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\ncache-control: {cache_control}\r\n{encoding}\
        etag: \"{number}\"\r\nx-request-id: {}\r\n\r\n{body}",
        body.len(),
        request.header("x-request-id"),
    )
}
