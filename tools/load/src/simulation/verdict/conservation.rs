//! I1: `left + held + sold = total` and `left ≥ 0`, in every sample and at the end.

use super::findings::{CheckResult, Findings, first_three};
use crate::simulation::observations::Observations;

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let final_stock = observations.final_stock.as_deref().unwrap_or_default();
    for sample in observations.stock_samples.iter().chain(final_stock) {
        let sum = sample.left + sample.held + sample.sold;
        let expected = observations.totals.get(&sample.sku).copied();
        if sum != sample.total || sample.left < 0 || expected != Some(sample.total) {
            findings.broken(format!(
                "{}: left {} + held {} + sold {} = {sum}, total {} (sold as {})",
                sample.sku,
                sample.left,
                sample.held,
                sample.sold,
                sample.total,
                expected.map_or_else(|| "no SKU of this sale".to_owned(), |total| total.to_string()),
            ));
        }
    }
    if observations.final_stock.is_none() {
        findings.unknown("the admin API showed no stock at the end");
    }
    for sku in observations.totals.keys() {
        if !final_stock.iter().any(|stock| stock.sku == *sku) {
            findings.unknown(format!("{sku}: no stock figures at the end"));
        }
    }
    let numbers = final_stock
        .iter()
        .map(|stock| {
            format!("{}: {} left + {} held + {} sold = {}", stock.sku, stock.left, stock.held, stock.sold, stock.total)
        })
        .collect::<Vec<_>>();
    let samples = observations.stock_samples.len();
    findings.into_result(
        "I1",
        "left + held + sold = total",
        format!("{}; {samples} samples on the way", first_three(&numbers)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;

    #[test]
    fn a_unit_missing_from_one_sample_breaks_it() {
        let numbers = expect(Finding::Broken, check, |sale| sale.stock_samples[1].held -= 1);
        assert_eq!(numbers, "a: left 5 + held 4 + sold 0 = 9, total 10 (sold as 10)");
    }

    #[test]
    fn negative_stock_breaks_it_even_if_the_sum_is_right() {
        expect(Finding::Broken, check, |sale| (sale.stock_samples[1].left, sale.stock_samples[1].held) = (-1, 11));
    }

    #[test]
    fn a_changed_total_breaks_it() {
        expect(Finding::Broken, check, |sale| {
            for stock in sale.final_stock.iter_mut().flatten() {
                stock.total += 1;
                stock.left += 1;
            }
        });
    }

    #[test]
    fn without_final_stock_it_is_unknown() {
        expect(Finding::Unknown, check, |sale| sale.final_stock = None);
    }
}
