//! An app that is none: it writes down what reaches it, answers as the app would, and holds back what it is told to.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use dev::{nginx::Nginx, root, scratch::Scratch};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use support::Http;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Seen {
    pub target: String,
    pub headers: HashMap<String, String>,
    pub body: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// The stand-in.
pub struct StandIn {
    pub port: u16,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    seen: Mutex<Vec<Seen>>,
    /// Requests whose path contains one of these wait.
    held: watch::Sender<Vec<&'static str>>,
}

impl StandIn {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared { seen: Mutex::default(), held: watch::Sender::new(vec![]) });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { port, shared, serving }
    }

    /// Holds back every request whose path contains one of these, until it is told otherwise.
    pub fn hold(&self, parts: &[&'static str]) {
        self.shared.held.send_replace(parts.to_vec());
    }

    /// What reached it, of paths that contain `part`.
    pub fn seen(&self, part: &str) -> Vec<Seen> {
        lock(&self.shared).iter().filter(|seen| seen.target.contains(part)).cloned().collect()
    }

    /// Takes no connection any more, and ends those there are.
    pub async fn end(self) {
        self.serving.abort();
        let _ = self.serving.await;
    }
}

/// nginx with the kit's site before stand-ins.
pub struct Front {
    pub http: Http,
    pub nginx: Nginx,
    _scratch: Scratch,
}

impl Front {
    pub fn before(apps: &[&StandIn]) -> Self {
        let scratch = Scratch::new().expect("a directory");
        let ports: Vec<u16> = apps.iter().map(|app| app.port).collect();
        let nginx = Nginx::start(scratch.path(), &root::find().expect("the project"), &ports);
        let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
        Self { http: Http::new(&nginx.url()), nginx, _scratch: scratch }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Vec<Seen>> {
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // What is spawned here ends with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            // A client that goes away ends its connection, not the test.
            let _ = talk(stream, &shared).await;
        });
    }
}

async fn talk(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
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
        let seen = Seen { target, headers, body: length };
        let response = response(&seen, {
            let mut all = lock(shared);
            all.push(seen.clone());
            all.len()
        });
        let mut held = shared.held.subscribe();
        let free = held.wait_for(|held| !held.iter().any(|part| seen.target.contains(part))).await;
        drop(free);
        stream.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

/// An answer with the headers of the app's own; its number makes each one another.
fn response(seen: &Seen, number: usize) -> String {
    let path = seen.target.split('?').next().unwrap_or_default();
    let (cache, kind) = match path {
        _ if path.contains("/gate.js") || path.ends_with("/api/activities/demo") => {
            ("public, max-age=0, s-maxage=1", "application/json")
        }
        "/api/activities" => ("public, max-age=0, s-maxage=1", "application/json"),
        "/short" => ("public, max-age=1", "text/html"),
        _ if path.starts_with("/api/") => ("no-store", "application/json"),
        _ => ("public, max-age=60", "text/html"),
    };
    let body = format!("{{\"number\":{number}}}");
    let encoding = match (kind, seen.header("accept-encoding")) {
        ("text/html", "") | ("application/json", _) => String::new(),
        (_, encoding) => format!("vary: accept-encoding\r\nx-variant: {encoding}\r\n"),
    };
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncache-control: {cache}\r\n{encoding}\
        etag: \"{number}\"\r\nx-request-id: {}\r\n\r\n{body}",
        body.len(),
        seen.header("x-request-id"),
    )
}
