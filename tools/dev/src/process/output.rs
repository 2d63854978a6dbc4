//! What a process writes: drained, so that it never blocks, and kept, so that a failure can be explained.

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

/// Lines that are kept in memory.
const MAX_LINES: usize = 4_000;
/// Bytes of a log before it is put aside as `<log>.1`.
const MAX_LOG_BYTES: u64 = 20 * 1024 * 1024;

/// Both streams of a process, line by line.
#[derive(Clone)]
pub struct Output(Arc<Mutex<Buffer>>);

struct Buffer {
    lines: VecDeque<String>,
    log: Option<Log>,
    /// Streams that are still read.
    open_streams: usize,
}

struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Output {
    /// Starts to read both streams of `child`.
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

    /// Whether everything that will be written has been read.
    pub fn is_complete(&self) -> bool {
        self.lock().open_streams == 0
    }

    /// Waits until everything that will be written has been read.
    pub fn wait_until_complete(&self, timeout: Duration) {
        let _ = poll::until("the end of the output", timeout, || {
            Ok(if self.is_complete() { Probe::Ready(()) } else { Probe::Pending("open") })
        });
    }

    /// The first line kept for which `find` has an answer.
    pub fn find<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.lock().lines.iter().find_map(|line| find(line))
    }

    /// The lines kept.
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

    /// A full disk must not end what is being logged, so errors are dropped.
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
