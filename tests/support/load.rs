//! Whole sales by the load generator.

use std::{path::Path, process::Command};

use dev::{engine::target_directory, root};

use crate::TestApp;

/// Runs a sale with the flags `sale` and `options` in `directory`. Returns its report, of which every check held.
pub async fn run_sale(app: &TestApp, directory: &Path, sale: &str, options: &[&str]) -> String {
    let mut command = Command::new(target_directory(&root::find().expect("the project")).join("release/stampede-load"));
    command.args(["sale", "--env-file", "none"]).args(sale.split_whitespace()).args(options).current_dir(directory);
    command
        .env("STAMPEDE_URL", format!("http://127.0.0.1:{}", app.port()))
        .env("STAMPEDE_ADMIN_TOKEN", app.variables.get("admin_token"))
        .env("STAMPEDE_CRON_TOKEN", app.variables.get("cron_token"));
    for name in ["jwt_issuer", "jwt_audience"] {
        command.env(format!("SPIN_VARIABLE_{}", name.to_uppercase()), app.variables.get(name));
    }
    let ended = tokio::task::spawn_blocking(move || command.output()).await.expect("a thread").expect("the program");
    let report = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert!(ended.status.success() && report.contains("Every invariant held."), "{report}{ended:?}");
    report
}
