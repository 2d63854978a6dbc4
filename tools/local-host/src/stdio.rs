//! Writes the output of components to stderr, and to a log file per component and stream.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use anyhow::Context as _;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

/// Where the output of components is written.
#[derive(Debug, Clone)]
pub struct ComponentLogs {
    /// The directory of the log files, or `None` if there are none.
    pub directory: Option<PathBuf>,
}

impl ComponentLogs {
    /// Creates the directory of the log files, if there is one, and prints its path.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn create_directory(&self) -> anyhow::Result<()> {
        let Some(directory) = &self.directory else { return Ok(()) };
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the log directory {}", directory.display()))?;
        eprintln!("Logging component stdio to \"{}\"", directory.join("").display());
        Ok(())
    }

    /// Opens an output stream (`stdout` or `stderr`) for an instance of a component.
    ///
    /// # Errors
    /// If the log file cannot be opened.
    pub fn stream(&self, component: &str, name: &str) -> anyhow::Result<ComponentOutput> {
        let file = match &self.directory {
            Some(directory) => Some(open(&directory.join(format!("{component}_{name}.txt")))?),
            None => None,
        };
        Ok(ComponentOutput { file: Arc::new(Mutex::new(file)) })
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open the log file {}", path.display()))
}

/// The stdout or stderr of an instance. Writes are synchronous, as in Spin.
#[derive(Debug, Clone)]
pub struct ComponentOutput {
    file: Arc<Mutex<Option<File>>>,
}

impl ComponentOutput {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.as_mut() {
            file.write_all(bytes)?;
        }
        io::stderr().write_all(bytes)
    }
}

impl OutputStream for ComponentOutput {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        Self::write(self, &bytes).map_err(|error| StreamError::LastOperationFailed(error.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(1024 * 1024)
    }
}

#[async_trait]
impl Pollable for ComponentOutput {
    async fn ready(&mut self) {}
}

impl AsyncWrite for ComponentOutput {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.write(bytes).map(|()| bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl IsTerminal for ComponentOutput {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for ComponentOutput {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_appended_to_the_components_file() {
        let directory = tempfile::tempdir().unwrap();
        let logs = ComponentLogs { directory: Some(directory.path().to_owned()) };
        for line in ["one\n", "two\n"] {
            logs.stream("reserve", "stdout").unwrap().write(line.as_bytes()).unwrap();
        }
        let written = fs::read_to_string(directory.path().join("reserve_stdout.txt")).unwrap();
        assert_eq!(written, "one\ntwo\n");
    }
}
