//! Reads the output of a process: keeps the last lines and appends all lines to a log.
//!
//! Reading continuously keeps the process from blocking on a full pipe.

use std::{
    collections::VecDeque,
    fs::{self, File, OpenOptions},
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::Child,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use crate::poll::{self, Probe};

/// Number of lines kept in memory.
const MAX_LINES: usize = 4_000;
/// Size at which a log is renamed to `<log>.1`, in bytes.
const MAX_LOG_BYTES: u64 = 20 * 1024 * 1024;

/// Standard output and standard error of a process, line by line.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Buffer>>);

struct Buffer {
    lines: VecDeque<String>,
    log: Option<Log>,
    /// Number of streams that are not closed yet.
    open_streams: usize,
}

struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Output {
    /// Starts a thread that reads each stream of `child`.
    pub fn drain(child: &mut Child, log: Option<&Path>) -> Result<Self> {
        let log = log.map(Log::open).transpose()?;
        let output = Self(Arc::new(Mutex::new(Buffer { lines: VecDeque::new(), log, open_streams: 0 })));
        if let Some(stdout) = child.stdout.take() {
            output.drain_stream(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.drain_stream(stderr);
        }
        Ok(output)
    }

    fn drain_stream(&self, stream: impl Read + Send + 'static) {
        let output = self.clone();
        output.lock().open_streams += 1;
        thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
                output.lock().push(String::from_utf8_lossy(&line).trim_end().to_owned());
                line.clear();
            }
            output.lock().open_streams -= 1;
        });
    }

    /// Whether both streams are closed and read completely.
    pub fn is_complete(&self) -> bool {
        self.lock().open_streams == 0
    }

    /// Waits until both streams are closed and read completely, or until the timeout.
    pub fn wait_until_complete(&self, timeout: Duration) {
        let _ = poll::until("the end of the output", timeout, || {
            Ok(if self.is_complete() { Probe::Ready(()) } else { Probe::Pending("open") })
        });
    }

    /// The first kept line for which `find` returns a value.
    pub fn find<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.lock().lines.iter().find_map(|line| find(line))
    }

    /// The kept lines.
    pub fn text(&self) -> String {
        self.lock().lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffer {
    fn push(&mut self, line: String) {
        if let Some(log) = &mut self.log {
            log.write(&line);
        }
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }
}

impl Log {
    fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes })
    }

    /// Write errors are ignored: a full disk must not end the logged process.
    fn write(&mut self, line: &str) {
        if self.bytes > MAX_LOG_BYTES
            && fs::rename(&self.path, self.path.with_extension("log.1")).is_ok()
            && let Ok(new) = Log::open(&self.path)
        {
            *self = new;
        }
        self.bytes += line.len() as u64 + 1;
        let _ = writeln!(self.file, "{line}");
    }
}
