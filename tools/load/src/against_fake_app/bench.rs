//! Benchmarks report every measurement, and an error fails the run.

use clap::Parser;

use super::fake_app::{self, Fault};
use crate::bench::{self, Options, report::Report};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

async fn run_bench(fault: Fault, connections: &str, with_floors: bool) -> Report {
    let url = fake_app::start(fault).await;
    let line = format!(
        "bench --admin-token a --env-file /dev/null --url {url} --seconds 0.1 --rounds 2 --reserves 60 \
         --connections {connections}"
    );
    let options = Cli::parse_from(line.split_whitespace()).options;
    let mut target = options.target.resolve().unwrap();
    target.webhook_secret = Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
    bench::run(&options, target, with_floors.then_some(url.as_str()), None).await.unwrap()
}

#[tokio::test]
async fn every_route_is_there_with_the_ratio_to_its_floor() {
    let report = run_bench(Fault::None, "2 4", true).await;
    let text = report.text(None);
    assert_eq!(report.exit_code(), 0, "{text}");
    assert_eq!(report.tables.iter().map(|table| table.connections).collect::<Vec<_>>(), [2, 4]);
    for table in &report.tables {
        assert_eq!(table.rows.len(), 15, "{text}");
        for row in &table.rows {
            assert!(row.per_second.median > 0.0, "{text}");
            assert_eq!(row.ratio.is_some_and(|ratio| ratio.median > 0.0), row.kind.floor().is_some(), "{text}");
        }
    }
}

#[tokio::test]
async fn without_floors_there_are_rates_and_no_ratios() {
    let report = run_bench(Fault::None, "4", false).await;
    assert_eq!(report.exit_code(), 0, "{}", report.text(None));
    assert_eq!(report.tables[0].rows.len(), 11, "{}", report.text(None));
    assert!(report.tables[0].rows.iter().all(|row| row.ratio.is_none()), "{}", report.text(None));
}

#[tokio::test]
async fn a_benchmark_with_errors_fails() {
    let report = run_bench(Fault::InfoFails, "4", true).await;
    assert_eq!(report.exit_code(), 1, "{}", report.text(None));
    let text = report.text(None);
    assert!(text.contains("UNEXPECTED") && text.contains("× activity info: 500 instead of 200"), "{text}");
}
