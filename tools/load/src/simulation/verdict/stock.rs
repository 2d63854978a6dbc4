//! I2: the live units never exceed `total`, neither at the end nor at any moment before.

use super::{
    findings::{CheckResult, Findings, first_three},
    peak,
};
use crate::simulation::observations::Observations;

pub(super) fn check(observations: &Observations) -> CheckResult {
    let mut findings = Findings::default();
    let mut numbers = Vec::new();
    for (sku, live) in observations.live_units() {
        let Some(&total) = observations.totals.get(sku) else {
            findings.broken(format!("{live} units of {sku}, which was never on sale"));
            continue;
        };
        let peak = peak::peak_live_units(observations.orders.iter().filter(|order| order.sku == sku));
        let ledger = observations.ledger_stock().find(|(name, _)| *name == sku).map(|(_, ledger)| ledger);
        if live > total {
            findings.broken(format!("{sku}: {live} units are held or sold, only {total} exist"));
        }
        if peak > total {
            findings.broken(format!("{sku}: {peak} units were live at one moment, only {total} exist"));
        }
        match ledger {
            None => findings.unknown(format!("{sku}: the audit shows no ledger")),
            Some(ledger) if ledger.counted > total || ledger.live != ledger.counted => findings.broken(format!(
                "{sku}: the ledger counts {} live units and notes {}, {total} exist",
                ledger.counted, ledger.live
            )),
            Some(_) => {}
        }
        numbers.push(format!("{sku}: {live} live at the end, {peak} at most at once, of {total}"));
    }
    if observations.unreadable_orders() > 0 {
        findings.unknown(format!("{} orders could not be read", observations.unreadable_orders()));
    }
    findings.into_result("I2", "never more live units than stock", first_three(&numbers))
}

#[cfg(test)]
mod tests {
    use super::super::findings::{Finding, expect};
    use super::*;
    use crate::simulation::observations::LastSeen;
    use crate::wire::{LedgerStock, OrderStatus};

    fn ledger(sale: &mut Observations) -> &mut LedgerStock {
        sale.audit.as_mut().unwrap()[0].ledger.as_mut().unwrap()
    }

    #[test]
    fn overselling_for_a_moment_breaks_it_even_if_the_final_stock_is_right() {
        let numbers = expect(Finding::Broken, check, |sale| {
            for order in &mut sale.orders {
                order.quantity = 4;
                order.end = LastSeen::Status(OrderStatus::Cancelled);
            }
        });
        assert!(numbers.contains("12 units were live at one moment"), "{numbers}");
    }

    #[test]
    fn too_many_live_units_in_the_ledger_break_it() {
        expect(Finding::Broken, check, |sale| (ledger(sale).live, ledger(sale).counted) = (11, 11));
    }

    #[test]
    fn a_ledger_whose_row_and_orders_disagree_breaks_it() {
        expect(Finding::Broken, check, |sale| ledger(sale).live = 1);
    }

    #[test]
    fn it_is_unknown_while_an_order_is_unreadable() {
        expect(Finding::Unknown, check, |sale| sale.orders[0].end = LastSeen::Unreadable);
    }
}
