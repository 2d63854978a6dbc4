//! Several app processes on one Redis and one PostgreSQL, behind nginx as in the self-hosted kit.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Mutex,
    time::Duration,
};

use dev::{
    app::{App, Settings},
    nginx::Nginx,
    ports,
    postgres::Postgres,
    process::Process,
    root,
};
use support::{HttpClient, TestApp};
use tempfile::TempDir;

/// Running app processes. Fields are dropped in order: the servers end after the app processes.
pub struct Cluster {
    /// The first app process with its Redis and ledger. Its client sends requests to nginx, if there is one.
    pub app: TestApp,
    other_apps: Vec<Mutex<App>>,
    nginx: Option<Mutex<Nginx>>,
    postgres: Option<Mutex<Postgres>>,
    _temp_dir: Option<TempDir>,
}

impl Cluster {
    /// Starts one app process without nginx, with the default ledger.
    pub fn of_one(redis_settings: &[&str]) -> Self {
        let mut app = TestApp::with_settings(redis_settings, |_| {});
        app.http = app.http.tolerating_shutdown();
        Self { app, other_apps: vec![], nginx: None, postgres: None, _temp_dir: None }
    }

    /// Starts one app process without nginx, on PostgreSQL.
    pub fn on_postgres(redis_settings: &[&str]) -> Self {
        let postgres = Postgres::ephemeral().expect("PostgreSQL");
        let app = TestApp::with_settings(redis_settings, |settings| {
            settings.variables.set_ledger(&postgres.url()).expect("a URL");
        });
        Self { app, other_apps: vec![], nginx: None, postgres: Some(Mutex::new(postgres)), _temp_dir: None }
    }

    /// Starts `app_processes` behind nginx. Each has its own key-value store.
    pub fn behind_nginx(app_processes: usize, redis_settings: &[&str]) -> Self {
        let postgres = Postgres::ephemeral().expect("PostgreSQL");
        let temp_dir = TempDir::new().expect("a directory");
        let mut app = TestApp::with_settings(redis_settings, |settings| {
            settings.variables.set_ledger(&postgres.url()).expect("a URL");
            settings.variables.set("trusted_hops", "1");
        });
        let settings = app.with_app(|app| app.settings().clone());
        let mut other_apps = vec![];
        for number in 1..app_processes {
            let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, ports::pick_unused().expect("a port")));
            let directory = temp_dir.path().join(format!("app-{number}"));
            let mut other = App::start(Settings { directory, listen, ..settings.clone() }).expect("another app");
            other.wait_until_ready().expect("ready");
            other_apps.push(Mutex::new(other));
        }
        let others = other_apps.iter().map(|other| port(&other.lock().unwrap()));
        let app_ports: Vec<_> = std::iter::once(app.with_app(|app| port(app))).chain(others).collect();
        let root = root::find().expect("the project");
        let nginx = Nginx::start(temp_dir.path(), &root, &app_ports).unwrap_or_else(|error| panic!("{error:#}"));
        app.http = HttpClient::of_proxy(&nginx.url()).tolerating_shutdown();
        let (nginx, postgres) = (Some(Mutex::new(nginx)), Some(Mutex::new(postgres)));
        Self { app, other_apps, nginx, postgres, _temp_dir: Some(temp_dir) }
    }

    /// Number of app processes.
    pub fn len(&self) -> usize {
        1 + self.other_apps.len()
    }

    /// Runs `action` on an app process, for tests that kill or signal it.
    pub fn with_process<T>(&self, index: usize, action: impl FnOnce(&mut App) -> T) -> T {
        match index {
            0 => self.app.with_app(action),
            _ => action(&mut self.other_apps[index - 1].lock().unwrap()),
        }
    }

    /// Crashes and restarts the PostgreSQL beside the app processes. Returns `false` if there is none.
    pub fn restart_postgres(&self, pause: Duration) -> bool {
        let Some(postgres) = &self.postgres else { return false };
        postgres.lock().unwrap().crash_and_restart(pause).expect("PostgreSQL comes back");
        true
    }

    /// Ends nginx by `end`, and starts it again.
    pub fn restart_nginx(&self, end: impl FnOnce(&mut Process)) {
        self.nginx.as_ref().expect("nginx").lock().unwrap().restart(end).expect("nginx comes back");
    }

    /// Ends an app process with `SIGTERM`, starts it again and waits until it is ready.
    pub fn restart_gracefully(&self, index: usize) {
        self.with_process(index, |app| app.process().stop());
        self.restart(index);
    }

    /// Kills an app process, starts it again and waits until it is ready.
    pub fn restart(&self, index: usize) {
        match index {
            0 => self.app.restart(),
            _ => self.with_process(index, |app| {
                app.restart().and_then(|()| app.wait_until_ready()).expect("the app process comes back");
            }),
        }
    }
}

fn port(app: &App) -> u16 {
    app.url().rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}
