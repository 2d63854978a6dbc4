//! Benchmarks report every measurement, and an error fails the run.

use clap::Parser;

use super::fake_app::{self, Fault};
use crate::bench::report::Report;
use crate::bench::{self, Options};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

async fn run_bench(fault: Fault) -> Report {
    let url = fake_app::start(fault).await;
    let line = format!(
        "bench --admin-token a --env-file /dev/null --url {url} --seconds 0.2 --rounds 2 --reserves 60 --connections 4"
    );
    bench::run(Cli::parse_from(line.split_whitespace()).options, None).await.unwrap()
}

#[tokio::test]
async fn every_measurement_is_there_with_its_ratio() {
    let report = run_bench(Fault::None).await;
    assert_eq!(report.exit_code(), 0, "{}", report.text());
    assert_eq!(report.rows.len(), 7, "{}", report.text());
    assert!(report.rows.iter().all(|row| row.per_second > 0.0), "{}", report.text());
    assert!(report.rows[1..].iter().all(|row| row.ratio.is_some_and(|ratio| ratio > 0.0)), "{}", report.text());
    assert_eq!(report.drains.len(), 2);
}

#[tokio::test]
async fn a_benchmark_with_errors_fails() {
    let report = run_bench(Fault::InfoFails).await;
    assert_eq!(report.exit_code(), 1, "{}", report.text());
    let unexpected = report.unexpected.keys().next().unwrap();
    assert!(unexpected.starts_with("activity info: 500 instead of 200"), "{unexpected}");
}
