//! Loses the last second of Redis's append-only file, as the crash of a machine does with `appendfsync everysec`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;

/// Records the size of Redis's append-only file every 20 ms, until it is dropped.
pub struct AofSizeRecorder {
    sizes: Arc<Mutex<Vec<(Instant, u64)>>>,
    stop: Arc<AtomicBool>,
    file: PathBuf,
}

impl AofSizeRecorder {
    /// Starts to record; `directory` is Redis's.
    pub fn start(directory: &Path) -> Self {
        let entries = fs::read_dir(directory.join("appendonlydir")).expect("an append-only file");
        let mut files = entries.flatten().map(|entry| entry.path());
        let file = files.find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("an append-only file");
        let (sizes, stop) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicBool::new(false)));
        let (recorded, stopped, path) = (Arc::clone(&sizes), Arc::clone(&stop), file.clone());
        thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                // Take the time first: the recorded size is of that time or later.
                let at = Instant::now();
                let size = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                recorded.lock().unwrap().push((at, size));
                thread::sleep(Duration::from_millis(20));
            }
        });
        Self { sizes, stop, file }
    }

    /// Truncates the file to a random size between that of one second ago and the current one, and to the end of a
    /// script: Redis 7.0 leaves the `MULTI` of a torn script in the file, and at its next start but one applies a part of
    /// the script.
    pub fn truncate_last_second(&self, rng: &mut Rng) {
        let now = fs::metadata(&self.file).expect("the file").len();
        let second_ago = Instant::now() - Duration::from_secs(1);
        let sizes = self.sizes.lock().unwrap();
        let then = sizes.iter().find(|(at, _)| *at >= second_ago).map_or(now, |(_, size)| *size);
        let file = fs::OpenOptions::new().write(true).open(&self.file).expect("the file");
        file.set_len(rng.u64(then.min(now)..=now)).expect("cut");
        let kept = fs::read(&self.file).expect("the file");
        let last = |command: &[u8]| kept.windows(command.len()).rposition(|window| window == command);
        if let Some(multi) = last(b"*1\r\n$5\r\nMULTI\r\n")
            && last(b"*1\r\n$4\r\nEXEC\r\n").is_none_or(|exec| exec < multi)
        {
            file.set_len(multi as u64).expect("cut");
        }
    }
}

impl Drop for AofSizeRecorder {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}
