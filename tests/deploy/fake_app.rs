//! An app that is none: it writes down what reaches it, answers as the app would, and holds back what it is told to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dev::{nginx::Nginx, root, temp_dir::TempDir};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use support::HttpClient;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    pub target: String,
    pub headers: HashMap<String, String>,
    pub body_length: usize,
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The stand-in.
pub struct FakeApp {
    pub port: u16,
    state: Arc<State>,
    server: JoinHandle<()>,
}

struct State {
    requests: Mutex<Vec<RecordedRequest>>,
    /// Requests whose path contains one of these wait.
    held_paths: watch::Sender<Vec<&'static str>>,
}

impl FakeApp {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let state = Arc::new(State { requests: Mutex::default(), held_paths: watch::Sender::new(vec![]) });
        let server = tokio::spawn(serve(listener, Arc::clone(&state)));
        Self { port, state, server }
    }

    /// Holds back every request whose path contains one of these, until it is told otherwise.
    pub fn hold_requests(&self, parts: &[&'static str]) {
        self.state.held_paths.send_replace(parts.to_vec());
    }

    /// What reached it, of paths that contain `part`.
    pub fn requests_containing(&self, part: &str) -> Vec<RecordedRequest> {
        lock(&self.state).iter().filter(|request| request.target.contains(part)).cloned().collect()
    }

    /// Takes no connection any more, and ends those there are.
    pub async fn stop(self) {
        self.server.abort();
        let _ = self.server.await;
    }
}

/// nginx with the kit's site before stand-ins.
pub struct NginxProxy {
    pub http: HttpClient,
    pub server: Nginx,
    _temp_dir: TempDir,
}

impl NginxProxy {
    pub fn in_front_of(apps: &[&FakeApp]) -> Self {
        let temp_dir = TempDir::new().expect("a directory");
        let ports: Vec<u16> = apps.iter().map(|app| app.port).collect();
        let nginx = Nginx::start(temp_dir.path(), &root::find().expect("the project"), &ports);
        let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
        Self { http: HttpClient::new(&nginx.url()), server: nginx, _temp_dir: temp_dir }
    }
}

fn lock(state: &State) -> MutexGuard<'_, Vec<RecordedRequest>> {
    state.requests.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    // What is spawned here ends with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let state = Arc::clone(&state);
        connections.spawn(async move {
            // A client that goes away ends its connection, not the test.
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
        let mut held_paths = state.held_paths.subscribe();
        let released =
            held_paths.wait_for(|held_paths| !held_paths.iter().any(|part| request.target.contains(part))).await;
        drop(released);
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

/// An answer with the headers of the app's own; its number makes each one another.
fn build_response(request: &RecordedRequest, number: usize) -> String {
    let path = request.target.split('?').next().unwrap_or_default();
    let (cache_control, content_type) = match path {
        _ if path.contains("/gate.js") || path.ends_with("/api/activities/demo") => {
            ("public, max-age=0, s-maxage=1", "application/json")
        }
        "/api/activities" => ("public, max-age=0, s-maxage=1", "application/json"),
        "/short" => ("public, max-age=1", "text/html"),
        _ if path.starts_with("/api/") => ("no-store", "application/json"),
        _ => ("public, max-age=60", "text/html"),
    };
    let body = format!("{{\"number\":{number}}}");
    let encoding = match (content_type, request.header("accept-encoding")) {
        ("text/html", "") | ("application/json", _) => String::new(),
        (_, encoding) => format!("vary: accept-encoding\r\nx-variant: {encoding}\r\n"),
    };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\ncache-control: {cache_control}\r\n{encoding}\
        etag: \"{number}\"\r\nx-request-id: {}\r\n\r\n{body}",
        body.len(),
        request.header("x-request-id"),
    )
}
