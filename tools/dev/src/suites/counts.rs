//! Counts passed and failed tests from the output of a test program.

use std::ops::AddAssign;

/// Number of passed and failed tests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Counts {
    /// Parses the output of one program. A program that fails without reporting a failed test counts as one failure.
    pub fn parse(output: &str, succeeded: bool) -> Self {
        let mut counts = Self::default();
        for line in output.lines() {
            counts += parse_libtest(line).or_else(|| parse_node(line)).unwrap_or_default();
            counts.add_unittest(line);
        }
        if !succeeded && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }

    /// Python's `unittest`: `Ran 12 tests in 0.1s`, and after failures `FAILED (failures=1, errors=2)`.
    fn add_unittest(&mut self, line: &str) {
        let ran = line.strip_prefix("Ran ").and_then(|rest| rest.split_once(" test"));
        if let Some(Ok(number)) = ran.map(|(number, _)| number.parse::<u64>()) {
            self.passed += number;
        }
        let Some(parts) = line.strip_prefix("FAILED (").and_then(|rest| rest.strip_suffix(')')) else { return };
        let counted = parts.split(", ").filter_map(|part| part.split_once('='));
        let failures = counted.filter(|(word, _)| matches!(*word, "failures" | "errors"));
        let failed = failures.filter_map(|(_, number)| number.parse::<u64>().ok()).sum();
        self.failed += failed;
        self.passed = self.passed.saturating_sub(failed);
    }
}

/// Rust's test harness: `test result: ok. 12 passed; 0 failed; …`.
fn parse_libtest(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?;
    let number_before = |word: &str| {
        let mut words =
            rest.split([' ', ';']).filter(|part| !part.is_empty()).rev().skip_while(move |part| *part != word);
        words.nth(1)?.parse().ok()
    };
    Some(Counts { passed: number_before("passed")?, failed: number_before("failed")? })
}

/// Node's two reporters: `# pass 12` or `ℹ pass 12`, and the same with `fail` and `cancelled`.
fn parse_node(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    let (word, number) = rest.split_once(' ')?;
    let number = number.parse().ok()?;
    match word {
        "pass" => Some(Counts { passed: number, failed: 0 }),
        "fail" | "cancelled" => Some(Counts { passed: 0, failed: number }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_libtest_node_and_unittest_are_parsed() {
        let rust =
            "running 3 tests\n\ntest result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 2 filtered out\n";
        assert_eq!(Counts::parse(rust, false), Counts { passed: 12, failed: 3 });
        let node = "# tests 9\n# pass 7\n# fail 1\n# cancelled 1\n# skipped 0\n# duration_ms 5.1\n";
        assert_eq!(Counts::parse(node, false), Counts { passed: 7, failed: 2 });
        let python = "Ran 5 tests in 0.015s\n\nFAILED (failures=1, errors=1, skipped=1)\n";
        assert_eq!(Counts::parse(python, false), Counts { passed: 3, failed: 2 });
        assert_eq!(Counts::parse("Ran 1 test in 0.001s\n\nOK\n", true), Counts { passed: 1, failed: 0 });
        assert_eq!(Counts::parse("ℹ tests 2\nℹ pass 2\nℹ fail 0\n", true), Counts { passed: 2, failed: 0 });
    }

    #[test]
    fn a_crash_counts_as_one_failure() {
        assert_eq!(Counts::parse("running 3 tests\n", false), Counts { passed: 0, failed: 1 });
        assert_eq!(Counts::parse("test result: ok. 2 passed; 0 failed; 0 ignored", false).failed, 1);
    }
}
