//! The order writer of an app in a process of its own.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use dev::{app::Settings, manifest::Manifest, process::Process};
use nix::sys::signal::Signal;

use super::TestApp;

/// Delay until the next start of a writer that has ended, as in the unit of the self-hosted kit.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// A supervised order writer: its process ends with its connection to Redis, and is started again.
pub struct OrderWriter {
    process: Arc<Mutex<Process>>,
    stopping: Arc<AtomicBool>,
    supervisor: Option<JoinHandle<()>>,
}

impl OrderWriter {
    /// Starts the writer of an app that has only components with HTTP triggers.
    pub fn start(app: &TestApp) -> Self {
        let mut settings: Settings = app.with_app(|app| app.settings().clone());
        settings.components = Manifest::read(&settings.root).expect("a manifest").components_for("redis");
        let spawn = move || settings.spawn().expect("the order writer");
        let process = Arc::new(Mutex::new(spawn()));
        let stopping = Arc::new(AtomicBool::new(false));
        let (supervised, is_stopping) = (Arc::clone(&process), Arc::clone(&stopping));
        let supervisor = thread::spawn(move || {
            while !is_stopping.load(Ordering::SeqCst) {
                if supervised.lock().unwrap().exited().is_some() {
                    thread::sleep(RESTART_DELAY);
                    *supervised.lock().unwrap() = spawn();
                }
                thread::sleep(Duration::from_millis(50));
            }
        });
        Self { process, stopping, supervisor: Some(supervisor) }
    }

    /// Sends a signal to the writer.
    pub fn signal(&self, signal: Signal) {
        self.process.lock().unwrap().signal_with_children(signal);
    }
}

impl Drop for OrderWriter {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        let _ = self.supervisor.take().map(JoinHandle::join);
    }
}
