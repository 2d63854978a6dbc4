//! Waits for a shutdown request: a signal, or the exit of the parent process.

use std::io::Read as _;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM, or with `watch_parent` for the exit of the parent process.
pub async fn requested(watch_parent: bool) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers, the signals terminate the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = parent_exited(), if watch_parent => {}
    }
}

/// The parent holds the write end of stdin and never writes, so end of file means that the parent has
/// exited, even if it was killed.
async fn parent_exited() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A blocking read on one of the runtime's threads would prevent the process from exiting.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = sender.send(());
    });
    let _ = receiver.await;
}
