//! The kit's TLS configuration: nginx accepts it, serves HTTPS, and redirects HTTP to it (G9).

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

use dev::{nginx::Nginx, root};
use reqwest::redirect::Policy;
use support::client_builder;
use tempfile::TempDir;

use crate::fake_app::FakeApp;

/// Sends `GET path` over TLS, and returns the response with openssl's report of the connection. `options` are openssl's.
fn request_over_tls(port: u16, path: &str, options: &[&str]) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: sale.example\r\nconnection: close\r\n\r\n");
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-ign_eof", "-servername", "sale.example", "-connect", &format!("127.0.0.1:{port}")]);
    openssl.args(options);
    let mut process =
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("openssl");
    // Without a connection openssl ends before it reads.
    let _ = process.stdin.take().expect("a pipe").write_all(request.as_bytes());
    let output = process.wait_with_output().expect("an answer");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts nginx with the kit's TLS configuration in front of an app, and returns the directory of its files, too.
async fn start() -> (FakeApp, Nginx, TempDir) {
    let app = FakeApp::start().await;
    let temp_dir = TempDir::new().expect("a directory");
    let nginx = Nginx::start_with_tls(temp_dir.path(), &root::find().expect("the project"), &[app.port]);
    (app, nginx.unwrap_or_else(|error| panic!("{error:#}")), temp_dir)
}

/// The log is on the disk of Redis and of SQLite, and has the client's address in each line.
#[tokio::test(flavor = "multi_thread")]
async fn broken_handshakes_are_not_logged() {
    let (_app, nginx, temp_dir) = start().await;
    for hello in [&b"\x16\x03\x01\xff\xff"[..], b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"GET / HTTP/1.1\r\n\r\n"]
    {
        let mut connection = TcpStream::connect(("127.0.0.1", nginx.port())).expect("a connection");
        connection.write_all(hello).expect("sent");
        // nginx writes its line before it closes the connection.
        let _ = connection.read_to_end(&mut Vec::new());
    }
    let log = fs::read_to_string(temp_dir.path().join("stampede.error.log")).expect("the log");
    assert_eq!(log, "");
    assert!(!nginx.logs().contains("SSL"), "{}", nginx.logs());
}

/// By tickets, which nginx keeps nowhere: a cache of sessions can be filled, and is then a line of the log for each handshake.
#[tokio::test(flavor = "multi_thread")]
async fn returning_clients_resume_their_session_and_nginx_keeps_none() {
    let (_app, nginx, temp_dir) = start().await;
    for version in ["-tls1_2", "-tls1_3"] {
        let session = temp_dir.path().join(version);
        let session = session.to_str().expect("UTF-8");
        let first = request_over_tls(nginx.port(), "/busy.html", &[version, "-sess_out", session]);
        assert!(first.contains("New, TLSv1"), "{version}: {first}");
        let second = request_over_tls(nginx.port(), "/busy.html", &[version, "-sess_in", session]);
        assert!(second.contains("Reused, TLSv1"), "{version}: {second}");
    }
    let site = fs::read_to_string(temp_dir.path().join("stampede-listen.conf")).expect("the site");
    assert!(site.contains("\nssl_session_cache none;\n"), "{site}");
}

/// The client chooses the key exchange, which it need not compute itself.
#[tokio::test(flavor = "multi_thread")]
async fn dear_key_exchanges_are_refused() {
    let (_app, nginx, _temp_dir) = start().await;
    for (group, is_taken) in
        [("X25519", true), ("P-256", true), ("P-384", false), ("X448", false), ("ffdhe8192", false)]
    {
        let options = ["-tls1_3", "-groups", group];
        let port = nginx.port();
        let response = tokio::task::spawn_blocking(move || request_over_tls(port, "/busy.html", &options));
        let response = response.await.expect("openssl's report");
        assert_eq!(response.contains("HTTP/1.1 200 OK"), is_taken, "{group}: {response}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_site_serves_tls_and_redirects_http_to_https() {
    let (_app, nginx, temp_dir) = start().await;
    let port = nginx.port();
    let response = tokio::task::spawn_blocking(move || request_over_tls(port, "/api/orders/demo.1", &[]))
        .await
        .expect("an answer");
    assert!(response.contains("HTTP/1.1 200 OK"), "{response}");
    assert!(response.contains("Strict-Transport-Security"), "{response}");
    assert!(response.contains("TLSv1.3") || response.contains("TLSv1.2"), "{response}");

    let client = client_builder().redirect(Policy::none()).build().expect("a client");
    let url = format!("{}/sale?activity=demo", nginx.redirect_url());
    let redirect = client.get(url).header("host", "sale.example").send().await.expect("an answer");
    assert_eq!(redirect.status().as_u16(), 308);
    assert_eq!(redirect.headers()["location"], "https://sale.example/sale?activity=demo");

    let challenge = "/.well-known/acme-challenge/token";
    let file = temp_dir.path().join(&challenge[1..]);
    fs::create_dir_all(file.parent().expect("a directory")).expect("created");
    fs::write(file, "proof").expect("written");
    let answer = client.get(format!("{}{challenge}", nginx.redirect_url())).header("host", "sale.example");
    assert_eq!(answer.send().await.expect("an answer").text().await.expect("text"), "proof");
}
