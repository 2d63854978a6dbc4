//! I1: `left + held + sold = total` and `left ≥ 0`, in every sample and at the end.

use super::{Evidence, Findings, Line};

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let end = evidence.stock.as_deref().unwrap_or_default();
    for sample in evidence.samples.iter().chain(end) {
        let sum = sample.left + sample.held + sample.sold;
        let expected = evidence.totals.get(&sample.sku).copied();
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
    if evidence.stock.is_none() {
        findings.unknown("the admin API showed no stock at the end");
    }
    for sku in evidence.totals.keys() {
        if !end.iter().any(|stock| stock.sku == *sku) {
            findings.unknown(format!("{sku}: no stock figures at the end"));
        }
    }
    let numbers = end
        .iter()
        .map(|stock| {
            format!("{}: {} left + {} held + {} sold = {}", stock.sku, stock.left, stock.held, stock.sold, stock.total)
        })
        .collect::<Vec<_>>();
    let samples = evidence.samples.len();
    findings.line("I1", "left + held + sold = total", format!("{}; {samples} samples on the way", super::few(&numbers)))
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::honest;
    use super::super::Finding;
    use super::*;

    #[test]
    fn a_unit_that_vanished_for_a_moment_breaks_it() {
        let mut evidence = honest();
        evidence.samples[1].held -= 1;
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert_eq!(line.numbers, "a: left 5 + held 4 + sold 0 = 9, total 10 (sold as 10)");
    }

    #[test]
    fn negative_stock_breaks_it_even_if_the_sum_is_right() {
        let mut evidence = honest();
        evidence.samples[1].left = -1;
        evidence.samples[1].held = 11;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_total_that_grew_by_itself_breaks_it() {
        let mut evidence = honest();
        for stock in evidence.stock.iter_mut().flatten() {
            stock.total += 1;
            stock.left += 1;
        }
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn without_figures_at_the_end_it_is_unknown() {
        let mut evidence = honest();
        evidence.stock = None;
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }
}
