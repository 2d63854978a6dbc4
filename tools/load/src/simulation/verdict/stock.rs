//! I2: never more live units than `total`, neither at the end nor at any moment on the way.

use super::{Evidence, Findings, Line, moments};

pub(super) fn judge(evidence: &Evidence) -> Line {
    let mut findings = Findings::default();
    let mut numbers = Vec::new();
    for (sku, live) in evidence.live_units() {
        let Some(&total) = evidence.totals.get(sku) else {
            findings.broken(format!("{live} units of {sku}, which was never on sale"));
            continue;
        };
        let most = moments::most_alive(evidence.orders.iter().filter(|order| order.sku == sku));
        let ledger = evidence.ledger().find(|(name, _)| *name == sku).map(|(_, ledger)| ledger);
        if live > total {
            findings.broken(format!("{sku}: {live} units are held or sold, only {total} exist"));
        }
        if most > total {
            findings.broken(format!("{sku}: {most} units were alive at one moment, only {total} exist"));
        }
        match ledger {
            None => findings.unknown(format!("{sku}: the audit shows no ledger")),
            Some(ledger) if ledger.counted > total || ledger.live != ledger.counted => findings.broken(format!(
                "{sku}: the ledger counts {} live units and notes {}, {total} exist",
                ledger.counted, ledger.live
            )),
            Some(_) => {}
        }
        numbers.push(format!("{sku}: {live} live at the end, {most} at most at once, of {total}"));
    }
    if evidence.unreadable() > 0 {
        findings.unknown(format!("{} orders could not be read", evidence.unreadable()));
    }
    findings.line("I2", "never more live units than stock", super::few(&numbers))
}

#[cfg(test)]
mod tests {
    use super::super::super::observations::{End, honest};
    use super::super::Finding;
    use super::*;
    use crate::wire::Status;

    #[test]
    fn overselling_breaks_it() {
        let mut evidence = honest();
        evidence.orders[0].quantity = 11;
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert!(line.numbers.contains("11 units are held or sold, only 10 exist"), "{}", line.numbers);
    }

    #[test]
    fn overselling_for_a_moment_breaks_it_even_if_the_end_is_right() {
        let mut evidence = honest();
        for order in &mut evidence.orders {
            order.quantity = 4;
            order.end = End::Status(Status::Cancelled);
        }
        let line = judge(&evidence);
        assert_eq!(line.finding, Finding::Broken);
        assert!(line.numbers.contains("12 units were alive at one moment"), "{}", line.numbers);
    }

    #[test]
    fn a_ledger_that_holds_too_much_breaks_it() {
        let mut evidence = honest();
        let ledger = evidence.audit.as_mut().unwrap()[0].ledger.as_mut().unwrap();
        (ledger.live, ledger.counted) = (11, 11);
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn a_ledger_whose_row_and_orders_disagree_breaks_it() {
        let mut evidence = honest();
        evidence.audit.as_mut().unwrap()[0].ledger.as_mut().unwrap().live = 1;
        assert_eq!(judge(&evidence).finding, Finding::Broken);
    }

    #[test]
    fn an_order_that_cannot_be_read_leaves_it_unknown() {
        let mut evidence = honest();
        evidence.orders[0].end = End::Unreadable;
        assert_eq!(judge(&evidence).finding, Finding::Unknown);
    }
}
