//! Tests of the lines and of the checks that need no app.

use std::fs;

use clap::Parser;
use tempfile::TempDir;
use time::{OffsetDateTime, format_description};

use super::*;

fn lines(findings: &[Finding]) -> Lines {
    Lines(["first", "second", "third"].into_iter().zip(findings.iter().cloned()).collect())
}

#[test]
fn one_no_go_is_enough_and_what_was_not_checked_is_named() {
    let [go, no_go, unchecked] = [Finding::Go, Finding::NoGo, Finding::Unchecked].map(|make| make(String::new()));
    assert_eq!(lines(&[go.clone(), go.clone()]).conclusion(), "GO");
    assert_eq!(lines(&[go.clone(), unchecked.clone()]).conclusion(), "GO, but not checked: second");
    assert_eq!(lines(&[no_go.clone(), unchecked, no_go]).conclusion(), "NO-GO: first, third");
}

#[test]
fn a_backup_must_be_complete_and_of_this_day() {
    let directory = TempDir::new().unwrap();
    let format = format_description::parse_borrowed::<2>("[year][month][day]T[hour][minute][second]Z").unwrap();
    let add = |hours: i64, suffix: &str| {
        let time = OffsetDateTime::now_utc() - time::Duration::hours(hours);
        fs::create_dir(directory.path().join(time.format(&format).unwrap() + suffix)).unwrap();
        background::backup(directory.path()).unwrap()
    };
    assert!(background::backup(&directory.path().join("missing")).is_err());
    assert!(matches!(background::backup(directory.path()).unwrap(), Finding::NoGo(_)));
    assert!(matches!(add(1, ".part"), Finding::NoGo(_)));
    assert!(matches!(add(27, ""), Finding::NoGo(_)));
    assert_eq!(add(2, ""), Finding::Go("the newest backup is 2 h old".to_owned()));
}

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

#[test]
fn the_planned_sale_needs_app_processes() {
    let check = |line: &str| {
        let options = Cli::try_parse_from(line.split_whitespace()).unwrap().options;
        checks::capacity(&options.planned).unwrap()
    };
    assert!(matches!(check("rehearse"), Finding::Unchecked(_)));
    assert!(matches!(check("rehearse --visitors 1000 --units 100"), Finding::Go(_)));
    assert!(matches!(check("rehearse --visitors 1000000 --units 10000"), Finding::NoGo(_)));
    assert!(matches!(check("rehearse --visitors 1000000 --units 10000 --apps 50"), Finding::Go(_)));
    assert!(matches!(check("rehearse --visitors 1000000 --units 500000 --apps 500"), Finding::NoGo(_)));
}
