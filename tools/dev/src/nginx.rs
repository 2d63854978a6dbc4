//! An nginx that serves the site of the kit for self-hosting: the very file, with other ports and paths.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::unistd::Uid;

use crate::{
    poll::{self, Look},
    ports,
    process::Process,
};

const PATIENCE: Duration = Duration::from_secs(60);
/// Where the kit's files are.
const KIT: &str = "deploy/self-hosted/nginx";

/// A server in a directory of its own.
pub struct Nginx {
    process: Process,
    port: u16,
    redirect: u16,
}

impl Nginx {
    /// Starts one without TLS before the apps at some ports, for the project at `root`.
    ///
    /// # Errors
    /// When nginx is missing, or does not take the site.
    pub fn start(directory: &Path, root: &Path, apps: &[u16]) -> Result<Self> {
        Self::start_listening(directory, root, apps, |port| format!("listen 127.0.0.1:{port} backlog=4096;\n"))
    }

    /// The same with the kit's own lines for TLS, and the certificate `fullchain.pem` with `privkey.pem` in `directory`.
    ///
    /// # Errors
    /// As [`Nginx::start`].
    pub fn start_with_tls(directory: &Path, root: &Path, apps: &[u16]) -> Result<Self> {
        let path = root.join(KIT).join("stampede-listen.conf");
        let lines = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let here = directory.to_string_lossy().into_owned();
        let other = ports::free()?;
        Self::start_listening(directory, root, apps, |port| {
            let lines = lines.replace("listen 443", &format!("listen 127.0.0.1:{port}"));
            lines.replace("[::]:443", &format!("127.0.0.1:{other}")).replace("/etc/ssl/stampede", &here)
        })
    }

    fn start_listening(directory: &Path, root: &Path, apps: &[u16], listen: impl Fn(u16) -> String) -> Result<Self> {
        let (port, redirect, spare) = (ports::free()?, ports::free()?, ports::free()?);
        let path = root.join(KIT).join("stampede.conf");
        let site = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let here = directory.to_string_lossy();
        let mut lines = String::new();
        for line in site.lines() {
            match line.trim().strip_prefix("server 127.0.0.1:3000") {
                Some(rest) => lines.extend(apps.iter().map(|app| format!("server 127.0.0.1:{app}{rest}\n"))),
                None => lines.extend([line, "\n"]),
            }
        }
        let site = lines
            .replace("listen 80;", &format!("listen 127.0.0.1:{redirect};"))
            .replace("listen [::]:80;", &format!("listen 127.0.0.1:{spare};"))
            .replace("/opt/stampede", &root.to_string_lossy())
            // A test that holds requests up holds them for longer where the machine is slow.
            .replace("proxy_read_timeout 10s;", "proxy_read_timeout 60s;");
        let site = ["/etc/nginx", "/var/log/nginx", "/var/cache/nginx"]
            .iter()
            .fold(site, |site, path| site.replace(path, &here));
        fs::write(directory.join("stampede.conf"), site)?;
        fs::write(directory.join("stampede-listen.conf"), listen(port))?;
        let whole = directory.join("nginx.conf");
        fs::write(&whole, main_context(directory))?;
        let mut command = Command::new(program()?);
        command.arg("-p").arg(directory).arg("-c").arg(&whole);
        let mut process = Process::spawn("nginx", &mut command, None)?;
        let ready = poll::until("nginx to listen", PATIENCE, || {
            ensure!(process.exited().is_none(), "nginx has ended");
            Ok(if ports::answers(port) { Look::Done(()) } else { Look::Waiting("closed") })
        });
        ready.with_context(|| format!("nginx wrote:\n{}", process.complete_output()))?;
        Ok(Self { process, port, redirect })
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it serves the site, without TLS.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Where it sends everybody to TLS.
    #[must_use]
    pub fn redirect_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.redirect)
    }

    /// What it wrote.
    #[must_use]
    pub fn output(&self) -> String {
        self.process.output()
    }
}

/// What stands around the site on a machine of its own.
fn main_context(directory: &Path) -> String {
    let here = directory.display();
    // Workers that are nobody could not read a directory of root's.
    let user = if Uid::effective().is_root() { "user root;\n" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {here}/{kind};\n"))
        .collect();
    format!(
        "{user}daemon off;\nworker_processes 2;\npid {here}/nginx.pid;\nerror_log stderr notice;\n\
        events {{\n    worker_connections 4096;\n}}\n\
        http {{\n    access_log off;\n{temporary}    include {here}/stampede.conf;\n}}\n"
    )
}

/// Debian keeps it where only root's PATH looks.
fn program() -> Result<PathBuf> {
    let known = ["/usr/sbin/nginx", "/opt/homebrew/bin/nginx", "/usr/local/bin/nginx"];
    let found = known.iter().map(PathBuf::from).find(|path| path.is_file());
    found.context("nginx is not installed: `apt-get install nginx` or `brew install nginx`")
}
