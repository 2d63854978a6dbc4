//! Benchmarks: every measurement is there, and an error fails the run.

use clap::Parser;
use load::bench::report::Report;
use load::bench::{self, Options};

use crate::fake::{self, Fault};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

async fn measure(fault: Fault) -> Report {
    let url = fake::start(fault).await;
    let line = format!(
        "bench --admin-token a --env-file /dev/null --url {url} --seconds 0.2 --rounds 2 --reserves 60 --connections 4"
    );
    bench::run(Cli::parse_from(line.split_whitespace()).options, None).await.unwrap()
}

#[tokio::test]
async fn every_measurement_is_there_with_its_ratio() {
    let report = measure(Fault::None).await;
    assert_eq!(report.exit_code(), 0, "{}", report.text());
    assert_eq!(report.rows.len(), 7, "{}", report.text());
    assert!(report.rows.iter().all(|row| row.per_second > 0.0), "{}", report.text());
    assert!(report.rows[1..].iter().all(|row| row.ratio.is_some_and(|ratio| ratio > 0.0)), "{}", report.text());
    assert_eq!(report.drains.len(), 2);
}

#[tokio::test]
async fn a_benchmark_of_errors_fails() {
    let report = measure(Fault::Ails).await;
    assert_eq!(report.exit_code(), 1, "{}", report.text());
    let complaint = report.unexpected.keys().next().unwrap();
    assert!(complaint.starts_with("activity info: 500 instead of 200"), "{complaint}");
}
