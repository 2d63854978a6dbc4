//! The table of a farm's shares.

use super::options::Options;
use super::sale::SaleResult;

/// All sales with one human check and one limit per address.
pub struct Row {
    pub check: &'static str,
    pub per_address: Option<u32>,
    pub results: Vec<SaleResult>,
}

/// A Markdown table: shares of the units as median, lowest and highest of the rounds.
pub fn table(options: &Options, rows: &[Row]) -> String {
    let mut text = format!(
        "{} accounts on {} addresses, {} s of processor time, a solver that reads {:.0} % of the pictures, {} hosted \
         checks bought; against {} honest buyers for {} units; rounds: {}\n\n\
         | human check | requests of an address | tickets of the farm | spent for them | share of the units |\n\
         |---|---|---|---|---|\n",
        options.accounts,
        options.addresses,
        options.cpu_seconds,
        options.accuracy * 100.0,
        options.bought,
        options.buyers,
        options.stock,
        options.rounds,
    );
    for row in rows {
        let limit = row.per_address.map_or("no limit".to_owned(), |count| format!("{count} in 30 min"));
        let tickets = spread(row.results.iter().map(|result| result.tickets).collect());
        let percent = |result: &SaleResult| result.farm_units * 100 / (result.farm_units + result.buyer_units).max(1);
        let shares = spread(row.results.iter().map(percent).collect());
        let spent = row.results.first().map(|result| result.spent.as_str()).unwrap_or_default();
        text += &format!("| {} | {limit} | {tickets} | {spent} | {shares} % |\n", row.check);
    }
    text
}

/// `median (lowest to highest)`, or one number if all are equal.
fn spread(mut numbers: Vec<usize>) -> String {
    numbers.sort_unstable();
    match (numbers.first(), numbers.get(numbers.len() / 2), numbers.last()) {
        (Some(low), Some(median), Some(high)) if low != high => format!("{median} ({low} to {high})"),
        (Some(low), ..) => low.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_their_spread() {
        assert_eq!(spread(vec![3, 9, 5]), "5 (3 to 9)");
        assert_eq!(spread(vec![4, 4]), "4");
    }
}
