//! When a process of the engine is asked to end: by a signal, or by the end of its parent.

use std::io::Read as _;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for Ctrl-C or SIGTERM, and in a child for the end of the parent.
pub async fn requested(watch_parent: bool) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        () = parent_exited(), if watch_parent => {}
    }
}

/// The parent holds the other end of stdin and never writes: the end of it is the end of the parent,
/// however that died.
async fn parent_exited() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A thread of its own: a read on the runtime's threads would keep the process from ending.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = sender.send(());
    });
    let _ = receiver.await;
}
