//! A ledger on a PostgreSQL that accepts only TLS, and a Redis with TLS and a password (G8).

use std::{fs, path::Path, process::Command};

use dev::{manifest::Manifest, ports, postgres::Postgres, redis::Redis};
use serde_json::json;
use support::{HttpClient, TestApp};
use tempfile::TempDir;

/// Creates a certificate authority `NAME.pem` in `directory`, and a certificate `NAME-server.pem` of it for 127.0.0.1 with
/// its key.
fn create_certificates(directory: &Path, name: &str) {
    let openssl = |arguments: &str| {
        let arguments = arguments.replace("NAME", name);
        let output = Command::new("openssl").current_dir(directory).args(arguments.split(' ')).output();
        let output = output.expect("openssl");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    };
    fs::write(directory.join("extensions"), "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1\n")
        .expect("a file");
    openssl("req -x509 -newkey rsa:2048 -nodes -subj /CN=NAME -keyout NAME.key -out NAME.pem");
    openssl("req -newkey rsa:2048 -nodes -subj /CN=server -keyout NAME-server.key -out NAME-server.csr");
    openssl(
        "x509 -req -in NAME-server.csr -CA NAME.pem -CAkey NAME.key -CAcreateserial -extfile extensions -out NAME-server.pem",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_runs_over_tls_and_only_with_a_ledger_whose_certificate_holds() {
    let directory = TempDir::new().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    create_certificates(directory.path(), "trusted");
    create_certificates(directory.path(), "stranger");
    let postgres = Postgres::with_tls(&file("trusted-server.pem"), &file("trusted-server.key")).expect("PostgreSQL");
    let stranger = Postgres::with_tls(&file("stranger-server.pem"), &file("stranger-server.key")).expect("PostgreSQL");
    let plain = Postgres::ephemeral().expect("PostgreSQL");
    let address = |server: &Postgres, host: &str, mode: &str| {
        format!("postgres://postgres@{host}:{}/postgres{mode}", server.port())
    };

    let app = TestApp::with_settings(&[], |settings| {
        let trusted = file("trusted.pem").to_string_lossy().into_owned();
        settings.environment.push(("SSL_CERT_FILE".to_owned(), trusted));
        settings.variables.set_ledger(&address(&postgres, "127.0.0.1", "?sslmode=require")).expect("a URL");
    });
    let (_, ada, order_no) = app.create_order(json!({})).await;
    app.pay_by_callback(&order_no, &ada.jwt).await;
    app.wait_for_status(&order_no, &ada.jwt, "paid").await;

    for (case, url) in [
        ("a certificate of an unknown authority", address(&stranger, "127.0.0.1", "?sslmode=require")),
        ("the same, with the default mode", address(&stranger, "127.0.0.1", "")),
        ("a certificate for another name", address(&postgres, "localhost", "?sslmode=require")),
        ("a server without TLS", address(&plain, "127.0.0.1", "?sslmode=require")),
        ("no TLS where the server wants it", address(&postgres, "127.0.0.1", "?sslmode=disable")),
    ] {
        let base_url = app.with_app(|app| {
            app.variables_mut().set_ledger(&url).expect("a URL");
            app.restart().expect("a start");
            app.url().to_owned()
        });
        let ready = HttpClient::new(&base_url).get("/readyz", app.variables.get("metrics_token")).await;
        let checks = ready.is_problem(503, "not_ready");
        assert!(checks.body.contains(r#""ledger":"not reachable""#), "{case}: {checks:?}");
    }
    // The default mode uses TLS where the server has it, and none where it has none.
    for server in [&postgres, &plain] {
        app.restart_with(|variables| variables.set_ledger(&address(server, "127.0.0.1", "")).expect("a URL"));
    }
}

/// Settings of a Redis server that also accepts TLS, on this port, and has a user `app` with the password `secret`.
fn redis_settings(directory: &Path, name: &str, port: u16) -> Vec<String> {
    let file = |end: &str| directory.join(format!("{name}{end}")).display().to_string();
    let (authority, certificate, key) = (file(".pem"), file("-server.pem"), file("-server.key"));
    let settings = format!(
        "--tls-port {port} --tls-auth-clients no --tls-ca-cert-file {authority} --tls-cert-file {certificate} \
         --tls-key-file {key} --user app on >secret ~* &* +@all"
    );
    settings.split(' ').map(str::to_owned).collect()
}

fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sale_runs_on_a_redis_with_tls_and_a_password_and_only_if_its_certificate_holds() {
    let directory = TempDir::new().expect("a directory");
    create_certificates(directory.path(), "trusted");
    create_certificates(directory.path(), "stranger");
    let (port, strangers_port) = (ports::pick_unused().expect("a port"), ports::pick_unused().expect("a port"));
    let settings = redis_settings(directory.path(), "trusted", port);
    let strangers = redis_settings(directory.path(), "stranger", strangers_port);
    let trust = |settings: &mut dev::app::Settings| {
        let trusted = directory.path().join("trusted.pem").display().to_string();
        settings.environment.push(("SSL_CERT_FILE".to_owned(), trusted));
    };
    let app = TestApp::with_settings(&as_strs(&settings), |settings| {
        trust(settings);
        settings.variables.set_redis(&format!("rediss://app:secret@127.0.0.1:{port}")).expect("a URL");
    });
    let (_, ada, order_no) = app.create_order(json!({})).await;
    app.pay_by_callback(&order_no, &ada.jwt).await;
    app.wait_for_status(&order_no, &ada.jwt, "paid").await;

    // Without the order writer, whose process ends without Redis.
    let _stranger = Redis::start_with(
        &directory.path().join("redis"),
        ports::pick_unused().expect("a port"),
        None,
        &as_strs(&strangers),
    )
    .expect("Redis");
    let other = TestApp::with_settings(&[], |settings| {
        trust(settings);
        settings.components = Manifest::read(&settings.root).expect("a manifest").components_for("http");
    });
    for (case, url, fault) in [
        ("a wrong password", format!("rediss://app:guess@127.0.0.1:{port}"), "asks for a password"),
        ("a certificate for another name", format!("rediss://app:secret@localhost:{port}"), "not reachable"),
        ("an unknown authority", format!("rediss://app:secret@127.0.0.1:{strangers_port}"), "not reachable"),
    ] {
        let base_url = other.with_app(|app| {
            app.variables_mut().set_redis(&url).expect("a URL");
            app.restart().expect("a start");
            app.url().to_owned()
        });
        let ready = HttpClient::new(&base_url).get("/readyz", other.variables.get("metrics_token")).await;
        let checks = ready.is_problem(503, "not_ready");
        assert!(checks.body.contains(&format!(r#""redis":"{fault}"#)), "{case}: {checks:?}");
    }
}
