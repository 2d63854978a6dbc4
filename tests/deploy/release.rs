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
use support::{HttpClient, Shop};
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
    let shop = Shop { http: HttpClient::new(&format!("http://{listen}")), variables };
    shop.publish("first").await;
    let (order_no, jwt) = shop.place_order("first", "ada").await;
    shop.wait_until_pending(&order_no, &jwt).await;
    shop.pay(&order_no, &jwt).await;
}
