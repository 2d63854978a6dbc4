//! A running app with its Redis and ledger, and helpers that act on them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use dev::{
    app::{App, Settings},
    postgres::Postgres,
    private_data,
    redis::Redis,
    test_stack::TestStack,
    variables::Variables,
};
use redis::{FromRedisValue, aio::MultiplexedConnection};
use reqwest::Method;
use serde_json::Value;

use super::{HttpClient, Response};

/// Number of trailing lines of the app's output that a failing test prints.
const FAILURE_OUTPUT_LINES: usize = 80;

/// A running app, shared between tests or dedicated to one, with a separate HTTP client for each test.
pub struct TestApp {
    /// Client for the app's base URL.
    pub http: HttpClient,
    /// The variables that the app was started with, secrets included.
    pub variables: Variables,
    stack: Arc<Mutex<TestStack>>,
}

impl TestApp {
    /// Returns the app that most tests share; each test uses its own activities. Starts it on first use.
    pub fn shared() -> Self {
        static SHARED: OnceLock<Arc<Mutex<TestStack>>> = OnceLock::new();
        Self::from_shared_stack(Arc::clone(SHARED.get_or_init(|| start(&[], |_| {}))))
    }

    /// Starts an app for one test, which may kill it or change its data.
    pub fn dedicated() -> Self {
        Self::with_variables(|_| {})
    }

    /// As [`TestApp::dedicated`], after `adjust` has changed the variables.
    pub fn with_variables(adjust: impl FnOnce(&mut Variables)) -> Self {
        Self::with_settings(&[], |settings| adjust(&mut settings.variables))
    }

    /// As [`TestApp::dedicated`], with additional Redis settings, after `adjust` has changed the app's settings.
    pub fn with_settings(redis_settings: &[&str], adjust: impl FnOnce(&mut Settings)) -> Self {
        Self::from_shared_stack(start(redis_settings, adjust))
    }

    /// As [`TestApp::dedicated`], with a ledger on a PostgreSQL of its own.
    pub fn on_postgres() -> (Postgres, Self) {
        let postgres = Postgres::ephemeral().expect("PostgreSQL");
        let app = Self::with_variables(|variables| variables.set_ledger(&postgres.url()).expect("a URL"));
        (postgres, app)
    }

    /// The app's port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        let port = self.with_app(|app| app.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok()));
        port.expect("a port")
    }

    fn from_shared_stack(stack: Arc<Mutex<TestStack>>) -> Self {
        let guard = lock(&stack);
        let (url, variables) = (guard.app.url().to_owned(), guard.app.settings().variables.clone());
        drop(guard);
        Self { http: HttpClient::new(&url), variables, stack }
    }

    /// Runs `action` on the engine's processes, for tests that signal, kill or restart them.
    pub fn with_app<T>(&self, action: impl FnOnce(&mut App) -> T) -> T {
        action(&mut lock(&self.stack).app)
    }

    /// Kills the app, starts it again and waits until it is ready.
    pub fn restart(&self) {
        let mut stack = lock(&self.stack);
        let ready = stack.app.restart().and_then(|()| stack.wait_until_ready());
        ready.unwrap_or_else(|error| panic!("the app does not come back: {error:#}"));
    }

    /// Changes variables and starts the app again with them.
    pub fn restart_with(&self, change: impl FnOnce(&mut Variables)) {
        self.with_app(|app| change(app.variables_mut()));
        self.restart();
    }

    /// Runs `action` on the Redis server, for tests that freeze, kill or restart it.
    pub fn with_redis<T>(&self, action: impl FnOnce(&mut Redis) -> T) -> T {
        action(&mut lock(&self.stack).redis)
    }

    /// Opens a connection to the Redis URL that the app uses.
    pub async fn connect_redis(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.variables.get("redis_url")).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("Redis")
    }

    /// Sends a command to each Redis server of the app in turn, until one has the command's key.
    pub async fn ask_redis<T: FromRedisValue>(&self, command: &[&str]) -> T {
        for url in self.variables.get("redis_url").split(' ') {
            let client = redis::Client::open(url).expect("a URL");
            if let Ok(mut connection) = client.get_multiplexed_async_connection().await
                && let Ok(reply) = redis::cmd(command[0]).arg(&command[1..]).query_async(&mut connection).await
            {
                return reply;
            }
        }
        panic!("no server answers {command:?}");
    }

    /// Sends a request to `/api/admin{path}` with the admin token.
    pub async fn call_admin(&self, method: Method, path: &str, body: &Value) -> Response {
        self.http.send(method, &format!("/api/admin{path}"), self.variables.get("admin_token"), body).await
    }

    /// Runs the sweeper once and returns its report.
    pub async fn sweep(&self) -> Value {
        self.http.post("/api/tasks/sweep", self.variables.get("cron_token"), &Value::Null).await.is(200).json()
    }

    /// The app's whole log, including those of its earlier starts.
    pub fn log(&self) -> String {
        let log = lock(&self.stack).app.settings().log.clone().expect("a log");
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Path of the SQLite ledger; the file does not exist if the ledger is PostgreSQL.
    pub fn ledger_file(&self) -> std::path::PathBuf {
        lock(&self.stack).app.settings().ledger_file()
    }
}

impl Drop for TestApp {
    /// Checks the logs of the app and its servers for secrets and personal data (G6); after a failure prints the app's.
    fn drop(&mut self) {
        let is_last = Arc::strong_count(&self.stack) == 1;
        let mut stack = lock(&self.stack);
        if std::thread::panicking() {
            let output = stack.app.output();
            let lines: Vec<&str> = output.lines().collect();
            eprintln!(
                "last output of the app:\n{}",
                lines[lines.len().saturating_sub(FAILURE_OUTPUT_LINES)..].join("\n")
            );
            return;
        }
        if is_last {
            // The lines of the last requests are in the log, too.
            stack.app.kill();
        }
        let settings = stack.app.settings().clone();
        let log = settings.log.as_deref().expect("a log");
        assert_eq!(private_data::find_in_log(log, &settings.variables), None, "the app's log");
        let redis = stack.redis.process().output();
        assert_eq!(private_data::find(&redis, &settings.variables), None, "Redis's log");
        if let Some(postgres) = &stack.postgres {
            assert_eq!(private_data::find(&postgres.output(), &settings.variables), None, "PostgreSQL's log");
        }
    }
}

/// Starts an app that keeps its whole log, and waits until it is ready; panics if it is not.
fn start(redis_settings: &[&str], adjust: impl FnOnce(&mut Settings)) -> Arc<Mutex<TestStack>> {
    let started = TestStack::start_with(redis_settings, |settings| {
        settings.log = Some(settings.directory.join("app.log"));
        adjust(settings);
    });
    let ready = started.and_then(|mut stack| stack.wait_until_ready().map(|()| stack));
    Arc::new(Mutex::new(ready.unwrap_or_else(|error| panic!("{error:#}"))))
}

fn lock(stack: &Mutex<TestStack>) -> MutexGuard<'_, TestStack> {
    // A panic while the lock is held leaves the stack usable for other tests: ignore the poisoning.
    stack.lock().unwrap_or_else(PoisonError::into_inner)
}
