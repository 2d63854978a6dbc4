//! Counts the tests of a test program and names those that failed, from its output; counts those of a package from its
//! source.

use std::{fs, io, ops::AddAssign, path::Path};

use regex::Regex;

/// Number of tests, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Rust tests that are run on request only, and were not.
    pub ignored: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl Counts {
    /// One test that passed.
    pub const PASSED: Self = Self { passed: 1, failed: 0, ignored: 0 };
    /// One test that failed.
    pub const FAILED: Self = Self { passed: 0, failed: 1, ignored: 0 };

    /// Parses the output of one program. A program that fails without reporting a failed test counts as one failure.
    pub fn parse(output: &str, succeeded: bool) -> Self {
        let sum = |pattern: &str| -> u64 {
            let Ok(pattern) = Regex::new(pattern) else { return 0 };
            pattern.captures_iter(output).filter_map(|found| found[1].parse::<u64>().ok()).sum()
        };
        let node_failed = sum(r"(?m)^[#ℹ] fail (\d+)$") + sum(r"(?m)^[#ℹ] cancelled (\d+)$");
        // Every test of Playwright has to run, and to pass the first time.
        let playwright_failed = sum(r"(?m)^  (\d+) (?:failed|flaky|interrupted|skipped|did not run)$");
        let failed = sum(r"(?m)^test result: .* (\d+) failed;") + node_failed + playwright_failed;
        Self {
            passed: (sum(r"(?m)^test result: .* (\d+) passed;") + sum(r"(?m)^[#ℹ] pass (\d+)$"))
                + sum(r"(?m)^  (\d+) passed \("),
            failed: if succeeded { failed } else { failed.max(1) },
            ignored: sum(r"(?m)^test result: .* (\d+) ignored;"),
        }
    }
}

/// Number of tests that have ended, from the output of a program that still runs.
pub fn ended_tests(output: &str) -> u64 {
    // Playwright's list has a mark and a number, and repeats the lines of failures later.
    let ended = Regex::new(r"(?m)^(?:test .+ \.\.\. (?:ok|FAILED|ignored)| *(?:not )?ok \d+ - | {2}[✓✘-] +\d+ )");
    ended.map_or(0, |ended| ended.find_iter(output).count() as u64)
}

/// The names of the failed tests in the output of one program.
pub fn failed_tests(output: &str) -> Vec<String> {
    let patterns = [
        r"^test (.+) \.\.\. FAILED$",
        r"^ *not ok \d+ - (.+)$",
        // Playwright lists them after its counts of failed, flaky and other tests.
        r"^    (\[.+?\] › .+?)[ ─]*$",
    ];
    let names = Regex::new(&format!("(?m){}", patterns.join("|")));
    let names = names.iter().flat_map(|names| names.captures_iter(output));
    names.filter_map(|found| found.iter().skip(1).flatten().next()).map(|name| name.as_str().to_owned()).collect()
}

/// Counts the Rust tests in the source files below `directory`: functions with the attribute `test` or `tokio::test`.
pub fn in_source(directory: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            if !path.ends_with("node_modules") {
                count += in_source(&path)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            count += fs::read_to_string(&path)?.lines().filter(|line| is_test_attribute(line)).count() as u64;
        }
    }
    Ok(count)
}

fn is_test_attribute(line: &str) -> bool {
    let attribute = line.trim_start().strip_prefix("#[").map(|rest| rest.strip_prefix("tokio::").unwrap_or(rest));
    attribute.and_then(|rest| rest.strip_prefix("test")).is_some_and(|rest| rest.starts_with([']', '(']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, ignored: u64) -> Counts {
        Counts { passed, failed, ignored }
    }

    #[test]
    fn tests_in_the_source_are_those_with_a_test_attribute() {
        for line in ["#[test]", "    #[tokio::test]", "#[tokio::test(flavor = \"multi_thread\")]"] {
            assert!(is_test_attribute(line), "{line}");
        }
        for line in ["#[cfg(test)]", "// #[test]", "#[tests]", "#[tokio::main]", "let text = \"#[test]\";"] {
            assert!(!is_test_attribute(line), "{line}");
        }
    }

    #[test]
    fn counts_of_libtest_node_and_playwright_are_parsed() {
        let rust =
            "running 3 tests\n\ntest result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 2 filtered out\n";
        assert_eq!(Counts::parse(rust, false), counts(12, 3, 1));
        let node = "# tests 9\n# pass 7\n# fail 1\n# cancelled 1\n# skipped 0\n# duration_ms 5.1\n";
        assert_eq!(Counts::parse(node, false), counts(7, 2, 0));
        let playwright = "  2 failed\n    [desktop] › buy.js:9:1 › it sells\n  1 did not run\n  5 passed (1.2m)\n";
        assert_eq!(Counts::parse(playwright, false), counts(5, 3, 0));
        assert_eq!(Counts::parse("ℹ tests 2\nℹ pass 2\nℹ fail 0\n", true), counts(2, 0, 0));
    }

    #[test]
    fn failed_tests_of_libtest_node_and_playwright_are_named() {
        let rust = "test sale::sells ... ok\ntest sale::ends - should panic ... FAILED\n\nfailures:\n    sale::ends\n";
        assert_eq!(failed_tests(rust), ["sale::ends - should panic"]);
        assert_eq!(
            failed_tests("ok 1 - buys\n    not ok 2 - pays twice\nnot ok 1 - stripe\n"),
            ["pays twice", "stripe"]
        );
        let playwright = "  1) [desktop] › buy.js:9:1 › it sells ─────\n\n    Error: late\n\n  1 failed\n    \
                          [desktop] › buy.js:9:1 › it sells ─────\n  5 passed (1.2m)\n";
        assert_eq!(failed_tests(playwright), ["[desktop] › buy.js:9:1 › it sells"]);
    }

    #[test]
    fn tests_that_have_ended_are_counted_while_others_run() {
        assert_eq!(ended_tests("running 3 tests\ntest a ... ok\ntest b - should panic ... FAILED\n"), 2);
        assert_eq!(ended_tests("    ok 1 - buys\nnot ok 1 - stripe\n"), 2);
        assert_eq!(ended_tests("Running 2 tests\n  ✓   1 [desktop] › buy.js:9:1 › it sells (1.2s)\n"), 1);
    }

    #[test]
    fn a_crash_counts_as_one_failure() {
        assert_eq!(Counts::parse("running 3 tests\n", false), counts(0, 1, 0));
        assert_eq!(Counts::parse("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured", false).failed, 1);
    }
}
