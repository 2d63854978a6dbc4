//! The archive of a release: from unpacking to a sold unit, with an engine and nothing built (G1, G9).

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use dev::{
    engine::{Engine, target_directory},
    ports,
    process::Process,
    root,
    variables::Variables,
};
use reqwest::Method;
use serde_json::{Value, json};
use support::{HttpClient, activity::activity_spec, eventually};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(300);

/// Makes the archive of this build, unpacks it, and returns the folder.
pub fn unpacked(directory: &Path) -> PathBuf {
    let script = root::find().expect("the project").join("scripts/release");
    let output = Command::new(script).args(["--no-build", "--no-sbom"]).arg(directory).output().expect("a release");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let archive = String::from_utf8(output.stdout).expect("UTF-8").lines().last().expect("its path").to_owned();
    let unpacked = directory.join("unpacked");
    fs::create_dir(&unpacked).expect("a directory");
    let tar = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(&unpacked).status().expect("tar");
    assert!(tar.success(), "{tar}");
    fs::read_dir(&unpacked).expect("a folder").next().expect("a folder").expect("a folder").path()
}

/// A `PATH` on which the engine of the tests is `spin`.
fn path_with_spin(directory: &Path) -> String {
    let program =
        Engine::discover(None).expect("an engine").program(&target_directory(&root::find().expect("a project")));
    let path = env::var("PATH").expect("a path");
    if program.file_name().is_some_and(|name| name == "spin") {
        return path;
    }
    let spin = directory.join("spin");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 'spin 4.1.0' && exit\nexec '{}' \"$@\"\n",
        program.display()
    );
    fs::write(&spin, script).expect("a program");
    fs::set_permissions(&spin, fs::Permissions::from_mode(0o755)).expect("executable");
    format!("{}:{path}", directory.display())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpacked_archive_sells_a_unit_on_spin_up() {
    let temp_dir = TempDir::new().expect("a directory");
    let (release, path) = (unpacked(temp_dir.path()), path_with_spin(temp_dir.path()));
    let listen = format!("127.0.0.1:{}", ports::pick_unused().expect("a port"));
    let start = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(&release).env("PATH", &path).args(arguments).args(["--listen", &listen]);
        Process::spawn(program, &mut command, None).expect("a process")
    };
    let mut services = start("scripts/up", &["--services"]);
    let is_written = |line: &str| line.contains(".env has the variables").then_some(());
    services.wait_for_line("the variables", TIMEOUT, is_written).expect("services");
    let _app = start("spin", &["up"]);
    let demo = |line: &str| line.trim().starts_with("Buyers ").then_some(());
    services.wait_for_line("the demo sale", TIMEOUT, demo).expect("a sale");

    let mut variables = Variables::default();
    variables.read_lines(&fs::read_to_string(release.join(".env")).expect("variables")).expect("variables");
    sell_unit(&HttpClient::new(&format!("http://{listen}")), variables.get("admin_token")).await;
}

/// Publishes a sale, and buys a unit as the pages do.
async fn sell_unit(http: &HttpClient, admin_token: &str) {
    http.send(Method::PUT, "/api/admin/activities/first", admin_token, &activity_spec(&json!({}))).await.is(200);
    http.post("/api/admin/activities/first/publish", admin_token, &Value::Null).await.is(200);
    let jwt = http.post("/sandbox/sign-in", "", &json!({"user": "ada"})).await.is(200).text("token");
    let order_no = eventually("a reservation", async || {
        let ticket = http.post("/api/activities/first/ticket", &jwt, &json!({})).await;
        let gate = http.get("/api/activities/first/gate.json", "").await;
        if ticket.status != 201 || gate.status != 200 {
            return Err(ticket.body + &gate.body);
        }
        let body =
            json!({"sku": "a", "quantity": 1, "ticket": ticket.text("ticket"), "start_key": gate.text("start_key")});
        let reserved = http.post("/api/activities/first/orders", "", &body).await;
        if reserved.status == 202 { Ok(reserved.text("order_no")) } else { Err(reserved.body) }
    })
    .await;
    let order = format!("/api/orders/{order_no}");
    let checkout_url = eventually("a payment page", async || {
        let address =
            json!({"name": "Ada", "line1": "1 Mill Lane", "city": "London", "postal_code": "N1", "country": "GB"});
        let opened = http.post(&format!("{order}/checkout"), &jwt, &json!({ "address": address })).await;
        if opened.status == 200 { Ok(opened.text("checkout_url")) } else { Err(opened.body) }
    })
    .await;
    let session = checkout_url.rsplit('/').next().expect("a session");
    http.post(&format!("/sandbox/pay/{session}"), "", &json!({"outcome": "paid"})).await.is(200);
    eventually("the order to be paid", async || {
        let order = http.get(&order, &jwt).await;
        if order.text("status") == "paid" { Ok(()) } else { Err(order.body) }
    })
    .await;
}
