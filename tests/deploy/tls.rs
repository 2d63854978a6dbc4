//! The kit's lines for TLS: nginx takes them, answers with them, and sends everybody else there (G9).

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use dev::{nginx::Nginx, root, scratch::Scratch};
use reqwest::{Client, redirect::Policy};

use crate::stand_in::StandIn;

/// A certificate of nobody's.
fn certify(directory: &Path) {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(directory).args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=sale.example"]);
    let made = openssl.args(["-keyout", "privkey.pem", "-out", "fullchain.pem"]).output().expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// What is answered to `request` over TLS, and what openssl says of the connection.
fn ask(port: u16, request: &str) -> String {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-ign_eof", "-servername", "sale.example", "-connect", &format!("127.0.0.1:{port}")]);
    let mut asking =
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("openssl");
    asking.stdin.take().expect("a pipe").write_all(request.as_bytes()).expect("sent");
    let output = asking.wait_with_output().expect("an answer");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_site_answers_over_tls_and_sends_everybody_there() {
    let app = StandIn::start().await;
    let scratch = Scratch::new().expect("a directory");
    certify(scratch.path());
    let nginx = Nginx::start_with_tls(scratch.path(), &root::find().expect("the project"), &[app.port]);
    let nginx = nginx.unwrap_or_else(|error| panic!("{error:#}"));
    let request = "GET /api/orders/demo.1 HTTP/1.1\r\nhost: sale.example\r\nconnection: close\r\n\r\n";
    let port = nginx.port();
    let answer = tokio::task::spawn_blocking(move || ask(port, request)).await.expect("an answer");
    assert!(answer.contains("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("Strict-Transport-Security"), "{answer}");
    assert!(answer.contains("TLSv1.3") || answer.contains("TLSv1.2"), "{answer}");
    assert_eq!(app.seen("/")[0].header("x-forwarded-proto"), "https");

    let client = Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client");
    let url = format!("{}/sale?activity=demo", nginx.redirect_url());
    let sent = client.get(url).header("host", "sale.example").send().await.expect("an answer");
    assert_eq!(sent.status().as_u16(), 308);
    assert_eq!(sent.headers()["location"], "https://sale.example/sale?activity=demo");
}
