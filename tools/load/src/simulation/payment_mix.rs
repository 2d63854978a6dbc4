//! Draws how a buyer pays: normally, declined, late, twice, or with a refund.

use fastrand::Rng;
use serde::Serialize;

/// Shares of the paying buyers, in percent; the rest pays once and in time.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct PaymentMix {
    /// Percent of the paying buyers whose payment is declined; their orders expire
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub decline: u8,

    /// Percent of the paying buyers who pay after their order has expired
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub late: u8,

    /// Percent of the paying buyers who pay twice, with two payments
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub twice: u8,

    /// Percent of the paying buyers who ask for a refund at once
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub refund: u8,
}

fn percent() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=100)
}

/// How one buyer pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PaymentBehaviour {
    /// Once, in time.
    Normal,
    /// The payment is declined.
    Declined,
    /// After the order has expired.
    Late,
    /// Twice, with two payments.
    Twice,
    /// Once, in time, followed by a refund request.
    RefundRequested,
}

impl PaymentMix {
    /// Sum of all shares, in percent.
    pub fn total_percent(self) -> u16 {
        [self.decline, self.late, self.twice, self.refund].into_iter().map(u16::from).sum()
    }

    /// Draws one behaviour. If all shares are 0, draws no random number, so that a seed plans the same visits as
    /// without payment behaviours.
    pub fn draw(self, rng: &mut Rng) -> PaymentBehaviour {
        if self.total_percent() == 0 {
            return PaymentBehaviour::Normal;
        }
        let mut draw = rng.u16(0..100);
        for (share, behaviour) in [
            (self.decline, PaymentBehaviour::Declined),
            (self.late, PaymentBehaviour::Late),
            (self.twice, PaymentBehaviour::Twice),
            (self.refund, PaymentBehaviour::RefundRequested),
        ] {
            match draw.checked_sub(share.into()) {
                None => return behaviour,
                Some(rest) => draw = rest,
            }
        }
        PaymentBehaviour::Normal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_respected() {
        let mix = PaymentMix { decline: 10, late: 20, twice: 30, refund: 0 };
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<_> = (0..10_000).map(|_| mix.draw(&mut rng)).collect();
        for (behaviour, share) in [
            (PaymentBehaviour::Declined, 10),
            (PaymentBehaviour::Late, 20),
            (PaymentBehaviour::Twice, 30),
            (PaymentBehaviour::RefundRequested, 0),
            (PaymentBehaviour::Normal, 40),
        ] {
            let count = drawn.iter().filter(|drawn| **drawn == behaviour).count();
            assert!(count.abs_diff(share * 100) < 150, "{behaviour:?}: {count}");
        }
        let none = PaymentMix { decline: 0, late: 0, twice: 0, refund: 0 };
        assert_eq!(none.draw(&mut rng), PaymentBehaviour::Normal);
    }
}
