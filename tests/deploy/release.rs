//! The archive of a release: from unpacking to a sold unit, with an engine and nothing built (G1, G9).

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use dev::{
    documents,
    engine::{self, target_directory},
    ports,
    process::Process,
    root,
    variables::Variables,
};
use sha2::{Digest, Sha384};
use support::{HttpClient, Shop};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(300);

/// The commands of the README for an archive: to unpack it, and to start the services and the app.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(root::find().expect("the project").join("README.md")).expect("the README");
    documents::commands(&readme).into_iter().skip_while(|command| !command.starts_with("tar ")).take(3).collect()
}

/// Makes the archive of this build, unpacks it, and returns the folder.
pub fn unpacked(directory: &Path) -> PathBuf {
    let script = root::find().expect("the project").join("scripts/release");
    let output = Command::new(script).args(["--no-build", "--no-sbom"]).arg(directory).output().expect("a release");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let archive = PathBuf::from(String::from_utf8(output.stdout).expect("UTF-8").lines().last().expect("its path"));
    let unpacked = directory.join("unpacked");
    fs::create_dir(&unpacked).expect("a directory");
    fs::rename(&archive, unpacked.join(archive.file_name().expect("a name"))).expect("moved");
    let script = format!("{} && pwd", commands()[0]);
    let folder = Command::new("bash").args(["-c", &script]).current_dir(unpacked).output().expect("bash");
    assert!(folder.status.success(), "{folder:?}");
    PathBuf::from(String::from_utf8(folder.stdout).expect("UTF-8").trim_end())
}

/// Installs the engine of the tests as `spin` into a directory.
pub fn install_spin(directory: &Path) -> PathBuf {
    let root = root::find().expect("the project");
    let mut program = engine::Engine::discover(None).expect("an engine").program(&target_directory(&root));
    if program == Path::new("spin") {
        let path = env::var_os("PATH").expect("a path");
        program = env::split_paths(&path).map(|path| path.join("spin")).find(|path| path.exists()).expect("spin");
    }
    let spin = directory.join("spin");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'spin 4.1.0' && exit\nexec \"$0-engine\" \"$@\"\n";
    fs::create_dir_all(directory).expect("a directory");
    // A copy, since not every user may reach the working copy.
    fs::copy(program, directory.join("spin-engine")).expect("an engine");
    fs::write(&spin, script).expect("a program");
    fs::set_permissions(&spin, fs::Permissions::from_mode(0o755)).expect("executable");
    spin
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpacked_archive_sells_a_unit_on_spin_up() {
    let temp_dir = TempDir::new().expect("a directory");
    let release = unpacked(temp_dir.path());
    install_spin(temp_dir.path());
    let path = format!("{}:{}", temp_dir.path().display(), env::var("PATH").expect("a path"));
    let listen = format!("127.0.0.1:{}", ports::pick_unused().expect("a port"));
    let start = |command: &str| {
        let mut bash = Command::new("bash");
        bash.current_dir(&release).env("PATH", &path).args(["-c", &format!("exec {command} --listen {listen}")]);
        Process::spawn(command, &mut bash, None).expect("a process")
    };
    let mut services = start(&commands()[1]);
    let is_written = |line: &str| line.contains(".env has the variables").then_some(());
    services.wait_for_line("the variables", TIMEOUT, is_written).expect("services");
    let _app = start(&commands()[2]);
    let demo = |line: &str| line.trim().starts_with("Buyers ").then_some(());
    services.wait_for_line("the demo sale", TIMEOUT, demo).expect("a sale");

    // The modules of a page are few; the client stays as it is, for pages of the shop.
    let http = HttpClient::new(&format!("http://{listen}"));
    let page = http.get("/sale", "").await.is(200).body;
    assert!((1..15).contains(&page.matches(".js\"").count()), "{page}");
    assert!(page.matches(" data-zh=").count() > 5, "no Chinese first paint: {page}");
    http.get("/client/v1/index.js", "").await.is(200);
    // The hash of the element covers all of it.
    let version = fs::read_to_string(release.join("VERSION")).expect("a version");
    let client = format!("/client/{}", version.trim());
    let element = http.get(&format!("{client}/element.js"), "").await.is(200);
    assert_eq!(element.header("cache-control"), "public, max-age=31536000, immutable");
    assert!(!["from\"", "import\"", "import("].iter().any(|import| element.body.contains(import)), "it imports");
    let hash = format!("sha384-{}", BASE64_STANDARD.encode(Sha384::digest(&element.body)));
    assert_eq!(http.get(&format!("{client}/integrity.txt"), "").await.is(200).body.trim_end(), hash);
    assert_eq!(http.get("/client/v1/element.js", "").await.is(200).body, element.body);

    let mode = fs::metadata(release.join(".env")).expect("variables").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others can read the secrets");
    let mut variables = Variables::default();
    variables.read_lines(&fs::read_to_string(release.join(".env")).expect("variables")).expect("variables");
    let shop = Shop { http, variables };
    shop.publish("first").await;
    let (order_no, jwt) = shop.place_order("first", "ada").await;
    shop.wait_until_pending(&order_no, &jwt).await;
    shop.pay(&order_no, &jwt).await;
}
