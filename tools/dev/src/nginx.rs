//! Runs nginx with the site configuration of the self-hosted kit.
//!
//! Ports, paths, upstream servers and the read timeout are replaced, and `https://shop.example` may call. Tests cover the
//! rest of the file as it is shipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::unistd::Uid;

use crate::{
    poll::{self, Probe},
    ports,
    process::Process,
};

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// The kit's nginx directory, relative to the project's.
const NGINX_DIRECTORY: &str = "deploy/self-hosted/nginx";
/// Where operators work, as the kit has it.
const EVERY_HOST: &str = "default open;";

/// The operators' host name of [`Nginx::start_with_desk`].
pub const OPERATOR_HOST: &str = "operators.sale.example";

/// An nginx server with its own directory.
pub struct Nginx {
    process: Process,
    port: u16,
    redirect_port: u16,
    directory: PathBuf,
}

impl Nginx {
    /// Starts nginx without TLS in front of the apps at `app_ports`, for the project at `root`.
    pub fn start(directory: &Path, root: &Path, app_ports: &[u16]) -> Result<Self> {
        Self::start_with_listen(directory, root, app_ports, EVERY_HOST, plain_listen)
    }

    /// Like [`Nginx::start`], with an additional line in `stampede-listen.conf`.
    pub fn start_with_line(directory: &Path, root: &Path, app_ports: &[u16], line: &str) -> Result<Self> {
        Self::start_with_listen(directory, root, app_ports, EVERY_HOST, |port| plain_listen(port) + line)
    }

    /// Like [`Nginx::start`], with [`OPERATOR_HOST`] as the operators' host name.
    pub fn start_with_desk(directory: &Path, root: &Path, app_ports: &[u16]) -> Result<Self> {
        let hosts = format!("default closed;\n{OPERATOR_HOST} only;");
        Self::start_with_listen(directory, root, app_ports, &hosts, plain_listen)
    }

    /// Like [`Nginx::start`], but the header `X-Test-Client` is the client's address.
    pub fn start_with_client_header(directory: &Path, root: &Path, app_ports: &[u16]) -> Result<Self> {
        Self::start_with_listen(directory, root, app_ports, EVERY_HOST, |port| {
            format!(
                "listen 127.0.0.1:{port} backlog=4096;\nset_real_ip_from 127.0.0.1;\nreal_ip_header X-Test-Client;\n"
            )
        })
    }

    /// Like [`Nginx::start`], with the kit's TLS configuration and a new self-signed certificate, `fullchain.pem` in
    /// `directory`.
    pub fn start_with_tls(directory: &Path, root: &Path, app_ports: &[u16]) -> Result<Self> {
        create_certificate(directory)?;
        let path = root.join(NGINX_DIRECTORY).join("stampede-listen.conf");
        let lines = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let here = directory.to_string_lossy().into_owned();
        let ipv6_port = ports::pick_unused()?;
        Self::start_with_listen(directory, root, app_ports, EVERY_HOST, |port| {
            let lines = lines.replace("listen 443", &format!("listen 127.0.0.1:{port}"));
            lines.replace("[::]:443", &format!("127.0.0.1:{ipv6_port}")).replace("/etc/ssl/stampede", &here)
        })
    }

    fn start_with_listen(
        directory: &Path,
        root: &Path,
        app_ports: &[u16],
        desk_hosts: &str,
        listen: impl Fn(u16) -> String,
    ) -> Result<Self> {
        let (port, redirect_port, ipv6_redirect_port) =
            (ports::pick_unused()?, ports::pick_unused()?, ports::pick_unused()?);
        let here = directory.to_string_lossy();
        let parts = ["", "-lanes", "-operators", "-operator-host", "-cors"];
        for file in parts.map(|part| format!("stampede{part}.conf")) {
            let path = root.join(NGINX_DIRECTORY).join(&file);
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut lines = String::new();
            for line in text.lines() {
                match line.trim().strip_prefix("server 127.0.0.1:3000") {
                    Some(rest) => lines.extend(app_ports.iter().map(|app| format!("server 127.0.0.1:{app}{rest}\n"))),
                    None => lines.extend([line, "\n"]),
                }
            }
            // The IPv6 listeners get IPv4 ports of their own.
            let text = lines
                .replace("listen 80;", &format!("listen 127.0.0.1:{redirect_port};"))
                .replace("listen [::]:80;", &format!("listen 127.0.0.1:{ipv6_redirect_port};"))
                .replace(EVERY_HOST, desk_hosts)
                // The example of an origin that may call.
                .replace("# \"https://", "\"https://")
                .replace("/opt/stampede/current", &root.to_string_lossy())
                // Some tests delay requests, and a slow machine prolongs the delay.
                .replace("proxy_read_timeout 10s;", "proxy_read_timeout 60s;");
            let text = ["/etc/nginx", "/var/log/nginx", "/var/cache/nginx", "/var/www/html"]
                .iter()
                .fold(text, |text, path| text.replace(path, &here));
            fs::write(directory.join(file), text)?;
        }
        fs::write(directory.join("stampede-listen.conf"), listen(port))?;
        fs::write(directory.join("nginx.conf"), main_context(directory, redirect_port))?;
        Ok(Self { process: spawn(directory, port)?, port, redirect_port, directory: directory.to_owned() })
    }

