//! Sales against an in-memory app: a correct one passes, each violation is found by its check.

use clap::Parser;
use futures::future::join_all;

use super::fake_app::{self, Fault};
use crate::{
    meter::Step,
    simulation::{self, Options, report::Report, verdict::Finding},
};

#[derive(Parser)]
#[command(args_override_self = true)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// A small and fast sale. A token may begin with a hyphen.
const FLAGS: &str = "--admin-token -a --cron-token -c --env-file /dev/null --seed 1 --start-in 1 --pay-timeout 3 \
                    --finish-timeout 30 --sweep-every 1 --retry-timeout 20 --buyers 300 --stock 40 --skus 2 --per-user 2 \
                    --greedy-share 0.2 --double-share 0.2 --pay-share 0.5 --cancel-share 0.3";

async fn run_sale(fault: Fault) -> Report {
    run_sale_with(fault, "").await
}

async fn run_sale_with(fault: Fault, flags: &str) -> Report {
    let url = fake_app::start(fault).await;
    let line = format!("sale {FLAGS} --url {url} {flags}");
    simulation::run(Cli::parse_from(line.split_whitespace()).options).await.unwrap()
}

#[tokio::test]
async fn a_correct_app_passes() {
    let report = run_sale(Fault::None).await;
    assert_eq!(report.verdict.exit_code(), 0, "{}", report.text());
    assert!(report.visits["accepted"] >= 40, "{}", report.text());
    assert!(report.visits.contains_key("409 sold_out"), "{}", report.text());
    assert!(report.visits.contains_key("409 limit_reached"), "{}", report.text());
    assert!(report.ends.keys().any(|end| end.starts_with("paid")), "{}", report.text());
    assert!(report.ends.keys().any(|end| end.starts_with("cancelled")), "{}", report.text());
    assert!(report.ends.keys().any(|end| end.starts_with("expired")), "{}", report.text());
}

#[tokio::test]
async fn the_page_shows_the_verdict_and_the_plots() {
    let page = simulation::page::html(&run_sale(Fault::None).await).unwrap();
    assert_eq!(page.matches("<svg").count(), 3, "{page}");
    for part in ["Every invariant held.", "left + held + sold = total", "409 sold_out", "Stock", "<polyline"] {
        assert!(page.contains(part), "no {part} in {page}");
    }
    let page = simulation::page::html(&run_sale(Fault::Oversells).await).unwrap();
    assert!(page.contains("An invariant is BROKEN."), "{page}");
}

#[tokio::test]
async fn lost_responses_are_retried_and_break_no_invariant() {
    let report = run_sale(Fault::LosesResponses).await;
    assert_eq!(report.verdict.exit_code(), 0, "{}", report.text());
    assert!(report.steps.iter().any(|step| step.all.responses.contains_key("connection lost")), "{}", report.text());
}

#[tokio::test]
async fn an_outage_during_the_sale_breaks_no_invariant() {
    let report = run_sale(Fault::DownAfterStart).await;
    assert_eq!(report.verdict.exit_code(), 0, "{}", report.text());
    assert!(report.steps.iter().any(|step| step.all.responses.contains_key("connection lost")), "{}", report.text());
    assert!(report.visits.keys().all(|outcome| !outcome.contains("gave up")), "{}", report.text());
}

#[tokio::test]
async fn every_violation_is_found_by_its_check() {
    // If no unit is returned, more units are sold at the end than exist.
    let all_pay = "--pay-share 1 --cancel-share 0";
    let sales = [
        (Fault::Oversells, all_pay, "I1"),
        (Fault::Oversells, all_pay, "I2"),
        (Fault::IgnoresPerUser, "", "I3"),
        (Fault::LosesOrder, "", "I4"),
        (Fault::ReturnsTwice, "", "I5"),
        (Fault::IgnoresPayments, "--retry-timeout 4", "I6"),
        (Fault::ReusesTickets, "", "I7"),
    ];
    let reports = join_all(sales.map(|(fault, flags, _)| run_sale_with(fault, flags))).await;
    for ((fault, _, id), report) in sales.into_iter().zip(reports) {
        let line = report.verdict.results.iter().find(|result| result.id == id).unwrap();
        assert_eq!(line.finding, Finding::Broken, "{id} of {fault:?}\n{}", report.text());
        assert_eq!(report.verdict.exit_code(), 1);
    }
}

/// More buyers than units and places in the line, and robots.
const LINE: &str = "--line waitlist --line-units 60 --offer-seconds 3 --leave-share 0.2 --robots 6 --pay-share 0.6 \
                    --cancel-share 0.3 --greedy-share 0 --double-share 0.1";

#[tokio::test]
async fn a_line_is_served_and_robots_get_nothing() {
    let report = run_sale_with(Fault::None, LINE).await;
    assert_eq!(report.verdict.exit_code(), 0, "{}", report.text());
    let line = report.line.as_ref().unwrap();
    assert!(line.joined >= 100 && line.offered >= 10 && line.left >= 5 && line.until_end >= 5, "{}", report.text());
    assert!(line.release_to_offer.is_some() && report.text().contains("median"), "{}", report.text());
    assert!(!report.visits.contains_key("robot with a unit at once"), "{}", report.text());
    let robots = report.steps.iter().find(|step| step.step == Step::Robot).unwrap();
    assert!(robots.all.responses["409 sold_out"] >= 10, "{}", report.text());
    assert!(robots.all.responses["409 limit_reached"] >= 10, "{}", report.text());
}

#[tokio::test]
async fn redis_that_dies_or_is_away_during_a_line_breaks_no_invariant() {
    let faults = [Fault::LosesRedisReplies, Fault::LedgerIsBehind];
    let reports = join_all(faults.map(|fault| run_sale_with(fault, LINE))).await;
    for (fault, report) in faults.into_iter().zip(reports) {
        assert_eq!(report.verdict.exit_code(), 0, "{fault:?}\n{}", report.text());
        assert!(report.line.as_ref().is_some_and(|line| line.offered >= 10), "{}", report.text());
    }
}

#[tokio::test]
async fn every_violation_of_the_line_is_found_by_its_check() {
    let sales = [
        (Fault::ServesRobots, "", "I8"),
        // One unit a person, and a line that is never full.
        (Fault::ServesRobots, "--line-units 400 --per-user 1", "I8"),
        (Fault::PassesOver, "", "I9"),
        (Fault::NeverEndsLine, "", "I9"),
    ];
    let flags = sales.map(|(_, flags, _)| format!("{LINE} --retry-timeout 4 {flags}"));
    let reports = join_all(sales.iter().zip(&flags).map(|((fault, ..), flags)| run_sale_with(*fault, flags))).await;
    for ((fault, _, id), report) in sales.into_iter().zip(reports) {
        let line = report.verdict.results.iter().find(|result| result.id == id).unwrap();
        assert_eq!(line.finding, Finding::Broken, "{id} of {fault:?}\n{}", report.text());
    }
}

#[tokio::test]
async fn a_stuck_queue_is_unknown() {
    let report = run_sale_with(Fault::QueueStuck, "--retry-timeout 4 --finish-timeout 1").await;
    assert_eq!(report.verdict.exit_code(), 2, "{}", report.text());
}
