//! Plans all visits from one seed: who, when, what, and what a winner does.

use fastrand::Rng;
use serde::Serialize;

use super::{
    options::{Options, PayAt},
    payment_mix::PaymentBehaviour,
};

/// What a winner does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    Pay,
    /// Opens the payment page and does not pay; the order expires.
    Open,
    Cancel,
    /// Does nothing; the order expires.
    Leave,
}

/// One planned reservation, with its own ticket.
#[derive(Debug, Clone)]
pub struct Visit {
    pub buyer: usize,
    pub sku: usize,
    pub quantity: u32,
    /// Position within the jitter of the start: 0 is first, 1 is last.
    pub start_fraction: f64,
    pub intent: Intent,
    pub payment_behaviour: PaymentBehaviour,
    /// Whether the request is sent twice at once.
    pub double_click: bool,
    /// Whether the buyer leaves the line, if they have to wait.
    pub leaves_line: bool,
    /// Whether this is a robot of the line, which sends many reservations.
    pub is_robot: bool,
}

/// Draws the visits of all buyers, then those of the robots. Greedy buyers make two visits for the same SKU.
pub fn draw_visits(options: &Options, seed: u64) -> Vec<Visit> {
    let mut rng = Rng::with_seed(seed);
    let mut visits = Vec::with_capacity(options.buyers as usize);
    for buyer in 0..options.buyers as usize {
        let visit = Visit {
            buyer,
            sku: rng.usize(0..options.skus as usize),
            quantity: rng.u32(1..=options.per_user),
            start_fraction: rng.f64(),
            intent: draw_intent(&mut rng, options),
            double_click: rng.f64() < options.double_share,
            payment_behaviour: options.payment_mix.draw(&mut rng),
            // Without a line, a seed plans the same visits as before there were lines.
            leaves_line: options.line.is_on() && rng.f64() < options.line.leave_share,
            is_robot: false,
        };
        if rng.f64() < options.greedy_share {
            // For as many units as the user may hold, so that the two visits together always exceed the limit.
            let greedy = Visit { quantity: options.per_user, ..visit };
            visits.push(Visit { intent: draw_intent(&mut rng, options), ..greedy.clone() });
            visits.push(greedy);
        } else {
            visits.push(visit);
        }
    }
    visits.extend((0..options.line.robots as usize).map(|robot| Visit {
        buyer: options.buyers as usize + robot,
        sku: robot % options.skus as usize,
        quantity: 1,
        start_fraction: 0.0,
        intent: Intent::Leave,
        payment_behaviour: PaymentBehaviour::Normal,
        double_click: false,
        leaves_line: false,
        is_robot: true,
    }));
    visits
}

fn draw_intent(rng: &mut Rng, options: &Options) -> Intent {
    let draw = rng.f64();
    if draw < options.pay_share {
        if options.pay == PayAt::Expire { Intent::Open } else { Intent::Pay }
    } else if draw < options.pay_share + options.cancel_share {
        Intent::Cancel
    } else {
        Intent::Leave
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Cli::parse_from(std::iter::once("sale").chain(line.split_whitespace())).options
    }

    #[test]
    fn the_same_seed_draws_the_same_visits() {
        let options = options("--buyers 200 --skus 3 --per-user 4");
        assert_eq!(format!("{:?}", draw_visits(&options, 7)), format!("{:?}", draw_visits(&options, 7)));
        assert_ne!(format!("{:?}", draw_visits(&options, 7)), format!("{:?}", draw_visits(&options, 8)));
    }

    #[test]
    fn shares_are_respected_and_greedy_buyers_exceed_their_limit() {
        let options = options("--buyers 10000 --per-user 3 --pay-share 0.5 --cancel-share 0.2 --greedy-share 0.1");
        let visits = draw_visits(&options, 1);
        assert!((10_800..11_200).contains(&visits.len()), "{}", visits.len());
        let paying = visits.iter().filter(|visit| visit.intent == Intent::Pay).count();
        assert!((0.47..0.53).contains(&(paying as f64 / visits.len() as f64)), "{paying}");
        let mut twice = visits.windows(2).filter(|pair| pair[0].buyer == pair[1].buyer);
        assert!(
            twice.all(|pair| { pair[0].sku == pair[1].sku && pair[0].quantity + pair[1].quantity > options.per_user })
        );
    }

    #[test]
    fn buyers_who_pay_open_the_page_only_where_all_payments_are_left_to_expire() {
        let visits = draw_visits(&options("--buyers 100 --pay-share 1 --pay expire"), 1);
        assert!(visits.iter().all(|visit| visit.intent == Intent::Open));
    }

    #[test]
    fn invalid_options_are_rejected() {
        assert!(options("--pay-share 0.9 --cancel-share 0.2").validate().is_err());
        assert!(options("--late 60 --twice 50").validate().is_err());
        assert!(options("--twice 10 --pay page").validate().is_err());
        assert!(options("--robots 1").validate().is_err());
        assert!(options("--robots 1 --line waitlist").validate().is_ok());
        assert!(options("--refund 10 --pay page").validate().is_ok());
        assert!(options("--buyers 10 --late 60 --twice 40").validate().is_ok());
    }
}
