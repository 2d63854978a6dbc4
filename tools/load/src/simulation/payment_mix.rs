//! How buyers who mean to pay go about it: most just pay, some are declined, late, pay twice, or want their money back.

use fastrand::Rng;
use serde::Serialize;

/// Shares of the buyers who mean to pay, in percent; the rest just pays.
#[derive(clap::Args, Debug, Clone, Copy)]
pub struct Manners {
    /// Percent of those who pay whose money is declined; their orders expire
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub decline: u8,

    /// Percent of those who pay who do so after their order has expired
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub late: u8,

    /// Percent of those who pay who do so twice, with two payments
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub twice: u8,

    /// Percent of those who pay who ask for their money back at once
    #[arg(long, default_value_t = 0, value_parser = percent())]
    pub refund: u8,
}

fn percent() -> clap::builder::RangedI64ValueParser<u8> {
    clap::value_parser!(u8).range(0..=100)
}

/// How one buyer pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// In time, once.
    Plain,
    /// Tries, and is declined.
    Declined,
    /// After the order has expired.
    Late,
    /// With two payments.
    Twice,
    /// And wants the money back.
    Refunded,
}

impl Manners {
    /// All shares together, in percent.
    pub fn sum(self) -> u16 {
        [self.decline, self.late, self.twice, self.refund].into_iter().map(u16::from).sum()
    }

    /// Draws one. Without shares nothing is drawn, so that a seed brings the same crowd as ever.
    pub fn draw(self, rng: &mut Rng) -> Manner {
        if self.sum() == 0 {
            return Manner::Plain;
        }
        let mut draw = rng.u16(0..100);
        for (share, manner) in [
            (self.decline, Manner::Declined),
            (self.late, Manner::Late),
            (self.twice, Manner::Twice),
            (self.refund, Manner::Refunded),
        ] {
            match draw.checked_sub(share.into()) {
                None => return manner,
                Some(rest) => draw = rest,
            }
        }
        Manner::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let manners = Manners { decline: 10, late: 20, twice: 30, refund: 0 };
        let mut rng = Rng::with_seed(1);
        let drawn: Vec<_> = (0..10_000).map(|_| manners.draw(&mut rng)).collect();
        for (manner, share) in [
            (Manner::Declined, 10),
            (Manner::Late, 20),
            (Manner::Twice, 30),
            (Manner::Refunded, 0),
            (Manner::Plain, 40),
        ] {
            let count = drawn.iter().filter(|drawn| **drawn == manner).count();
            assert!(count.abs_diff(share * 100) < 150, "{manner:?}: {count}");
        }
        let nobody = Manners { decline: 0, late: 0, twice: 0, refund: 0 };
        assert_eq!(nobody.draw(&mut rng), Manner::Plain);
    }
}
