//! Runs the suites, two at a time, and prints a summary: the failed tests by name, and the sum.

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use clap::{Parser, builder::PossibleValuesParser};

use super::{
    counts::{self, Counts},
    plan::{RUN_ORDER, Step, Suite, suites},
};
use crate::{
    open_files,
    poll::{self, Probe},
    process::Process,
    root,
};

/// Number of suites that run concurrently. Each suite has its own servers, ports and directories.
const MAX_PARALLEL: usize = 2;
/// How often a suite says how many of its tests have ended.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum duration of a program; after that it counts as stuck.
const STEP_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Runs the test suites. Prints one line for each, the names of failed tests, and the sum last.
#[derive(Debug, Parser)]
#[command(name = "scripts/test")]
pub struct Options {
    /// Run the long tests too
    #[arg(long)]
    pub long: bool,
    /// The suites to run [default: all]
    #[arg(value_parser = PossibleValuesParser::new(RUN_ORDER))]
    pub suites: Vec<String>,
}

struct Report {
    counts: Counts,
    elapsed: Duration,
    /// What the failed programs wrote.
    failures: String,
    /// The names of the failed tests, or of the programs that failed without one.
    failed: Vec<String>,
}

/// Builds and runs the selected suites and prints their results. Returns whether every test passed.
pub fn run(options: &Options) -> Result<bool> {
    open_files::raise_open_file_limit();
    let root = root::find()?;
    let suites = suites(&root, &options.suites, options.long)?;

    let (number_done, number) = (AtomicUsize::new(0), suites.len());
    let (total, queue) = (Mutex::new((Counts::default(), vec![])), Mutex::new(VecDeque::from(suites)));
    thread::scope(|scope| {
        for _ in 0..MAX_PARALLEL {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(suite) = next else { break };
                    println!("{:<10} running …", suite.name);
                    let name = suite.name.clone();
                    let report = run_suite(suite);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.0 += report.counts;
                    total.1.extend(report.failed.iter().map(|test| format!("failed: {name}: {test}")));
                    // Printed while the lock is held, so that the reports of two suites do not mix.
                    print!("{}", report.failures);
                    let Counts { passed, failed, .. } = report.counts;
                    let (seconds, done) =
                        (report.elapsed.as_secs_f64(), number_done.fetch_add(1, Ordering::Relaxed) + 1);
                    println!(
                        "{name:<10} {passed} passed, {failed} failed   ({seconds:.0} s; {done} of {number} suites)"
                    );
                }
            });
        }
    });
    let (Counts { passed, failed, .. }, failed_tests) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Far below the output of their programs, where they are easy to find.
    failed_tests.iter().for_each(|test| println!("{test}"));
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn run_suite(mut suite: Suite) -> Report {
    let start = Instant::now();
    let (mut counts, mut failures, mut failed) = (Counts::default(), String::new(), vec![]);
    for step in &mut suite.steps {
        let (step_counts, output) = run_step(step, &suite.name, counts);
        counts += step_counts;
        if step_counts.failed > 0 {
            failures += &format!("\n── {} of {} failed ──\n{output}\n", step.name, suite.name);
            let tests = counts::failed_tests(&output);
            failed.extend(if tests.is_empty() { vec![step.name.clone()] } else { tests });
        }
    }
    if let Err(error) = check_all_ran(&suite.sources, counts) {
        counts.failed += 1;
        failed.push(format!("{error:#}"));
    }
    if counts == Counts::default() {
        counts.failed = 1;
        failed.push("it has no tests".to_owned());
    }
    Report { counts, elapsed: start.elapsed(), failures, failed }
}

/// Fails unless the programs have, or left out on purpose, as many tests as their `sources`.
fn check_all_ran(sources: &[PathBuf], counts: Counts) -> Result<()> {
    let mut in_source = 0;
    for directory in sources {
        in_source += counts::in_source(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    }
    let Counts { passed, failed, ignored } = counts;
    let ran = passed + failed + ignored;
    ensure!(
        sources.is_empty() || failed > 0 || ran == in_source,
        "{in_source} tests in the source, {ran} in the programs: a file is in no module, a test is behind a `cfg`, or \
         its package is not built"
    );
    Ok(())
}

/// Runs a program with a temporary directory of its own: what its servers leave there, such as those that its tests
/// share, is removed after it.
fn run_step(step: &mut Step, suite: &str, before: Counts) -> (Counts, String) {
    // Other users' servers enter it, too.
    let permissions = fs::Permissions::from_mode(0o755);
    let temp_dir = match tempfile::Builder::new().prefix("stampede-").permissions(permissions).tempdir() {
        Ok(temp_dir) => temp_dir,
        Err(error) => return (Counts::FAILED, format!("cannot create a temporary directory: {error}")),
    };
    step.command.env("TMPDIR", temp_dir.path());
    let mut process = match Process::spawn(&step.name, &mut step.command, None) {
        Ok(process) => process,
        Err(error) => return (Counts::FAILED, format!("{error:#}")),
    };
    let mut last_report = Instant::now();
    let ended = poll::until("its end", STEP_TIMEOUT, || {
        if last_report.elapsed() > PROGRESS_INTERVAL {
            let tests = before.passed + before.failed + counts::ended_tests(&process.output());
            println!("{suite:<10} {tests} tests so far …");
            last_report = Instant::now();
        }
        Ok(process.exited().map_or(Probe::Pending("it still runs"), Probe::Ready))
    });
    process.kill();
    let output = process.complete_output();
    match ended {
        Ok(status) if step.is_single_test => (if status.success() { Counts::PASSED } else { Counts::FAILED }, output),
        Ok(status) => (Counts::parse(&output, status.success()), output),
        Err(error) => (Counts::parse(&output, false), format!("{output}\n{error:#}")),
    }
}
