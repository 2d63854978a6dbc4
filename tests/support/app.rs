//! The app with verbs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dev::{app::App, redis::Redis, test_stack::TestStack, variables::Variables};
use redis::aio::MultiplexedConnection;
use reqwest::Method;
use serde_json::Value;

use super::{HttpClient, Response};

/// Lines of the app's output that a failing test shows.
const FAILURE_OUTPUT_LINES: usize = 80;

/// An app, shared or of the test's own, with a client of the test's own.
pub struct TestApp {
    pub http: HttpClient,
    pub variables: Variables,
    stack: Arc<Mutex<TestStack>>,
}

impl TestApp {
    /// The app that most tests share; each keeps to sales of its own.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Arc<Mutex<TestStack>>> = OnceLock::new();
        Self::from_shared_stack(Arc::clone(
            SHARED.get_or_init(|| Arc::new(Mutex::new(expect_ready(TestStack::start(|_| {}))))),
        ))
    }

    /// An app of the test's own, which it may break.
    pub fn dedicated() -> Self {
        Self::with_variables(|_| {})
    }

    /// The same with variables of its own.
    pub fn with_variables(adjust: impl FnOnce(&mut Variables)) -> Self {
        Self::from_stack(TestStack::start(adjust))
    }

    /// One that was started in another way.
    pub fn from_stack(started: anyhow::Result<TestStack>) -> Self {
        Self::from_shared_stack(Arc::new(Mutex::new(expect_ready(started))))
    }

    fn from_shared_stack(stack: Arc<Mutex<TestStack>>) -> Self {
        let guard = lock(&stack);
        let (url, variables) = (guard.app.url().to_owned(), guard.app.settings().variables.clone());
        drop(guard);
        Self { http: HttpClient::new(&url), variables, stack }
    }

    /// The engine's processes, for tests that kill and start them.
    pub fn with_app<T>(&self, action: impl FnOnce(&mut App) -> T) -> T {
        action(&mut lock(&self.stack).app)
    }

    /// Ends the app as a crash would, starts it again and waits until it is ready.
    pub fn restart(&self) {
        let mut stack = lock(&self.stack);
        let ready = stack.app.restart().and_then(|()| stack.wait_until_ready());
        ready.unwrap_or_else(|error| panic!("the app does not come back: {error:#}"));
    }

    /// The Redis server's process, for tests that hold it up.
    pub fn with_redis<T>(&self, action: impl FnOnce(&mut Redis) -> T) -> T {
        action(&mut lock(&self.stack).redis)
    }

    /// A connection to its Redis.
    pub async fn connect_redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.variables.get("redis_url")).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("Redis")
    }

    /// A call of the admin API.
    pub async fn call_admin(&self, method: Method, path: &str, body: &Value) -> Response {
        self.http.send(method, &format!("/api/admin{path}"), self.variables.get("admin_token"), body).await
    }

    /// One call of the sweeper.
    pub async fn sweep(&self) -> Value {
        self.http.post("/api/tasks/sweep", self.variables.get("cron_token"), &Value::Null).await.is(200).json()
    }

    /// The ledger's file, where it is SQLite.
    pub fn ledger_file(&self) -> std::path::PathBuf {
        lock(&self.stack).app.settings().ledger_file()
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let output = lock(&self.stack).app.output();
            let lines: Vec<&str> = output.lines().collect();
            eprintln!(
                "the app's last words:\n{}",
                lines[lines.len().saturating_sub(FAILURE_OUTPUT_LINES)..].join("\n")
            );
        }
    }
}

fn expect_ready(started: anyhow::Result<TestStack>) -> TestStack {
    let ready = started.and_then(|mut stack| stack.wait_until_ready().map(|()| stack));
    ready.unwrap_or_else(|error| panic!("{error:#}"))
}

fn lock(stack: &Mutex<TestStack>) -> MutexGuard<'_, TestStack> {
    // A test that failed while it held the app has poisoned nothing that the others need.
    stack.lock().unwrap_or_else(PoisonError::into_inner)
}
