//! The app with verbs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dev::{app::App, redis::Redis, throwaway::Throwaway, variables::Variables};
use redis::aio::MultiplexedConnection;
use reqwest::Method;
use serde_json::Value;

use super::{Answer, Http};

/// Lines of the app's output that a failing test shows.
const LAST_WORDS: usize = 80;

/// An app, shared or of the test's own, with a client of the test's own.
pub struct TestApp {
    pub http: Http,
    pub variables: Variables,
    stampede: Arc<Mutex<Throwaway>>,
}

impl TestApp {
    /// The app that most tests share; each keeps to sales of its own.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Arc<Mutex<Throwaway>>> = OnceLock::new();
        Self::around(Arc::clone(SHARED.get_or_init(|| Arc::new(Mutex::new(ready(Throwaway::start(|_| {})))))))
    }

    /// An app of the test's own, which it may break.
    pub fn own() -> Self {
        Self::with(|_| {})
    }

    /// The same with variables of its own.
    pub fn with(adjust: impl FnOnce(&mut Variables)) -> Self {
        Self::started(Throwaway::start(adjust))
    }

    /// One that was started in another way.
    pub fn started(started: anyhow::Result<Throwaway>) -> Self {
        Self::around(Arc::new(Mutex::new(ready(started))))
    }

    fn around(stampede: Arc<Mutex<Throwaway>>) -> Self {
        let guard = lock(&stampede);
        let (url, variables) = (guard.app.url().to_owned(), guard.app.settings().variables.clone());
        drop(guard);
        Self { http: Http::new(&url), variables, stampede }
    }

    /// The engine's processes, for tests that kill and start them.
    pub fn with_app<T>(&self, act: impl FnOnce(&mut App) -> T) -> T {
        act(&mut lock(&self.stampede).app)
    }

    /// Ends the app as a crash would, starts it again and waits until it is ready.
    pub fn restart(&self) {
        let mut stampede = lock(&self.stampede);
        let ready = stampede.app.restart().and_then(|()| stampede.wait_until_ready());
        ready.unwrap_or_else(|error| panic!("the app does not come back: {error:#}"));
    }

    /// The Redis server's process, for tests that hold it up.
    pub fn with_redis<T>(&self, act: impl FnOnce(&mut Redis) -> T) -> T {
        act(&mut lock(&self.stampede).redis)
    }

    /// A connection to its Redis.
    pub async fn redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.variables.get("redis_url")).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("Redis")
    }

    /// A call of the admin API.
    pub async fn admin(&self, method: Method, path: &str, body: &Value) -> Answer {
        self.http.send(method, &format!("/api/admin{path}"), self.variables.get("admin_token"), body).await
    }

    /// One call of the sweeper.
    pub async fn sweep(&self) -> Value {
        self.http.post("/api/tasks/sweep", self.variables.get("cron_token"), &Value::Null).await.is(200).json()
    }

    /// The ledger's file, where it is SQLite.
    pub fn ledger_file(&self) -> std::path::PathBuf {
        lock(&self.stampede).app.settings().ledger_file()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = lock(&self.stampede).app.output();
            let lines: Vec<&str> = output.lines().collect();
            eprintln!("the app's last words:\n{}", lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"));
        }
    }
}

fn ready(started: anyhow::Result<Throwaway>) -> Throwaway {
    let ready = started.and_then(|mut stampede| stampede.wait_until_ready().map(|()| stampede));
    ready.unwrap_or_else(|error| panic!("{error:#}"))
}

fn lock(stampede: &Mutex<Throwaway>) -> MutexGuard<'_, Throwaway> {
    // A test that failed while it held the app has poisoned nothing that the others need.
    stampede.lock().unwrap_or_else(PoisonError::into_inner)
}
