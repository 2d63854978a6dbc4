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
    use super::super::super::observations::correct_sale;
    use super::super::findings::Finding;
    use super::*;

    #[test]
    fn a_unit_missing_from_one_sample_breaks_it() {
        let mut observations = correct_sale();
        observations.stock_samples[1].held -= 1;
        let result = check(&observations);
        assert_eq!(result.finding, Finding::Broken);
        assert_eq!(result.numbers, "a: left 5 + held 4 + sold 0 = 9, total 10 (sold as 10)");
    }

    #[test]
    fn negative_stock_breaks_it_even_if_the_sum_is_right() {
        let mut observations = correct_sale();
        observations.stock_samples[1].left = -1;
        observations.stock_samples[1].held = 11;
        assert_eq!(check(&observations).finding, Finding::Broken);
    }

    #[test]
    fn a_changed_total_breaks_it() {
        let mut observations = correct_sale();
        for stock in observations.final_stock.iter_mut().flatten() {
            stock.total += 1;
            stock.left += 1;
        }
        assert_eq!(check(&observations).finding, Finding::Broken);
    }

    #[test]
    fn without_final_stock_it_is_unknown() {
        let mut observations = correct_sale();
        observations.final_stock = None;
        assert_eq!(check(&observations).finding, Finding::Unknown);
    }
}