    /// Ends nginx by `end`, and starts it again.
    pub fn restart(&mut self, end: impl FnOnce(&mut Process)) -> Result<()> {
        end(&mut self.process);
        self.process = spawn(&self.directory, self.port)?;
        Ok(())
    }

    /// The port of the site.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The site's URL, without TLS.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// URL of the server that redirects to HTTPS.
    pub fn redirect_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.redirect_port)
    }

    /// Its logs: of the site, of other servers, and the last lines of its output. Up to five seconds old.
    pub fn logs(&self) -> String {
        let logs = ["stampede.log", "stampede.error.log", "access.log"].map(|file| self.directory.join(file));
        let texts = logs.iter().map(|log| fs::read_to_string(log).unwrap_or_default());
        texts.chain([self.process.output()]).collect()
    }
}

/// Starts nginx on the configuration in `directory`, and waits until it listens.
fn spawn(directory: &Path, port: u16) -> Result<Process> {
    let mut command = Command::new(program()?);
    command.arg("-p").arg(directory).arg("-c").arg(directory.join("nginx.conf"));
    let mut process = Process::spawn("nginx", &mut command, None)?;
    let ready = poll::until("nginx to listen", START_TIMEOUT, || {
        ensure!(process.exited().is_none(), "nginx has ended");
        Ok(if ports::accepts_connections(port) { Probe::Ready(()) } else { Probe::Pending("closed") })
    });
    ready.with_context(|| format!("nginx wrote:\n{}", process.complete_output()))?;
    Ok(process)
}

fn create_certificate(directory: &Path) -> Result<()> {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(directory).args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=sale.example"]);
    let output =
        openssl.args(["-keyout", "privkey.pem", "-out", "fullchain.pem"]).output().context("cannot run openssl")?;
    ensure!(output.status.success(), "openssl wrote:\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn plain_listen(port: u16) -> String {
    format!("listen 127.0.0.1:{port} backlog=4096;\n")
}

/// The main configuration file, which includes the site, with an access log and a default site as Debian's has them.
fn main_context(directory: &Path, redirect_port: u16) -> String {
    let here = directory.display();
    // Workers of another user cannot read root's directories.
    let user = if Uid::effective().is_root() { "user root;\n" } else { "" };
    // For several apps, as the kit's README says; other systems do not know it.
    let epoll = if cfg!(target_os = "linux") { "    epoll_events 4096;\n" } else { "" };
    let temp_paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {here}/{kind};\n"))
        .collect();
    format!(
        "{user}daemon off;\nworker_processes 2;\npid {here}/nginx.pid;\nerror_log stderr notice;\n\
        events {{\n    worker_connections 4096;\n{epoll}}}\n\
        http {{\n    access_log {here}/access.log;\n{temp_paths}    include {here}/stampede.conf;\n\
        \x20   server {{\n        listen 127.0.0.1:{redirect_port} default_server;\n        server_name _;\n\
        \x20       return 200 \"Welcome to nginx!\";\n    }}\n}}\n"
    )
}

/// Returns the path of nginx. Does not search the PATH: Debian installs nginx in `/usr/sbin`, which is only on root's.
fn program() -> Result<PathBuf> {
    let known = ["/usr/sbin/nginx", "/opt/homebrew/bin/nginx", "/usr/local/bin/nginx"];
    let found = known.iter().map(PathBuf::from).find(|path| path.is_file());
    found.context("nginx is not installed: `apt-get install nginx` or `brew install nginx`")
}
